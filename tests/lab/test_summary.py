"""Means over seeds and their confidence intervals."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from scipy.stats import t

from implicast.lab.measures.summary import summary


@pytest.mark.spark
def test_the_interval_is_students(spark: SparkSession) -> None:
    values = [3.0, 5.0, 4.0, 8.0, 5.5]
    placed = {"series": "a", "design": "a", "axis": "x", "position": 0}
    placed |= {"point": 1.0, "point_label": "1"}
    runs = spark.createDataFrame(
        pa.Table.from_pylist([{"run": str(n), **placed} for n in range(5)])
    )
    measured = spark.createDataFrame(pa.table({"run": [str(n) for n in range(5)], "RTH": values}))

    row = summary(runs, measured, ["RTH"]).collect()[0]

    low, high = t.interval(
        0.95, 4, loc=5.1, scale=(sum((v - 5.1) ** 2 for v in values) / 4 / 5) ** 0.5
    )
    assert (row["runs"], row["mean"]) == (5, pytest.approx(5.1))
    assert (row["low"], row["high"]) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.spark
def test_one_seed_has_no_interval_and_a_point_that_is_no_number_none(spark: SparkSession) -> None:
    placed = {"series": "a", "design": "a", "axis": "map", "point_label": "Kdl", "position": 0}
    schema = pa.schema([*((name, pa.string()) for name in placed), ("point", pa.float64())])
    schema = schema.set(4, pa.field("position", pa.int32())).insert(0, pa.field("run", pa.string()))
    runs = spark.createDataFrame(pa.Table.from_pylist([{"run": "r", **placed}], schema))
    measured = spark.createDataFrame(pa.table({"run": ["r"], "RTH": [3.0]}))

    row = summary(runs, measured, ["RTH"]).collect()[0]

    assert (row["point"], row["point_label"], row["runs"], row["mean"]) == (None, "Kdl", 1, 3.0)
    assert (row["low"], row["high"]) == (None, None)
