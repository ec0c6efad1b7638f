"""Chord grown by messages and assembled: the same tables, and lookups that end at the successor
after half of log2 N hops.
"""

from math import log2

import pytest

from implicast.overlay.chord import CHORD_KINDS, Chord
from implicast.overlay.links import LINK_KINDS, Links, LinkSettings
from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.space.ring import hashed, successor_index
from implicast.world.journal import JOIN, LEAVE, UPKEEP
from implicast.world.populations.chord import assemble_chord, chord_objections
from implicast.world.world import World


class Seek(Message):
    """A lookup under test."""

    wire = 0x7001

    key: int


class Arrived(Message):
    """Delivered where a lookup ends."""

    key: int


class Node(Peer, parts={"links": Links, "chord": Chord}):
    __slots__ = ("chord", "links")

    def __init__(self, address: Address, host: Host, key: int, bits: int = 40) -> None:
        super().__init__(address, host)
        self.links = Links(address, host, key, LinkSettings())
        self.chord = Chord(address, host, self.links, bits)

    @handles(Seek)
    def on_seek(self, sender: Address, seek: Seek) -> None:
        if not self.chord.forward(seek.key, seek):
            self.host.deliver(Arrived(seek.key))


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000 + (a * 7 + b * 13) % 5_000


def population(count: int, seed: int = 1) -> tuple[World, list[Node]]:
    world = World(Flat(), seed, codec=Codec((*LINK_KINDS, *CHORD_KINDS, Seek)))
    nodes = [
        Node(address, world.host(address), hashed("peer", seed, address))
        for address in range(count)
    ]
    for node in nodes:
        world.place(int(str(node.address)), node)
    return world, nodes


def chords(nodes: list[Node]) -> list[Chord]:
    return [node.chord for node in nodes]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17, 64])
def test_growing_by_messages_gives_the_assembled_tables(count: int) -> None:
    world, nodes = population(count)
    for node in nodes:
        introducers = (0,) if node.address else ()
        world.at(
            int(str(node.address)) * 3_000_000,
            JOIN,
            lambda node=node, by=introducers: node.links.join(by),
        )

    world.run()

    assert chord_objections(chords(nodes)) == []
    _, assembled = population(count)
    assemble_chord(chords(assembled))
    for grown, stood in zip(nodes, assembled, strict=True):
        places = {level: ref.place for level, ref in grown.chord.table.levels.items()}
        assert places == {level: ref.place for level, ref in stood.chord.table.levels.items()}


def test_leaving_by_messages_leaves_exact_tables_behind() -> None:
    world, nodes = population(40)
    assemble_chord(chords(nodes))
    assert chord_objections(chords(nodes)) == []

    for turn, address in enumerate(range(5, 25)):
        world.at(turn * 3_000_000, LEAVE, nodes[address].links.leave)
    world.run()

    assert chord_objections(chords(nodes)) == []
    assert sum(node.links.state == "in" for node in nodes) == 20


def test_many_joining_at_once_still_find_every_successor() -> None:
    """Fingers may be wrong after simultaneous joins; that costs hops, never a wrong answer."""
    world, nodes = population(48)
    world.at(0, JOIN, lambda: nodes[0].links.join(()))
    for node in nodes[1:]:
        world.at(1_000, JOIN, lambda node=node: node.links.join((0,)))
    world.run()

    assert_lookups_arrive(world, nodes, 300)


def assert_lookups_arrive(world: World, nodes: list[Node], count: int) -> None:
    inside = sorted(
        (node for node in nodes if node.links.state == "in"), key=lambda node: node.chord.table.own
    )
    keys = [node.chord.table.own for node in inside]
    chance = stream(3, "look-ups")
    world.events.clear()
    sought = [chance.randrange(1 << 40) for _ in range(count)]
    for turn, key in enumerate(sought):
        start = inside[chance.randrange(len(inside))]
        world.at(
            world.now_us + turn,
            UPKEEP,
            lambda start=start, key=key: start.on_seek(start.address, Seek(key)),
        )
    world.run(world.now_us + 60_000_000)
    arrived = {
        event.key: address for _, address, event in world.events if isinstance(event, Arrived)
    }
    assert arrived == {key: inside[successor_index(keys, key)].address for key in sought}


@pytest.mark.parametrize("count", [64, 1024])
def test_a_lookup_takes_half_of_log_n_hops_and_the_last_one(count: int) -> None:
    world, nodes = population(count)
    assemble_chord(chords(nodes))
    before = world.carried

    assert_lookups_arrive(world, nodes, 1000)

    hops = (world.carried - before) / 1000
    assert abs(hops - (log2(count) / 2 + 0.9)) < 0.35


def test_two_peers_with_one_identifier_are_ordered_by_name() -> None:
    world = World(Flat(), 1)
    nodes = [
        Node(address, world.host(address), key) for address, key in enumerate((100, 500, 500, 900))
    ]
    for node in nodes:
        world.place(int(str(node.address)), node)
    assemble_chord(chords(nodes))

    world.at(0, UPKEEP, lambda: nodes[0].on_seek(0, Seek(500)))
    world.at(0, UPKEEP, lambda: nodes[3].on_seek(3, Seek(600)))
    world.run(1_000_000)

    assert sorted((event.key, address) for _, address, event in world.events) == [
        (500, 1),
        (600, 3),
    ]
