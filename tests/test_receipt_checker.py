"""The independent checker of receipts agrees with the judge, and finds errors that are put into journals."""

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from receipt_checker import false_receipts, rows

CHECKER = Path(__file__).parent / "receipt_checker.py"
CHURN = "joins=3,leaves=2,crashes=3,returns=3,disk=any,freezes=2,cuts=1,splits=1,anew=3,over_s=20"
DESIGNS = ("dht", "condcast", "spice", "bft", "broker", "centralised", "condcast values")
SCENARIOS = {
    f"{name} {world} {seed}": (name, world, seed)
    for name in DESIGNS
    for world, seed in (("quiet", 1), ("lossy", 2), ("hostile", 3))
}


@cache
def ran(name: str) -> tuple[Path, int]:
    """The journal of a scenario, and how many receipts the judge found false."""
    named, world, seed = SCENARIOS[name]
    design, _, values = named.partition(" ")
    scenario = Scenario(
        design,
        peers=24,
        casts=40,
        seed=seed,
        parameters={"assurance": "receipts"},
        workload="attributes" if values else "groups",
        register="messages",
        interval_ms=1000,
        changes=0 if world == "quiet" else 6,
        faults=Faults() if world == "quiet" else Faults.parse("loss=0.05,duplicate=0.02"),
        churn=Churn.parse(CHURN) if world == "hostile" else Churn(),
    )
    journal = Path(mkdtemp(prefix="receipts-")) / "journal"
    return journal, simulate(scenario, journal).contract.misreported


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_agrees_with_the_judge(name: str) -> None:
    journal, misreported = ran(name)

    assert len({one.cast for one in false_receipts(journal)}) == misreported


def changed(
    journal: Path, to: Path, table: str, change: Callable[[list[dict]], list[dict]]
) -> Path:
    """A copy of a journal in which one table was changed."""
    to.mkdir()
    for name in ("casts", "notices", "registrations", "incarnations"):
        path = journal / f"{name}.parquet"
        if path.exists():
            found = pq.read_table(path)
            if name == table:
                found = pa.Table.from_pylist(change(found.to_pylist()), found.schema)
            pq.write_table(found, to / path.name)
    return to


def answered(journal: Path) -> dict:
    """A cast that notified members, with a true and complete receipt."""
    false = {one.cast for one in false_receipts(journal)}
    return next(
        row
        for row in rows(journal, "casts")
        if (row["notified"] or 0) > 1 and not row["uncertain"] and row["cast"] not in false
        if not row["unreachable"] + row["declined"]
    )


def with_receipt(cast: int, **other: int) -> Callable[[list[dict]], list[dict]]:
    """The receipt of a cast counts so many more."""
    return lambda found: [
        {**row, **{name: row[name] + more for name, more in other.items()}}
        if row["cast"] == cast
        else row
        for row in found
    ]


@pytest.mark.parametrize("name", ["dht quiet 1", "spice lossy 2", "centralised hostile 3"])
@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"notified": 1}, "notified"),
        ({"unreachable": 50}, "sum"),
        ({"declined": 50}, "sum"),
    ],
)
def test_a_receipt_that_was_made_false_is_found(
    name: str, more: dict, rule: str, tmp_path: Path
) -> None:
    journal, _ = ran(name)
    cast = answered(journal)["cast"]
    planted = changed(journal, tmp_path / "planted", "casts", with_receipt(cast, **more))

    assert rule in {one.rule for one in false_receipts(planted) if one.cast == cast}


@pytest.mark.parametrize("name", ["dht quiet 1", "spice quiet 1", "centralised quiet 1"])
@pytest.mark.parametrize("counted", ["", "unreachable", "declined", "uncertain"])
def test_a_lost_notice_makes_a_complete_receipt_false_unless_it_is_counted(
    name: str, counted: str, tmp_path: Path
) -> None:
    """A notice is removed, and the receipt counts one notified member less."""
    journal, _ = ran(name)
    cast = answered(journal)["cast"]
    lost = next(row for row in rows(journal, "notices") if row["cast"] == cast)
    without = changed(
        journal, tmp_path / "without", "notices", lambda found: [x for x in found if x != lost]
    )
    other = {"notified": -1} | ({counted: 1} if counted else {})
    planted = changed(without, tmp_path / "planted", "casts", with_receipt(cast, **other))

    found = {one.rule for one in false_receipts(planted) if one.cast == cast}

    assert found == (set() if counted else {"complete"})


def test_a_late_notice_makes_a_complete_receipt_false(tmp_path: Path) -> None:
    journal, _ = ran("dht quiet 1")
    cast = answered(journal)
    last = next(row for row in rows(journal, "notices") if row["cast"] == cast["cast"])
    late = {**last, "time_us": cast["settled_us"] + 1}
    planted = changed(
        journal,
        tmp_path / "planted",
        "notices",
        lambda found: [late if row == last else row for row in found],
    )

    assert {one.rule for one in false_receipts(planted)} == {"notified", "complete"}


def test_a_member_that_crashed_before_its_notice_is_owed_nothing(tmp_path: Path) -> None:
    """A notice is removed; the receipt stays complete only if the member was gone."""
    journal, _ = ran("centralised hostile 3")
    cast = answered(journal)
    lost = next(row for row in rows(journal, "notices") if row["cast"] == cast["cast"])
    without = changed(
        journal, tmp_path / "without", "notices", lambda found: [x for x in found if x != lost]
    )
    fewer = changed(without, tmp_path / "fewer", "casts", with_receipt(cast["cast"], notified=-1))

    def gone(found: list[dict]) -> list[dict]:
        crashed = {"to_us": cast["time_us"] + 1_000, "end": "crashed"}
        return [row | crashed if row["peer"] == lost["peer"] else row for row in found]

    planted = changed(fewer, tmp_path / "planted", "incarnations", gone)

    assert {one.rule for one in false_receipts(fewer) if one.cast == cast["cast"]} == {"complete"}
    assert not [one for one in false_receipts(planted) if one.cast == cast["cast"]]


def test_the_command_prints_a_line_for_each_and_ends_with_1(tmp_path: Path) -> None:
    journal, _ = ran("dht quiet 1")
    cast = answered(journal)["cast"]
    changed(journal, tmp_path / "run=1", "casts", with_receipt(cast, notified=1))

    def checked(path: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(CHECKER), str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    clean, false, none = checked(journal), checked(tmp_path), checked(CHECKER.parent / "world")
    assert (clean.returncode, clean.stdout) == (0, "")
    assert false.returncode == 1
    assert [f"cast {cast}: notified" in line for line in false.stdout.splitlines()] == [True]
    assert none.returncode == 2
