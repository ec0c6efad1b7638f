"""The world carries, keeps time, and knows what everything was for."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from implicast.peer.contract import Address, CastId, Host, Message, Peer, handles
from implicast.peer.events import Notice
from implicast.peer.wire import KIND_BYTES, Codec
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import JOIN, REGISTER, Journal
from implicast.world.world import World


class Go(Message):
    wire = 0x7001

    steps: int


class Named(Message):
    wire = 0x7002

    cast: CastId
    steps: int


class Beat(Message):
    """Rings every second."""

    upkeep = True


class Later(Message):
    """Rings after a while."""


class Relay(Peer):
    """Passes a message to the next address until its steps are used up."""

    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.got: list[tuple[int, Message]] = []

    @handles(Go)
    def on_go(self, sender: Address, go: Go) -> None:
        self.got.append((self.host.now_us, go))
        if go.steps:
            self.host.send(self.address + 1, Go(go.steps - 1))

    @handles(Named)
    def on_named(self, sender: Address, named: Named) -> None:
        self.host.deliver(Notice(named.cast, b""))

    @handles(Beat)
    def on_beat(self, alarm: Beat) -> None:
        self.host.after(1_000_000, Beat())
        self.host.send(1 - self.address, Go(0))

    @handles(Later)
    def on_later(self, alarm: Later) -> None:
        self.host.send(1, Go(0))


class Even:
    """Ten milliseconds between any two."""

    def latency_us(self, a: int, b: int) -> int:
        return 10_000


def world_of(count: int, **options) -> tuple[World, list[Relay]]:
    world = World(Even(), **options)
    peers = [Relay(address, world.host(address)) for address in range(count)]
    for address, peer in enumerate(peers):
        world.place(address, peer)
    return world, peers


def sends(directory: Path) -> list[dict]:
    return pq.read_table(directory / "sends.parquet").to_pylist()


def written(world: World, journal: Journal) -> list[dict]:
    world.run()
    journal.finish()
    journal.close()
    return sends(journal.directory)


def test_messages_take_their_latency():
    world, peers = world_of(4)

    world.at(5, JOIN, lambda: peers[0].host.send(1, Go(2)))
    world.run()

    assert [peer.got[0][0] for peer in peers[1:]] == [10_005, 20_005, 30_005]


def test_each_message_knows_its_cause_its_purpose_and_its_depth(tmp_path):
    journal = Journal(tmp_path / "run")
    world, peers = world_of(4, journal=journal)

    world.at(0, REGISTER, lambda: peers[0].host.send(1, Go(2)))
    rows = written(world, journal)

    assert [row["depth"] for row in rows] == [1, 2, 3]
    assert {row["phase"] for row in rows} == {"register"}
    assert [row["cause"] for row in rows[1:]] == [row["serial"] for row in rows[:-1]]
    assert all(row["bytes"] == KIND_BYTES + 2 for row in rows)


def test_a_message_that_names_its_cast_belongs_to_it_whatever_caused_it(tmp_path):
    journal = Journal(tmp_path / "run")
    world, peers = world_of(2, journal=journal)
    cast = CastId(bytes(16), 1, 1)
    world.announce(cast, 7)

    world.at(0, REGISTER, lambda: peers[0].host.send(1, Named(cast, 0)))
    rows = written(world, journal)

    assert [(row["phase"], row["cast"]) for row in rows] == [("cast", 7)]
    assert pq.read_table(tmp_path / "run" / "notices.parquet").to_pylist() == [
        {
            "cause": rows[0]["serial"],
            "time_us": 10_000,
            "peer": 1,
            "cast": 7,
            "depth": 1,
            "altered": False,
        }
    ]


def test_standing_upkeep_does_not_keep_the_world_busy(tmp_path):
    journal = Journal(tmp_path / "run")
    world, peers = world_of(2, journal=journal)

    world.at(0, JOIN, lambda: peers[0].host.after(1_000_000, Beat()))
    world.run()
    assert world.now_us == 0
    world.run(3_500_000)
    rows = written(world, journal)

    assert [row["phase"] for row in rows] == ["upkeep"] * 3


def test_a_crashed_peer_hears_nothing_and_its_alarms_do_not_ring():
    world, peers = world_of(2)
    world.at(0, JOIN, lambda: peers[0].host.after(10, Later()))
    world.at(0, JOIN, lambda: peers[1].host.send(0, Go(0)))
    world.at(5, JOIN, lambda: world.crash(0))

    world.run()

    assert not peers[0].got
    assert not peers[1].got


def test_the_strict_world_catches_a_message_to_oneself():
    world, peers = world_of(2, codec=Codec([Go, Named]))
    world.at(0, JOIN, lambda: peers[0].host.send(0, Go(0)))

    with pytest.raises(AssertionError, match="plain call"):
        world.run()


def test_the_strict_world_hands_over_what_came_off_the_wire():
    world, peers = world_of(2, codec=Codec([Go, Named]))
    message = Go(0)
    world.at(0, JOIN, lambda: peers[0].host.send(1, message))

    world.run()

    assert peers[1].got[0][1] == message
    assert peers[1].got[0][1] is not message


def test_what_is_lost_has_no_arrival(tmp_path):
    journal = Journal(tmp_path / "run")
    world, peers = world_of(2, journal=journal, faults=FaultStream(Faults(loss=1.0), 1))

    world.at(0, JOIN, lambda: peers[0].host.send(1, Go(0)))
    rows = written(world, journal)

    assert [row["arrived_us"] for row in rows] == [None]
    assert not peers[1].got


def test_a_serial_names_one_message_even_when_it_is_repeated(tmp_path):
    journal = Journal(tmp_path / "run")
    world, peers = world_of(3, journal=journal, faults=FaultStream(Faults(duplicate=1.0), 1))

    world.at(0, JOIN, lambda: peers[0].host.send(1, Go(1)))
    rows = written(world, journal)

    assert len({row["serial"] for row in rows}) == len(rows) == 3
    assert len(peers[2].got) == 4
