"""The seed's worked examples (thesis, Tables 4.4, 4.5, 4.6) and laws of the Gini coefficient and the Lorenz curve."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab.measures import peer
from implicast.lab.measures.blocks import summed
from implicast.lab.measures.fairness import histogram, lorenz, unevenness
from implicast.world.tally import gini

pytestmark = pytest.mark.spark

MATRIX = [[12, 2, 15], [1, 0, 9], [35, 1, 21]]
"""Table 4.4 for peers and Table 4.6 for links: casts down, bearers across."""


def borne(spark: SparkSession, bearer: str) -> DataFrame:
    """What the three bore in all casts, and in the worst: (run, bearer, load, peak)."""
    key, load = np.tile(np.arange(3), 3), np.array(MATRIX).ravel()
    sums = summed(key, load, load)
    columns = {"run": ["a run"] * 3, bearer: sums.key, "load": sums.load, "peak": sums.peak}
    return spark.createDataFrame(pa.table(columns))


def population(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(1).select(F.lit("a run").alias("run"), F.lit(count).alias("population"))


def test_table_4_4_outgoing_load_of_three_peers_in_three_casts(spark: SparkSession) -> None:
    found = peer.facet(borne(spark, "peer"), population(spark, 3), "OUT").collect()[0]

    assert (found["POUT_M"], found["TOUT_M"]) == (35, 48)
    assert found["TOUT_G"] == pytest.approx(0.3125, abs=1e-12)


def test_table_4_5_storage_of_three_peers(spark: SparkSession) -> None:
    table = pa.table({"run": ["a run"] * 3, "peer": [0, 1, 2], "storage_bytes": [2600, 4800, 3100]})

    found = peer.storage(spark.createDataFrame(table)).collect()[0]

    assert found["STOR_M"] == 4800
    assert found["STOR_G"] == pytest.approx(0.1397, abs=5e-5)


def test_table_4_6_packets_on_three_links_in_three_casts(spark: SparkSession) -> None:
    found = peer.facet(borne(spark, "link"), population(spark, 3), "INK").collect()[0]

    assert (found["PINK_M"], found["TINK_M"]) == (35, 48)
    assert found["TINK_G"] == pytest.approx(0.3125, abs=1e-12)


def test_the_gini_coefficient_counts_the_idle_and_agrees_with_its_definition(spark: SparkSession) -> None:
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


def test_the_area_under_the_lorenz_curve_is_what_the_gini_coefficient_leaves(spark: SparkSession) -> None:
    values = [1, 1, 2, 5, 9, 30]

    counted = histogram(
        spark.createDataFrame([("a run", value) for value in values], "run string, load long"), population(spark, 8)
    )
    curve = sorted((row["share_of_peers"], row["share_of_load"]) for row in lorenz(counted, "TOUT").collect())

    x, y = zip(*curve, strict=True)
    assert 1 - 2 * np.trapezoid(y, x) == pytest.approx(gini(np.array([0, 0, *values])), abs=1e-12)


def test_where_one_bears_all_the_lorenz_curve_goes_through_the_corner(spark: SparkSession) -> None:
    counted = histogram(spark.createDataFrame([("a run", 700)], "run string, load long"), population(spark, 500))

    curve = {(row["share_of_peers"], row["share_of_load"]) for row in lorenz(counted, "TOUT").collect()}

    assert curve == {(0.0, 0.0), (499 / 500, 0.0), (1.0, 1.0)}
