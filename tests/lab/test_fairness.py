"""The seed's worked examples (thesis, Tables 4.4, 4.5, 4.6) and laws of the Gini coefficient and the Lorenz curve."""

import numpy as np
import pytest
from pyspark.sql import SparkSession

from implicast.lab.measures import facets
from implicast.lab.measures.blocks import Sums, summed
from implicast.lab.measures.blocks import gini as measured
from implicast.lab.measures.facets import lorenz
from implicast.lab.measures.fairness import histogram, unevenness
from implicast.world.tally import gini

MATRIX = [[12, 2, 15], [1, 0, 9], [35, 1, 21]]
"""Table 4.4 for peers and Table 4.6 for links: casts down, bearers across."""


def borne() -> Sums:
    """What the three bore in all casts, and in the worst."""
    load = np.array(MATRIX).ravel()
    return summed(np.tile(np.arange(3), 3), load, load)


@pytest.mark.parametrize("name", ["OUT", "INK"])
def test_tables_4_4_and_4_6_loads_of_three_peers_or_links_in_three_casts(name: str) -> None:
    found = facets.unevenness(name, borne().peak, borne().load)

    assert (found[f"P{name}_M"], found[f"T{name}_M"]) == (35, 48)
    assert found[f"T{name}_G"] == pytest.approx(0.3125, abs=1e-12)


def test_table_4_5_storage_of_three_peers() -> None:
    assert measured(np.array([2600, 4800, 3100])) == pytest.approx(0.1397, abs=5e-5)


def test_loads_that_no_whole_number_can_weigh_are_as_uneven_as_smaller_ones() -> None:
    small = np.arange(1, 1001)

    assert measured(small * 10**13) == pytest.approx(measured(small), rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 1.0])
def test_percentiles_of_counted_latencies_are_those_of_all_latencies(share: float) -> None:
    rng = np.random.default_rng(3)
    wait, times = np.unique(rng.integers(-5, 300, 1001), return_counts=True)

    found = facets._percentile(wait, np.cumsum(times), share)

    assert found == pytest.approx(np.quantile(np.repeat(wait, times), share), rel=1e-12)


@pytest.mark.spark
def test_the_gini_coefficient_counts_the_idle_and_agrees_with_its_definition(
    spark: SparkSession,
) -> None:
    rng = np.random.default_rng(7)
    cases = {
        "none": [0] * 5,
        "one": [0, 0, 0, 9],
        "same": [4] * 6,
        "mixed": rng.integers(0, 50, 200).tolist(),
        "huge": [10**12, 1, 5],
    }
    rows = [(name, value) for name, values in cases.items() for value in values if value]
    sizes = [(name, len(values)) for name, values in cases.items()]

    counted = histogram(
        spark.createDataFrame(rows, "run string, load long"),
        spark.createDataFrame(sizes, "run string, population long"),
    )
    found = {row["run"]: row for row in unevenness(counted, "largest", "gini").collect()}

    for name, values in cases.items():
        assert found[name]["gini"] == pytest.approx(gini(np.array(values)), abs=1e-12), name
        assert found[name]["largest"] == max(values), name


def test_the_area_under_the_lorenz_curve_is_what_the_gini_coefficient_leaves() -> None:
    values = np.array([0, 0, 1, 1, 2, 5, 9, 30])

    curve = sorted((row["share_of_peers"], row["share_of_load"]) for row in lorenz(values, "TOUT"))

    x, y = zip(*curve, strict=True)
    assert 1 - 2 * np.trapezoid(y, x) == pytest.approx(gini(values), abs=1e-12)


def test_where_one_bears_all_the_lorenz_curve_goes_through_the_corner() -> None:
    curve = {
        (row["share_of_peers"], row["share_of_load"])
        for row in lorenz(np.array([0] * 499 + [700]), "TOUT")
    }

    assert curve == {(0.0, 0.0), (499 / 500, 0.0), (1.0, 1.0)}
