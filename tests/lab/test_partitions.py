"""Results do not change with the number of partitions nor with the order of rows."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from random_journal import Made, random_journal

from implicast.lab import groups, workloads
from implicast.lab.journals import Journals
from implicast.lab.measures.all import measure
from implicast.lab.workloads import Recipe

pytestmark = pytest.mark.spark

TABLES = ("measures", "contract", "costs", "lorenz")


class Shuffled(Journals):
    """The same journals, their rows dealt out at random to so many partitions."""

    partitions = 1

    def table(self, name: str) -> DataFrame:
        return super().table(name).repartition(self.partitions, F.rand(self.partitions))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    base = tmp_path_factory.mktemp("shuffled")
    return [random_journal(base / f"run=r{seed}", seed, peers=25, casts=10, sends=300) for seed in (5, 6)]


def measured(spark: SparkSession, made: list[Made], partitions: int, out: Path) -> dict[str, list[tuple[object, ...]]]:
    journals = Shuffled(spark, [each.directory for each in made])
    journals.partitions = partitions
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        measure(journals, out)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)
    return {name: sorted(tuple(row.values()) for row in pq.read_table(out / name).to_pylist()) for name in TABLES}


@pytest.mark.parametrize("partitions", [7, pytest.param(64, marks=pytest.mark.long)])
def test_measures_are_the_same_to_the_last_bit(
    spark: SparkSession, made: list[Made], tmp_path: Path, partitions: int
) -> None:
    one = measured(spark, made, 1, tmp_path / "one")

    assert measured(spark, made, partitions, tmp_path / "many") == one


@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_groups_are_the_same_bitmaps(spark: SparkSession, partitions: int) -> None:
    recipe = Recipe("zipf", 2, 500, 40)
    registrations, casts = workloads.registrations(spark, recipe), workloads.casts(spark, recipe)
    expected = sorted(map(tuple, groups.groups(registrations, casts).collect()))

    dealt = groups.groups(registrations.repartition(partitions, F.rand(1)), casts.repartition(partitions, F.rand(2)))

    assert sorted(map(tuple, dealt.collect())) == expected
