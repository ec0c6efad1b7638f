"""Spark's measures against the world's own tally, which shares no code with them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from random_journal import Made, random_journal

from implicast.lab import tables
from implicast.lab.journals import JournalSource
from implicast.lab.measures import large
from implicast.lab.measures.all import measured as measured_by_spark
from implicast.lab.storage import Location
from implicast.world.invariants import ContractChecker
from implicast.world.simulate import notices
from implicast.world.tally import messages, tally

SEEDS = (1, 2, 3, 4)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    base = tmp_path_factory.mktemp("journals")
    return [random_journal(base / f"run=r{seed}", seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def measured(
    spark: SparkSession, made: list[Made], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("measures")
    measure(spark, sources(made), out)
    return out


def sources(made: list[Made]) -> list[JournalSource]:
    return [
        JournalSource(each.directory.name.removeprefix("run="), Location.of(each.directory))
        for each in made
    ]


def measure(spark: SparkSession, journals: list[JournalSource], out: Path) -> None:
    for name, table in measured_by_spark(spark, journals).items():
        pq.write_table(table, out / name)


def rows(out: Path, name: str) -> dict[str, dict[str, object]]:
    return {row["run"]: row for row in pq.read_table(out / name).to_pylist()}


def test_every_measure_equals_the_tally_of_the_same_journal(
    measured: Path, made: list[Made]
) -> None:
    found = rows(measured, "measures")

    for each in made:
        expected = tally(each.directory)
        run = found[each.directory.name.removeprefix("run=")]
        assert set(expected) <= set(run)
        for name, value in expected.items():
            assert run[name] == pytest.approx(value, rel=1e-9, abs=1e-12), (
                each.directory.name,
                name,
            )


def test_counts_equal_the_tally_to_the_last_digit(measured: Path, made: list[Made]) -> None:
    found = rows(measured, "measures")

    for each in made:
        expected = tally(each.directory)
        for name in (name for name in tables.MEASURES if name.endswith("_M")):
            assert found[each.directory.name.removeprefix("run=")][name] == expected[name], name


def test_the_contract_is_judged_as_the_world_judges_it(measured: Path, made: list[Made]) -> None:
    found = rows(measured, "contract")

    for each in made:
        report = ContractChecker(
            each.casts,
            each.registrations,
            notices(each.directory),
            each.away,
            each.course is None,
            each.forgotten,
        ).report()
        run = found[each.directory.name.removeprefix("run=")]
        assert {name: run[name] for name in tables.CONTRACT} == {
            name: getattr(report, name) for name in tables.CONTRACT
        }
        assert report.missing
        assert report.uninvited
        assert report.repeated
        assert report.invented
        assert report.late
        assert report.altered
        assert report.misreported
    assert any(run["excused"] for run in found.values())


def test_the_cost_of_each_phase_is_counted(measured: Path, made: list[Made]) -> None:
    costs = pq.read_table(measured / "costs").to_pylist()

    for each in made:
        name = each.directory.name.removeprefix("run=")
        mine = {row["phase"]: row for row in costs if row["run"] == name}
        expected = messages(each.directory)
        assert {phase: row["messages"] for phase, row in mine.items()} == expected["messages"]
        assert {phase: row["bytes"] for phase, row in mine.items()} == expected["bytes"]


def test_a_lorenz_curve_runs_from_nobody_to_everybody_below_the_diagonal(measured: Path) -> None:
    points = pq.read_table(measured / "lorenz").to_pylist()

    for load in ("TOUT", "TIN", "STOR"):
        curve = sorted(
            (p["share_of_peers"], p["share_of_load"])
            for p in points
            if p["run"] == "r1" and p["load"] == load
        )
        assert curve[0] == (0.0, 0.0)
        assert curve[-1] == (1.0, 1.0)
        assert all(y <= x + 1e-12 for x, y in curve)
        assert [y for _, y in curve] == sorted(y for _, y in curve)


@pytest.mark.parametrize(
    "pieces",
    [7, pytest.param(1, marks=pytest.mark.long), pytest.param(64, marks=pytest.mark.long)],
)
def test_pieces_and_partitions_change_no_bit(
    spark: SparkSession,
    made: list[Made],
    measured: Path,
    tmp_path: Path,
    pieces: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(large, "BLOCK_ROWS", 1500 // pieces)
    spark.conf.set("spark.sql.shuffle.partitions", pieces)
    try:
        measure(spark, sources(made), tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)

    for name in ("measures", "contract", "costs", "lorenz", "change"):
        tables_of = [pq.read_table(out / name).to_pylist() for out in (measured, tmp_path)]
        first, second = (sorted(tuple(row.values()) for row in rows) for rows in tables_of)
        assert first == second, name
        assert first, name
