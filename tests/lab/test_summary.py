"""Means over seeds and their confidence intervals; what was published beside what was measured."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from scipy.stats import t

from implicast.lab.experiment import Published
from implicast.lab.measures.summary import summary
from implicast.lab.report.claims import compare


@pytest.mark.spark
def test_the_interval_is_students(spark: SparkSession) -> None:
    values = [3.0, 5.0, 4.0, 8.0, 5.5]
    placed = {"series": "a", "design": "a", "axis": "x", "point": "1", "position": 0}
    runs = spark.createDataFrame(pa.Table.from_pylist([{"run": str(n), **placed} for n in range(5)]))
    measured = spark.createDataFrame(pa.table({"run": [str(n) for n in range(5)], "RTH": values}))

    row = summary(runs, measured, ["RTH"]).collect()[0]

    low, high = t.interval(0.95, 4, loc=5.1, scale=(sum((v - 5.1) ** 2 for v in values) / 4 / 5) ** 0.5)
    assert (row["runs"], row["mean"]) == (5, pytest.approx(5.1))
    assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))


def rows(**means: float) -> list[dict[str, object]]:
    return [
        {
            "series": series.replace("_", "-"),
            "measure": "RTH",
            "point": "64",
            "position": 1,
            "mean": mean,
            "low": mean,
            "high": mean + 1,
        }
        for series, mean in means.items()
    ]


@pytest.mark.parametrize(
    ("bounds", "met"),
    [
        ({"value": 2.0}, True),
        ({"value": 3.0}, False),
        ({"at_most": 2.0}, True),
        ({"at_most": 1.9}, False),
        ({"at_least": 2.1}, False),
    ],
)
def test_a_claim_is_met_or_not(bounds: dict[str, float], met: bool) -> None:
    claim = Published("about two", "spice", "RTH", at="64", **bounds)

    found = compare(claim, rows(spice=2.0))

    assert found is not None
    assert found.verdict == ("met" if met else "not met")


def test_a_claim_against_another_design_is_a_ratio_and_one_without_its_design_is_left_out() -> None:
    claim = Published("a tenth", "spice", "RTH", against="centralised", at_most=0.1)

    found = compare(claim, rows(spice=2.0, centralised=40.0))

    assert found is not None
    assert (found.measured, found.verdict) == ("0.05 times centralised", "met")
    assert compare(claim, rows(centralised=40.0)) is None


def test_a_point_that_was_not_run_is_named() -> None:
    found = compare(Published("says", "spice", "RTH", at="4096", at_most=3.0), rows(spice=2.0))

    assert found is not None
    assert found.at == "64 (the paper's 4096 was not run)"
