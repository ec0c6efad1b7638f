"""Means over seeds and their confidence intervals."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from scipy.stats import t

from implicast.lab.measures.summary import summary


@pytest.mark.spark
def test_the_interval_is_students(spark: SparkSession) -> None:
    values = [3.0, 5.0, 4.0, 8.0, 5.5]
    placed = {"series": "a", "design": "a", "axis": "x", "point": "1", "position": 0}
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
