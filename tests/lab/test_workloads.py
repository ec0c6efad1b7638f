"""Workloads on Spark are the ones a world draws, however they are cut."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from implicast.lab import describe, tables, workloads
from implicast.lab.storage import Location
from implicast.lab.workloads import Recipe
from implicast.peer.errors import LocalError
from implicast.workload.workload import workload

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("zipf", {"skew": 1.3, "terms": 2, "negated": 1}),
        ("extreme", {}),
        ("groups", {"share": 0.2}),
    ],
)
def test_a_world_draws_the_same_from_the_same_seed(
    spark: SparkSession, name: str, settings: dict[str, float]
) -> None:
    recipe = Recipe(name, 7, 300, 20, settings)

    registered = {
        row["peer"]: tuple(row["tags"]) for row in workloads.registrations(spark, recipe).collect()
    }
    cast = {
        row["cast"]: (row["publisher"], row["target"])
        for row in workloads.casts(spark, recipe).collect()
    }

    drawn = workload(name, 7, 300, 20, **settings)
    assert registered == {peer: each.tags for peer, each in enumerate(drawn.described())}
    assert cast == {
        n: (drawn.publisher(n), str(target)) for n, target in enumerate(drawn.targeted())
    }


def test_ranges_and_partitions_do_not_change_a_workload(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe("zipf", 3, 1000, 50)
    whole = sorted(map(tuple, workloads.registrations(spark, recipe).collect()))

    monkeypatch.setattr(workloads, "RANGE", 77)

    assert sorted(map(tuple, workloads.registrations(spark, recipe).collect())) == whole


def test_a_written_workload_is_read_back_by_a_world_and_described(
    spark: SparkSession, tmp_path: Path
) -> None:
    recipe = Recipe("zipf", 1, 400, 60)

    workloads.write(spark, recipe, Location.of(tmp_path / "w"))
    describe.describe(spark, Location.of(tmp_path / "w"))

    stated, drawn = workload(str(Location.of(tmp_path / "w")), 1), recipe.make()
    assert stated.described() == drawn.described()
    assert stated.targeted() == drawn.targeted()
    told = describe.described(Location.of(tmp_path / "w"))
    assert told["tags_sizes"]["mean"] == 2.0
    ranks = pq.read_table(tmp_path / "w" / "ranks").to_pylist()
    assert sum(row["frequency"] for row in ranks if row["of"] == "registrations") == 400 * 18


def test_a_wrong_recipe_is_refused_before_any_work(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="skew=9"):
        workloads.write(spark, Recipe("zipf", 1, 10, 10, {"skew": 9}), Location.of(tmp_path / "w"))
    assert not (Location.of(tmp_path / "w")).exists()


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_the_fitted_exponent_is_the_one_that_was_drawn_with(exponent: float) -> None:
    frequencies = [round(1e7 * rank**-exponent) for rank in range(1, 2001)]

    found = describe.fit(frequencies)

    assert found.likelihood == pytest.approx(exponent, abs=0.01)
    assert found.slope == pytest.approx(exponent, abs=0.02)


def test_a_table_with_other_columns_is_refused_by_name(tmp_path: Path, spark: SparkSession) -> None:
    from implicast.lab.errors import TableError

    spark.range(3).write.parquet(str(tmp_path / "registrations"))

    with pytest.raises(TableError, match="lacks the column 'peer'; it has id"):
        tables.read(
            spark, Location.of(tmp_path / "registrations"), tables.WORKLOAD["registrations"]
        )
    with pytest.raises(TableError, match="there is no table casts"):
        tables.read(spark, Location.of(tmp_path / "casts"), tables.WORKLOAD["casts"])
