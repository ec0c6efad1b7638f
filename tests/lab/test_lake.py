"""A lake under several gatherers that are killed: every row once, names numbered once; and its upkeep."""

import asyncio
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from lake_rows import Named, named_rows

from implicast.cli import main
from implicast.lab import delta, lake, node_journals
from implicast.lab.delta import LakeTable
from implicast.lab.errors import LakeConflict, TableError
from implicast.lab.gather import Gatherer
from implicast.lab.lake import Lake
from implicast.lab.storage import Location
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec

PEOPLE = [
    MemberSpec("ann", "samba, football"),
    MemberSpec("bob", "jazz, football"),
    MemberSpec("cy", "jazz, chess"),
    MemberSpec("di", "samba, chess"),
]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that lived and stopped; its journals stay."""
    where = tmp_path_factory.mktemp("lived") / "net"

    async def story() -> None:
        local = LocalNetwork(where, "dht", PEOPLE, plain=True, limits=False, journal=True)
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        try:
            for who in PEOPLE:
                for target in ("jazz", "samba | chess", "football & !jazz"):
                    await tasks.nodes[who.name].cast(target, b"x")
        finally:
            await tasks.stop()

    asyncio.run(story())
    return where


@pytest.fixture(autouse=True)
def many_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_journals, "STEP_BYTES", 1_500)
    monkeypatch.setattr(node_journals, "PIECE_BYTES", 500)


@pytest.fixture(scope="module")
def expected(net: Path, tmp_path_factory: pytest.TempPathFactory) -> Named:
    place = tmp_path_factory.mktemp("one") / "lake"
    Gatherer(net, place, "r").take()
    found = named_rows(place)
    assert len(found["sends"]) > 150
    assert len(found["notices"]) > 10
    return found


class Killed(BaseException):
    """The process is gone: nothing after it runs, not even what handles errors."""


POINTS = {
    "before a file is written": (LakeTable, "stage"),
    "before the step is committed": (Lake, "_begin"),
    "after the step, before its tables": (Lake, "_apply"),
    "between two tables": (Lake, "_add"),
    "before old states are removed": (Lake, "_forget_states"),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_gatherer_killed_anywhere_is_followed_by_one_that_gives_every_row_once(
    net: Path, expected: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    owner, name = POINTS[point]
    own, calls = getattr(owner, name), [0]

    def perhaps(*given, **named):
        calls[0] += 1
        if calls[0] % 7 == 3:
            raise Killed
        return own(*given, **named)

    monkeypatch.setattr(owner, name, perhaps)
    killed = 0
    while True:
        try:
            Gatherer(net, tmp_path / "lake", "r").take()
            break
        except Killed:
            killed += 1

    assert killed > 1
    assert named_rows(tmp_path / "lake") == expected


def test_a_gatherer_that_is_interrupted_in_a_step_makes_it_again(
    net: Path, expected: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gatherer, own, calls = Gatherer(net, tmp_path / "lake", "r"), Lake.commit, [0]

    def perhaps(*given, **named):
        calls[0] += 1
        if calls[0] in (2, 5):
            raise KeyboardInterrupt
        return own(*given, **named)

    monkeypatch.setattr(Lake, "commit", perhaps)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            gatherer.take()
    gatherer.take()

    assert named_rows(tmp_path / "lake") == expected


def test_two_gatherers_in_turns_of_one_step_give_every_row_once(
    net: Path, expected: Named, tmp_path: Path
) -> None:
    one, two = (Gatherer(net, tmp_path / "lake", "r") for _ in range(2))
    for each in (one, two):
        each._journals.look()
    lost = 0
    made: object = True
    while made is not None:  # `one` is always a step ahead of what `two` knows
        made = one._make_step()
        try:
            two._make_step()
        except LakeConflict:
            lost += 1
            two._load()
        one._load()

    assert lost > 5
    assert named_rows(tmp_path / "lake") == expected
    assert len(one.lake._steps.files()) == one._step


def test_a_copy_of_a_journal_on_another_disk_is_not_gathered_again(
    net: Path, expected: Named, tmp_path: Path
) -> None:
    Gatherer(net, tmp_path / "lake", "r").take()
    leave = shutil.ignore_patterns("*.sock")
    shutil.copytree(net, tmp_path / "elsewhere" / "copy", ignore=leave)

    assert not any(Gatherer(tmp_path / "elsewhere", tmp_path / "lake", "r").take().values())
    assert named_rows(tmp_path / "lake") == expected


def test_compaction_joins_files_and_changes_no_row_and_gathering_goes_on(
    net: Path, expected: Named, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gatherer = Gatherer(net, tmp_path / "lake", "r")
    gatherer._journals.look()
    for _ in range(15):
        gatherer._make_step()
    before = {name: len(each.files()) for name, each in gatherer.lake.tables.items()}
    went = CliRunner().invoke(main, ["lab", "compact", str(tmp_path / "lake"), "--keep", "1"])
    assert went.exit_code == 0, went.output
    assert f"sends: {before['sends']} files are now 1" in went.stdout
    Gatherer(net, tmp_path / "lake", "r").take()

    done = {each.table: each for each in lake.compact(Location.of(tmp_path / "lake"), 0)}

    assert min(before["sends"], before["names"]) > 3
    assert done["sends"].after == done["steps"].after == 1
    assert done["sends"].removed >= before["sends"]
    left = list((tmp_path / "lake" / "sends" / "experiment=local").rglob("*.parquet"))
    assert len(left) == 1
    assert named_rows(tmp_path / "lake") == expected
    with pytest.raises(TableError, match="is not a lake"):
        lake.compact(Location.of(tmp_path))


def test_of_two_writers_with_one_name_one_commits(tmp_path: Path) -> None:
    table = LakeTable(Location.of(tmp_path), "peers", lake.PEERS)
    rows = lake._table([{"peer": 1, "role": "peer", "time_us": 1}], lake.PEERS)
    file = table.stage("e", "r", "first", rows)
    assert table.commit([file], "w", 1)
    assert not table.commit([table.stage("e", "r", "again", rows)], "w", 1)
    stale = table.opened()
    table.commit([table.stage("e", "r", "second", rows)], "w", 2)
    other = LakeTable(Location.of(tmp_path), "peers", lake.PEERS)
    other.opened = lambda: stale  # type: ignore[method-assign]

    with pytest.raises(LakeConflict):
        other.commit([table.stage("e", "r", "third", rows)], "w", 2)

    assert table.read("r").num_rows == 2
    assert [len(each) > 0 for each in delta.commits(table.place, -1, table.version())]
