"""Fingers where peers crash: the dead are dropped by being used, look-ups arrive, nothing goes in circles."""

from functools import partial

from implicast.overlay.chord import CHORD_KINDS, LIVING_CHORD_KINDS, LivingChord, assemble_chord
from implicast.overlay.detector import DETECTOR_KINDS, Detector
from implicast.overlay.links import LINK_KINDS, Links, LinkSettings, Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.peer.ledger import Ledger
from implicast.peer.wire import Codec
from implicast.space.ring import ID_BITS, hashed, successor_index
from implicast.world.journal import UPKEEP
from implicast.world.world import World

S = 1_000_000
COUNT = 64


class Seek(Message):
    """A look-up under test."""

    key: int
    attempt: int


class Arrived(Message):
    """Delivered where a look-up ends."""

    key: int
    attempt: int


class Node(Peer, parts={"links": Links, "detector": Detector, "chord": LivingChord}):
    __slots__ = ("chord", "detector", "links")

    def __init__(self, address: Address, host: Host, key: int) -> None:
        super().__init__(address, host)
        self.links = Links(address, host, key, LinkSettings.living(check_us=2 * S))
        self.detector = self.links.detector
        self.chord = LivingChord(address, host, self.links, ID_BITS, 60 * S)

    @handles(Seek)
    def on_seek(self, sender: Address, seek: Seek) -> None:
        if not self.chord.pass_on(seek.key, seek, sender):
            self.host.deliver(Arrived(seek.key, seek.attempt))

    def seek(self, key: int, attempt: int = 0) -> None:
        self.chord.detour = attempt
        self.on_seek(self.address, Seek(key, attempt))
        self.chord.detour = 0


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000 + (a * 7 + b * 13) % 5_000


def town() -> tuple[World, list[Node]]:
    world = World(Flat(), 1, codec=Codec((*LINK_KINDS, *CHORD_KINDS, *LIVING_CHORD_KINDS, *DETECTOR_KINDS, Seek)))
    nodes = [Node(address, world.host(address), hashed("peer", 1, address)) for address in range(COUNT)]
    for address, node in enumerate(nodes):
        world.place(address, node)
    assemble_chord([node.chord for node in nodes])
    return world, nodes


def arrivals(world: World) -> list[tuple[int, int]]:
    return [(who, event.key) for _, who, event in world.events if isinstance(event, Arrived)]


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


def test_look_ups_arrive_at_the_successor_when_a_quarter_has_died() -> None:
    world, nodes = town()
    for address in range(0, COUNT, 4):
        world.at(S, UPKEEP, partial(world.crash, address))
    keys = [hashed("key", number) for number in range(40)]
    for number, key in enumerate(keys):
        for attempt in range(12):
            world.at((40 + 4 * attempt) * S, UPKEEP, partial(nodes[1 + 4 * (number % 16)].seek, key, attempt))
    world.run(until_us=95 * S)

    living = sorted((node.links.me.key, node.address) for node in nodes if node.address in world.peers)
    wanted = {(living[successor_index([key for key, _ in living], key)][1], key) for key in keys}
    assert set(arrivals(world)) == wanted


def lone_node() -> tuple[Ledger, Node, Ref, Ref]:
    ledger = Ledger(now_us=S)
    node = Node(5, ledger, 1000)
    left, right = Ref(900, 4), Ref(2000, 6)
    node.links.state, node.links.left, node.links.right = IN, left, right
    node.links.lefts = (left, Ref(800, 3))
    node.chord.table.set_neighbours(left, right)
    return ledger, node, left, right


def test_a_message_that_goes_in_a_circle_ends_at_its_second_visit() -> None:
    ledger, node, _, right = lone_node()
    node.receive(6, Seek(1500, 0))
    node.receive(6, Seek(1500, 0))
    assert [to for to, message in ledger.sent() if isinstance(message, Seek)] == [right.address]

    ledger.now_us += 2 * S
    node.receive(6, Seek(1500, 0))
    assert [to for to, message in ledger.sent() if isinstance(message, Seek)] == [right.address], "a later attempt"


def test_a_message_that_came_past_its_key_goes_to_the_left() -> None:
    ledger, node, left, _ = lone_node()
    node.receive(3, Seek(850, 0))

    assert left.address in [to for to, message in ledger.sent() if isinstance(message, Seek)]


def test_a_sender_is_told_once_a_second_that_its_messages_come() -> None:
    ledger, node, _, _ = lone_node()
    for attempt in range(5):
        node.receive(9, Seek(1500, attempt))

    assert [to for to, message in ledger.sent() if type(message).__name__ == "Heard"] == [9]
