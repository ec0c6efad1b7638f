"""Fingers where peers crash: dead ones are dropped in use, lookups arrive, nothing loops."""

from functools import partial

import pytest

from implicast.overlay.chord import CHORD_KINDS, Chord
from implicast.overlay.chord.messages import ForwardAck
from implicast.overlay.links import LINK_KINDS, Links, LinkSettings, Ref
from implicast.overlay.links.messages import FindPlace
from implicast.overlay.links.state import IN, OUT
from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.peer.detector import DETECTOR_KINDS, Detector
from implicast.peer.ledger import Ledger
from implicast.peer.wire import Codec
from implicast.space.ring import ID_BITS, hashed, successor_index
from implicast.world.journal import UPKEEP
from implicast.world.populations.chord import assemble_chord
from implicast.world.populations.links import ring_objections
from implicast.world.world import World

S = 1_000_000
COUNT = 64


class Seek(Message):
    """A lookup under test."""

    wire = 0x7001

    key: int
    attempt: int


class Arrived(Message):
    """Delivered where a lookup ends."""

    key: int
    attempt: int


class Node(Peer, parts={"links": Links, "detector": Detector, "chord": Chord}):
    __slots__ = ("chord", "detector", "links")

    def __init__(self, address: Address, host: Host, key: int) -> None:
        super().__init__(address, host)
        self.links = Links(address, host, key, LinkSettings.with_crashes(check_us=2 * S))
        self.detector = self.links.detector
        self.chord = Chord(address, host, self.links, ID_BITS, 60 * S)

    @handles(Seek)
    def on_seek(self, sender: Address, seek: Seek) -> None:
        if not self.chord.forward(seek.key, seek, sender):
            self.host.deliver(Arrived(seek.key, seek.attempt))

    def seek(self, key: int, attempt: int = 0) -> None:
        self.chord.set_detour(attempt)
        self.on_seek(self.address, Seek(key, attempt))
        self.chord.set_detour(0)


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000 + (a * 7 + b * 13) % 5_000


def town() -> tuple[World, list[Node]]:
    world = World(Flat(), 1, codec=Codec((*LINK_KINDS, *CHORD_KINDS, *DETECTOR_KINDS, Seek)))
    nodes = [
        Node(address, world.host(address), hashed("peer", 1, address)) for address in range(COUNT)
    ]
    for address, node in enumerate(nodes):
        world.place(address, node)
    assemble_chord([node.chord for node in nodes])
    return world, nodes


def arrivals(world: World) -> list[tuple[int, int]]:
    return [(who, event.key) for _, who, event in world.events if isinstance(event, Arrived)]


def test_a_finger_to_the_former_node_of_an_address_is_dropped_when_the_new_one_speaks() -> None:
    """Pings do not detect it: the new node at the address answers them."""
    _, nodes = town()
    old, chord = nodes[0].chord.table.fingers()[-1], nodes[0].chord
    neighbour, now = chord.table.right, Ref(hashed("peer", 2, old.address), old.address, 7)

    chord.on_forward_ack(nodes[1].address, ForwardAck(now))
    assert old in chord.table.fingers(), "nobody speaks for another address"
    chord.on_forward_ack(old.address, ForwardAck(old))
    assert old in chord.table.fingers(), "it is there"
    chord.on_forward_ack(neighbour.address, ForwardAck(Ref(1, neighbour.address, 7)))
    assert chord.table.right == neighbour, "the ring alone says who is next"
    chord.on_forward_ack(old.address, ForwardAck(now))

    assert old not in chord.table.fingers()


def test_a_dead_finger_is_dropped_by_being_used_and_another_takes_its_place() -> None:
    world, nodes = town()
    finger = nodes[0].chord.table.fingers()[-1]
    world.at(S, UPKEEP, partial(world.crash, finger.address))
    beyond = (finger.key + 1) % (1 << ID_BITS)
    world.at(2 * S, UPKEEP, partial(nodes[0].seek, beyond))
    world.run(until_us=40 * S)

    fingers = nodes[0].chord.table.fingers()
    assert finger not in fingers
    assert fingers[-1].address in world.peers, "the level was looked up afresh"


def test_a_dead_finger_that_is_named_again_is_dropped_again_at_once() -> None:
    """The notice of a leaving node came late: the successor that it names had crashed and been
    suspected before.
    """
    world, nodes = town()
    table, finger = nodes[0].chord.table, nodes[0].chord.table.fingers()[-1]
    levels = [level for level, ref in table.levels.items() if ref == finger]
    key = (finger.key + 1) % (1 << ID_BITS)
    world.at(S, UPKEEP, partial(world.crash, finger.address))
    world.at(2 * S, UPKEEP, partial(nodes[0].seek, key))
    world.run(until_us=20 * S)
    assert nodes[0].links.liveness.is_lost(finger)
    for level in levels:
        table.set_finger(level, finger)
    assert finger in table.fingers()
    nodes[0].seek(key)

    assert finger not in table.fingers()


def test_a_finger_that_answers_itself_is_suspected_no_more() -> None:
    world, nodes = town()
    chord, finger = nodes[0].chord, nodes[0].chord.table.fingers()[-1]
    nodes[0].links.liveness.suspect(finger)
    world.run(until_us=5 * S)

    assert not nodes[0].links.liveness.is_lost(finger)
    assert finger in chord.table.fingers(), "its level was looked up, and it answered"


def test_lookups_arrive_at_the_successor_when_a_quarter_has_died() -> None:
    world, nodes = town()
    for address in range(0, COUNT, 4):
        world.at(S, UPKEEP, partial(world.crash, address))
    keys = [hashed("key", number) for number in range(40)]
    for number, key in enumerate(keys):
        for attempt in range(12):
            world.at(
                (40 + 4 * attempt) * S,
                UPKEEP,
                partial(nodes[1 + 4 * (number % 16)].seek, key, attempt),
            )
    world.run(until_us=95 * S)

    living = sorted(
        (node.links.me.key, node.address) for node in nodes if node.address in world.peers
    )
    wanted = {(living[successor_index([key for key, _ in living], key)][1], key) for key in keys}
    assert set(arrivals(world)) == wanted


def lone_node() -> tuple[Ledger, Node, Ref, Ref]:
    ledger = Ledger(now_us=S)
    node = Node(5, ledger, 1000)
    left, right = Ref(900, 4), Ref(2000, 6)
    node.links.position.restore(left, right, (left, Ref(800, 3)))
    node.chord.table.set_neighbours(left, right)
    return ledger, node, left, right


def test_a_message_that_goes_in_a_circle_ends_at_its_second_visit() -> None:
    ledger, node, _, right = lone_node()
    node.receive(6, Seek(1500, 0))
    node.receive(6, Seek(1500, 0))
    assert [to for to, message in ledger.sent() if isinstance(message, Seek)] == [right.address]

    ledger.now_us += 2 * S
    node.receive(6, Seek(1500, 0))
    assert [to for to, message in ledger.sent() if isinstance(message, Seek)] == [right.address], (
        "a later attempt"
    )


def test_a_message_that_came_past_its_key_goes_to_the_left() -> None:
    ledger, node, left, _ = lone_node()
    node.receive(3, Seek(850, 0))

    assert left.address in [to for to, message in ledger.sent() if isinstance(message, Seek)]


def test_a_sender_gets_one_acknowledgement_a_second() -> None:
    ledger, node, _, _ = lone_node()
    for attempt in range(5):
        node.receive(9, Seek(1500, attempt))

    assert [to for to, message in ledger.sent() if type(message).__name__ == "ForwardAck"] == [9]


def test_a_step_is_probed_only_when_a_place_lookup_is_repeated() -> None:
    ledger, node, _, _ = lone_node()
    far = Ref(1 << 30, 7)
    node.chord.table.set_finger(29, far)
    ledger.sent()

    def pinged(place: tuple[int, int]) -> list[Address]:
        assert node.chord.closest_preceding(place) == far
        return [to for to, message in ledger.sent() if type(message).__name__ == "Ping"]

    assert pinged((1 << 35, 20)) == [], "now and then everybody looks at its place"
    assert pinged((1 << 36, 21)) == []
    ledger.now_us += S
    assert pinged((1 << 35, 20)) == [far.address], "its first question seems to be lost"
    ledger.now_us += 60 * S
    assert pinged((1 << 36, 21)) == []


def newcomer_behind_a_dead_finger() -> tuple[Node, Node]:
    """A joining node whose introducers all lead over a crashed node, and the node that is to be on
    its right.
    """
    world, nodes = town()
    order = sorted(nodes, key=lambda node: node.links.me.place)
    ways = [
        [node for node in order if node.chord.table.next_hop(at.links.me.key + 1) == at.links.me]
        for at in order
    ]
    introducers = max(ways[:-1], key=len)
    assert len(introducers) > 12, "on the way round one there is the next who leads to the dead"
    at = ways.index(introducers)
    newcomer = Node(COUNT, world.host(COUNT), order[at].links.me.key + 1)
    world.place(COUNT, newcomer)
    world.at(S, UPKEEP, partial(world.crash, order[at].address))
    world.at(
        2 * S, UPKEEP, partial(newcomer.links.join, tuple(node.address for node in introducers[:3]))
    )
    world.run(until_us=30 * S)
    return newcomer, order[at + 1]


def test_a_finger_known_to_have_left_swallows_no_lookup() -> None:
    ledger, node, _, right = lone_node()
    gone, seeker = Ref(1 << 30, 7), Ref(1 << 35, 20)
    node.chord.table.set_finger(29, gone)
    node.links.liveness.note_departed(gone)
    ledger.sent()
    node.receive(20, FindPlace(seeker, 20))

    assert gone not in node.chord.table.fingers()
    assert (right.address, FindPlace(seeker, 19)) in ledger.sent()


def test_a_finger_to_the_former_node_of_the_origins_address_swallows_no_lookup() -> None:
    ledger, node, _, right = lone_node()
    former, seeker = Ref(1 << 30, 20), Ref(1 << 35, 20)
    node.chord.table.set_finger(29, former)
    ledger.sent()
    node.receive(7, FindPlace(seeker, 20))

    assert [(to, said) for to, said in ledger.sent() if isinstance(said, FindPlace)] == [
        (right.address, FindPlace(seeker, 19))
    ]


def test_a_newcomer_gets_in_though_every_way_leads_over_a_dead_finger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newcomer, right = newcomer_behind_a_dead_finger()
    assert newcomer.links.state == IN
    assert newcomer.links.right == right.links.me

    monkeypatch.setattr(Chord, "is_repeated_lookup", lambda self, place: False)
    newcomer, _ = newcomer_behind_a_dead_finger()
    assert newcomer.links.state == OUT, "nobody asks the dead one"


def test_a_node_that_is_left_alone_finds_the_ring_again_by_whom_it_came_through() -> None:
    """All nodes that it knew, and all that knew it, have crashed at once."""
    world, nodes = town()
    lonely = Node(COUNT, world.host(COUNT), hashed("peer", 1, COUNT))
    world.place(COUNT, lonely)
    world.at(world.now_us, UPKEEP, partial(lonely.links.join, ()))
    world.run(world.now_us + S)
    assert (lonely.links.state, lonely.links.right) == (IN, lonely.links.me)
    lonely.links.introducers.joined_through = (51,)
    world.run(world.now_us + 40 * S)

    assert lonely.links.right != lonely.links.me
    assert not ring_objections([node.links for node in (*nodes, lonely)])


def test_a_node_that_is_alone_asks_the_addresses_of_departed_nodes() -> None:
    nodes = town()[1]
    node = nodes[0]
    node.links.restore(node.links.me, node.links.me, ())
    node.chord.table.reset(node.links.me)
    node.links.liveness.note_departed(nodes[7].links.me)
    assert node.links.lookup.merge_contacts() == [7]

    node.links.restore(nodes[1].links.me, nodes[2].links.me, ())
    assert node.links.lookup.merge_contacts() == [], "with neighbours it need not"
