"""The laboratory's measures of change against the world's own, on random journals and for every design that survives
change.
"""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from random_journal import IN_PEACE, Made, random_journal

from implicast.casting.designs import designs
from implicast.lab import tables
from implicast.lab.experiment import read
from implicast.lab.folder import Folder
from implicast.lab.journals import JournalSource
from implicast.lab.measures.all import measured
from implicast.lab.measures.summary import PLACE, summary
from implicast.lab.run import changes, disagreements, run
from implicast.lab.storage import Location
from implicast.world.change import change
from implicast.world.invariants import ContractChecker, for_good
from implicast.world.simulate import notices

pytestmark = pytest.mark.spark

SEEDS = tuple(seed for seed in range(1, 12) if seed % 3)
ALIVE = [name for name, each in designs().items() if each.survives]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    base = tmp_path_factory.mktemp("journals")
    return [random_journal(base / f"run=r{seed}", seed) for seed in (*SEEDS, 3)]


@pytest.fixture(scope="module")
def found(spark: SparkSession, made: list[Made]) -> dict[str, dict]:
    sources = [
        JournalSource(each.directory.name.removeprefix("run="), Location.of(each.directory))
        for each in made
    ]
    return {row["run"]: row for row in measured(spark, sources)["change"].to_pylist()}


def test_only_runs_in_which_something_changed_have_measures_of_change(found, made):
    assert set(found) == {
        each.directory.name.removeprefix("run=") for each in made if each.course is not None
    }
    assert "r3" not in found


def test_every_measure_of_change_equals_the_worlds_on_journals_made_at_random(found, made):
    for each in (one for one in made if one.course is not None):
        judge = ContractChecker(
            each.casts,
            each.registrations,
            notices(each.directory),
            each.away,
            forgotten=each.forgotten,
        )
        own = change(each.directory, each.course, judge, [])
        row = found[each.directory.name.removeprefix("run=")]
        for name in (
            "repair_s_median",
            "repair_s_max",
            "sudden",
            "settle_s_max",
            "unrepaired",
            "calm_s",
            "allowed_s",
            "upkeep_per_peer_minute",
            "storm",
            "returns",
            "return_s_max",
        ):
            assert row[name] == pytest.approx(getattr(own, name), rel=1e-9), name
        rest = own.described()["upkeep_at_rest"]
        assert row["upkeep_at_rest"] == (None if rest is None else pytest.approx(rest, rel=1e-9))
        for name in tables.CONTRACT:
            assert row[f"during_{name}"] == getattr(own.during, name), name
            assert row[f"after_{name}"] == getattr(own.after, name), name
        assert row["delivery_ratio"] == pytest.approx(own.during.delivery_ratio)
        assert row["delivery_ratio_after"] == pytest.approx(own.after.delivery_ratio)


def test_in_peace_leaving_is_no_excuse(made):
    peaceful = next(each for each in made if each.directory.name == f"run=r{IN_PEACE}")
    leaving_us = {
        peer: incarnation.leaving_us
        for peer, incarnation in peaceful.incarnations
        if incarnation.leaving_us is not None
    }
    judged = [
        ContractChecker(
            peaceful.casts, peaceful.registrations, notices(peaceful.directory), for_good(gone_us)
        )
        .report()
        .excused
        for gone_us in (peaceful.gone_us, leaving_us | peaceful.gone_us)
    ]

    assert judged[0] < judged[1], "else the journal that must be judged alike shows nothing"


def test_complaints_are_about_those_who_live(found, made):
    for each in (one for one in made if one.course is not None):
        newest = {one.peer: one for one in sorted(each.registrations, key=lambda one: one.version)}
        expected = 0
        for peer, incarnation in each.incarnations:
            if incarnation.end == "stayed":
                opened = (
                    peer in newest
                    and newest[peer].completed_us is None
                    and incarnation.leaving_us is None
                )
                expected += (
                    (incarnation.joined_us is None) + (incarnation.leaving_us is not None) + opened
                )
        assert found[each.directory.name.removeprefix("run=")]["complaints"] == expected


def test_random_journals_show_every_kind_of_fault(found):
    rows = list(found.values())
    for name in (
        "wrong",
        "late",
        "unrepaired",
        "complaints",
        "during_missing",
        "after_missing",
        "during_excused",
    ):
        assert any(row[name] for row in rows), name
    assert {row["upkeep_at_rest"] is None for row in rows} == {False, True}, (
        "long rests and short ones"
    )
    assert {row["sudden"] > 0 for row in rows} == {False, True}, (
        "deeds without a word, and only joins and leaves"
    )
    assert any(row["sudden"] > 0 and row["settle_s_max"] for row in rows)
    assert any(math.isinf(row["calm_s"]) for row in rows) or all(
        row["unrepaired"] == 0 for row in rows
    )


EVERY = """
title = "Every design that survives"
about = "A little of everything, on a small network."
source = "nowhere"
designs = "surviving"
[axis]
of = "churn"
[scenario]
peers = 20
casts = 100
network = "national"
workload = "groups"
faults = "loss=0.01"
[small]
values = ["joins=4,leaves=2,crashes=2,freezes=1,over_s=20"]
runs = 1
[paper]
values = ["joins=1"]
"""


@pytest.fixture(scope="module")
def every(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("surviving")
    went = run(spark, read("every", EVERY), directory)
    assert not went.failed, [
        Folder(Location.of(directory), "every").error(name) for name in went.failed
    ]
    return directory


def test_measures_of_change_equal_the_worlds_for_every_surviving_design(every: Path):
    rows = {row["run"]: row for row in pq.read_table(every / "change").to_pylist()}
    runs = pq.read_table(every / "runs").to_pylist()

    assert {row["design"] for row in runs} == set(ALIVE)
    assert disagreements(Folder(Location.of(every), "every")) == []
    for each in runs:
        own = Folder(Location.of(every), "every").outcome(each["run"])["change"]
        row = rows[each["run"]]
        for name in (
            "delivery_ratio",
            "delivery_ratio_after",
            "repair_s_median",
            "repair_s_max",
            "settle_s_max",
            "unrepaired",
            "upkeep_per_peer_minute",
            "upkeep_at_rest",
            "storm",
            "returns",
            "return_s_max",
        ):
            assert row[name] == pytest.approx(own[name], rel=1e-9), (each["run"], name)
        for name in tables.CONTRACT:
            assert (row[f"during_{name}"], row[f"after_{name}"]) == (
                own["during"][name],
                own["after"][name],
            ), each
        assert row["complaints"] == len(own["complaints"])
        assert row["kept"] == own["kept"]
        assert row["storm"] >= 1


def test_designs_take_part_with_the_parameters_with_which_they_survive(every: Path):
    for row in pq.read_table(every / "runs").to_pylist():
        alive = dict(designs()[row["design"]].trial)
        assert json.loads(row["scenario"])["parameters"] == alive


def test_the_summary_has_every_measure_of_change(every: Path):
    measures = {row["measure"] for row in pq.read_table(every / "summary").to_pylist()}

    assert set(tables.CHANGE) <= measures


def test_a_mean_is_of_the_runs_that_took_the_measure(spark: SparkSession):
    """Three runs: joins alone, short rest; a crash, repaired in 20 s, short rest; one repaired in 30 s, long rest."""
    told = [("a", 1.0, 0, None), ("b", 20.0, 1, None), ("c", 30.0, 2, 12.0)]
    blank = {field.name: 0 for field in tables.RUN_CHANGE} | {"kept": True}
    rows = [
        {
            **blank,
            "run": run,
            "repair_s_median": repair_s,
            "repair_s_max": repair_s,
            "sudden": sudden,
            "upkeep_at_rest": rest,
        }
        for run, repair_s, sudden, rest in told
    ]
    taken = changes(spark.createDataFrame(pa.Table.from_pylist(rows, tables.RUN_CHANGE)))
    placed = [
        (run, "spice", "spice", "x", float(point), point, 0)
        for run, point in (("a", "1"), ("b", "1"), ("c", "1"), ("a", "2"))
    ]
    runs = spark.createDataFrame(placed, ["run", *PLACE])

    found = summary(runs, taken, ["repair_s_max", "upkeep_at_rest", "storm"]).collect()

    means = {(row["point_label"], row["measure"]): (row["runs"], row["mean"]) for row in found}
    assert means == {
        ("1", "repair_s_max"): (2, 25.0),
        ("1", "upkeep_at_rest"): (1, 12.0),
        ("1", "storm"): (3, 0.0),
        ("2", "storm"): (1, 0.0),
    }
