"""A deployment is measured like a simulation: journals of live nodes gathered into the world's columns."""

import asyncio
import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.lab import lake
from implicast.lab.errors import TableError
from implicast.lab.gather import Gatherer
from implicast.lab.lake import Lake
from implicast.lab.measures import small
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.observation import journal
from implicast.net.transport.counters import Counters
from implicast.world.journal import SCHEMAS
from implicast.world.tally import tally

PEOPLE = [
    MemberSpec("ann", "samba, football"),
    MemberSpec("bob", "jazz, football"),
    MemberSpec("cy", "jazz, chess"),
    MemberSpec("di", "samba, chess"),
    MemberSpec("ed", "jazz"),
]
TARGETS = ["jazz & football", "samba | jazz", "chess & !jazz", "tango", "football"]


def has_upkeep(directory, nodes):
    """Whether any node has written down a message of standing upkeep."""
    for node in nodes:
        node.driver.journal.flush()
    paths = [
        path
        for who in PEOPLE
        for path in journal.segments(directory / "net" / who.name / journal.FOLDER)
    ]
    return any(getattr(row, "upkeep", False) for path in paths for row, _ in journal.rows(path))


def lived(directory, design="dht", meanwhile=lambda nodes: None, until=lambda nodes: True):
    """A network that writes a journal; its receipts and what its nodes counted."""

    async def story():
        local = LocalNetwork(
            directory / "net", design, PEOPLE, plain=True, limits=False, journal=True
        )
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        try:
            nodes = tasks.nodes
            receipts = [
                await nodes[who.name].cast(target, b"x") for who in PEOPLE for target in TARGETS
            ]
            meanwhile(nodes.values())
            while not until(nodes.values()):
                await asyncio.sleep(0.1)
            boxes = {
                who.name: [note.cast async for note in nodes[who.name].inbox(follow=False)]
                for who in PEOPLE
            }
            return receipts, boxes, sum(each.driver._sent for each in nodes.values())
        finally:
            await tasks.stop()

    return asyncio.run(story())


def test_the_measures_of_a_deployment_are_those_of_its_nodes(tmp_path):
    receipts, boxes, sent = lived(tmp_path)
    gatherer = Gatherer(tmp_path / "net", tmp_path / "lake")
    taken = gatherer.take()
    run = gatherer.whole().local

    delivered = sum(map(len, boxes.values()))
    assert taken["notices"] == delivered == sum(each.notified for each in receipts) > 20
    assert sent <= taken["sends"] <= sent + 40  # some are sent while nodes stop
    for name, schema in SCHEMAS.items():
        assert pq.read_schema(run / f"{name}.parquet").names == schema.names
    found = small.measured(small.reader(run))
    other = tally(run)  # in other code
    mine = found["measures"][0]
    assert len(mine.keys() & other.keys()) > 15
    assert {name: mine[name] for name in mine.keys() & other.keys()} == pytest.approx(
        {name: other[name] for name in mine.keys() & other.keys()}
    )
    judged = found["contract"][0]
    assert (judged["expected"], judged["notified"], judged["missing"]) == (delivered, delivered, 0)
    assert not judged["altered"] + judged["uninvited"] + judged["repeated"] + judged["misreported"]
    assert found["measures"][0]["latency_ms_mean"] > 0


def test_every_message_that_arrived_is_known_and_depths_follow_the_causes(tmp_path):
    lived(tmp_path, until=lambda nodes: has_upkeep(tmp_path, nodes))
    gatherer = Gatherer(tmp_path / "net", tmp_path / "lake")
    gatherer.take()
    rows = gatherer.lake.gathered("sends").to_pylist()
    by_serial = {row["serial"]: row for row in rows}
    assert len(by_serial) == len(rows)
    followed = 0
    for row in rows:
        assert row["sender"] != row["receiver"]
        if row["cause"] in by_serial:
            before = by_serial[row["cause"]]
            assert (before["receiver"], row["depth"]) == (row["sender"], before["depth"] + 1)
            assert before["arrived_us"] <= row["sent_us"]
            followed += 1
    assert followed > len(rows) // 3
    assert {"join", "register", "cast", "upkeep"} <= {row["phase"] for row in rows}


def test_gathering_again_and_again_gives_every_row_once(tmp_path):
    taken = []

    def meanwhile(nodes):  # in the middle of the network's life, by a gatherer that is thrown away
        for node in nodes:
            node.driver.journal.flush()
        taken.append(Gatherer(tmp_path / "net", tmp_path / "lake").take())

    lived(tmp_path, meanwhile=meanwhile)
    gatherer = Gatherer(tmp_path / "net", tmp_path / "lake")
    taken += [gatherer.take(), gatherer.take()]
    again = Gatherer(tmp_path / "net", tmp_path / "lake").take()
    at_once = Gatherer(tmp_path / "net", tmp_path / "other").take()

    assert taken[0]["notices"] + taken[1]["notices"] == at_once["notices"]
    assert taken[0]["sends"] + taken[1]["sends"] == at_once["sends"]
    assert not any(taken[2].values())
    assert not any(again.values())
    keys = gatherer.lake.gathered("notices").to_pylist()
    assert len({(row["peer"], row["cast"]) for row in keys}) == len(keys)


def test_what_does_not_arrive_is_lost_once_the_others_are_further(tmp_path):
    lived(tmp_path)
    folder = tmp_path / "net" / "bob" / journal.FOLDER
    every = [row for path in journal.segments(folder) for row, _ in journal.rows(path)]
    kept = [row for row in every if isinstance(row, journal.OpenedRow)]

    async def rewritten():  # bob wrote nothing but its beginning
        for path in journal.segments(folder):
            path.unlink()
        writer = journal.JournalWriter(folder.parent, Counters())
        writer.open(kept[0], None)
        writer.close()

    asyncio.run(rewritten())
    gatherer = Gatherer(tmp_path / "net", tmp_path / "lake")
    gatherer.take()
    rows = gatherer.lake.gathered("sends").to_pylist()
    bob = gatherer.numbers.peer(kept[0].name)
    assert {row["arrived_us"] for row in rows if row["receiver"] == bob} == {None}
    assert all(row["arrived_us"] for row in rows if row["receiver"] != bob)
    assert gatherer.foreign > 0  # notices of bob's casts, of which nothing is known


def test_half_a_row_at_the_end_is_read_when_it_is_whole(tmp_path):
    async def story():
        writer = journal.JournalWriter(tmp_path, Counters())
        writer.write(journal.StoredBytesRow(1, 10))
        writer.write(journal.StoredBytesRow(2, 20))
        writer.close()

    asyncio.run(story())
    (path,) = journal.segments(tmp_path / journal.FOLDER)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    before = list(journal.rows(path))
    path.write_bytes(whole)
    after = list(journal.rows(path, before[-1][1]))
    assert len(before) + len(after) == 3
    assert isinstance(after[-1][0], journal.ClosedRow)


def test_a_journal_that_cannot_be_written_is_counted_and_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 100)
    monkeypatch.setattr(journal, "SEGMENTS_MAX", 3)
    counters = Counters()

    async def story():
        writer = journal.JournalWriter(tmp_path, counters)
        for number in range(20):
            writer.write(journal.StoredBytesRow(number, 1 << 40))
            for _ in range(20):
                writer.write(journal.StoredBytesRow(number, 1 << 40))
            writer.flush()
        assert len(journal.segments(tmp_path / journal.FOLDER)) <= 3
        writer._folder = tmp_path / "gone"
        writer.write(journal.StoredBytesRow(1, 1))
        writer.close_segment()
        writer.flush()

    asyncio.run(story())
    assert counters["journal_lost"] == 1


def test_a_folder_without_journals_and_a_bad_name_are_told_in_a_sentence(tmp_path):
    with pytest.raises(TableError, match="--journal"):
        Gatherer(tmp_path, tmp_path / "lake")
    with pytest.raises(TableError, match="no name for a run"):
        lake.check_run("../x")
    assert Lake(tmp_path / "lake", "r", "dht").gathered("sends").num_rows == 0


def test_from_the_command_line_a_network_writes_and_a_lake_is_measured(tmp_path):
    net, lake = tmp_path / "net", tmp_path / "lake"
    words = [
        "local",
        "4",
        "--design",
        "dht",
        "--in-process",
        "--plain",
        "--journal",
        "--casts",
        "5",
        "--dir",
        str(net),
    ]
    for each in (words, ["journal", str(net), "--to", str(lake), "--run", "five", "--json"]):
        went = CliRunner().invoke(main, each)
        assert went.exit_code == 0, went.output
    assert json.loads(went.stdout)["casts"] == 5
    assert small.measured(small.reader(lake / "run=five"))["contract"][0]["missing"] == 0
