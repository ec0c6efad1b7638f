"""Groups do not change with partitions nor with the order of rows; for measures see `test_measures.py`."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from implicast.lab import groups, workloads
from implicast.lab.workloads import Recipe

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_groups_are_the_same_bitmaps(spark: SparkSession, partitions: int) -> None:
    recipe = Recipe("zipf", 2, 500, 40)
    registrations, casts = workloads.registrations(spark, recipe), workloads.casts(spark, recipe)
    expected = sorted(map(tuple, groups.groups(registrations, casts).collect()))

    dealt = groups.groups(
        registrations.repartition(partitions, F.rand(1)), casts.repartition(partitions, F.rand(2))
    )

    assert sorted(map(tuple, dealt.collect())) == expected
