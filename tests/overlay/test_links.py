"""One node of the linked ring at a time: its answers, its state, its cost in messages."""

from typing import TypeVar

import pytest

from implicast.overlay.links import LINK_KINDS, Links, LinkSettings, Ref
from implicast.overlay.links.messages import (
    BUSY,
    DELETE,
    GONE,
    INSERT,
    MOVED,
    FindPlace,
    IncarnationGone,
    LinkState,
    LinkStateRequest,
    PlaceFound,
    SetL,
    SetLAck,
    SetR,
    SetRAck,
    SetRNak,
)
from implicast.overlay.links.refs import cut_list
from implicast.peer.contract import Address, Host, Message, Peer
from implicast.peer.ledger import Ledger
from implicast.peer.wire import Codec
from implicast.world.journal import JOIN, LEAVE
from implicast.world.populations.links import (
    assemble_ring,
    list_objections,
    opening,
    ring_objections,
)
from implicast.world.world import World

Kind = TypeVar("Kind", bound=Message)


class Node(Peer, parts={"links": Links}):
    __slots__ = ("links",)

    def __init__(self, address: Address, host: Host, settings: LinkSettings) -> None:
        super().__init__(address, host)
        self.links = Links(address, host, int(str(address)), settings)


class Near:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Ring:
    """A world of nodes at keys equal to their addresses, which records all messages."""

    def __init__(
        self, addresses: list[int], standing: list[int], settings: LinkSettings | None = None
    ) -> None:
        settings = settings or LinkSettings()
        self.world = World(Near(), 1, codec=Codec(LINK_KINDS))
        self.said: list[Message] = []
        carry = self.world.carry
        self.world.carry = lambda sender, to, message: (
            self.said.append(message),
            carry(sender, to, message),
        )  # type: ignore[assignment,func-returns-value]
        self.nodes = {
            address: Node(address, self.world.host(address), settings) for address in addresses
        }
        for address, node in self.nodes.items():
            self.world.place(address, node)
        assemble_ring([self.nodes[address].links for address in standing])

    def links(self) -> list[Links]:
        return [node.links for node in self.nodes.values()]

    def rights(self) -> dict[int, Address]:
        return {
            address: node.links.right.address
            for address, node in self.nodes.items()
            if node.links.state == "in"
        }


def lone(address: int = 50) -> tuple[Links, Ledger]:
    ledger = Ledger()
    node = Links(address, ledger, address, LinkSettings())
    node.join(())
    ledger.take()
    return node, ledger


def only(ledger: Ledger, kind: type[Kind]) -> Kind:
    found = [message for _, message in ledger.sent() if isinstance(message, kind)]
    assert len(found) == 1
    return found[0]


def insert(node: Links, by: Ref, op: int = 1) -> SetR:
    assert node.rnum is not None
    return SetR(node.me, by, op, INSERT, by, node.right, node.rnum, (0, 0))


def test_a_join_alone_takes_four_linking_messages() -> None:
    ring = Ring([10, 20, 30, 40], standing=[10, 20, 40])
    ring.world.at(0, JOIN, lambda: ring.nodes[30].links.join((10,)))

    ring.world.run()

    linking = [
        message
        for message in ring.said
        if not isinstance(message, FindPlace) and type(message).__name__ != "PlaceFound"
    ]
    assert sorted(type(message).__name__ for message in linking) == [
        "SetL",
        "SetLAck",
        "SetR",
        "SetRAck",
    ]
    assert ring.rights() == {10: 20, 20: 30, 30: 40, 40: 10}
    assert ring_objections(ring.links()) == []


def test_a_leave_alone_takes_four_linking_messages() -> None:
    ring = Ring([10, 20, 30, 40], standing=[10, 20, 30, 40])
    ring.world.at(0, LEAVE, ring.nodes[30].links.leave)

    ring.world.run()

    assert sorted(type(message).__name__ for message in ring.said) == [
        "SetL",
        "SetLAck",
        "SetR",
        "SetRAck",
    ]
    assert ring.rights() == {10: 20, 20: 40, 40: 10}
    assert ring_objections(ring.links()) == []


def test_neighbours_that_leave_together_all_get_away() -> None:
    ring = Ring([10, 20, 30, 40, 50], standing=[10, 20, 30, 40, 50])
    for address in (20, 30, 40, 50):
        ring.world.at(0, LEAVE, ring.nodes[address].links.leave)

    ring.world.run()

    assert ring.rights() == {10: 10}
    assert ring_objections(ring.links()) == []


def test_two_members_that_both_leave_leave_an_empty_ring() -> None:
    ring = Ring([10, 20], standing=[10, 20])
    for node in ring.links():
        ring.world.at(0, LEAVE, node.leave)

    ring.world.run()

    assert ring.rights() == {}


def test_four_that_join_into_one_gap_need_little_more_than_one_request_each() -> None:
    ring = Ring([10, 20, 21, 22, 23, 30], standing=[10, 30])
    for address in (20, 21, 22, 23):
        ring.world.at(0, JOIN, lambda address=address: ring.nodes[address].links.join((30,)))

    ring.world.run()

    assert ring.rights() == {10: 20, 20: 21, 21: 22, 22: 23, 23: 30, 30: 10}
    assert sum(isinstance(message, SetR) for message in ring.said) <= 10, "at most m(m+1)/2"


def test_a_peer_that_left_comes_back_as_another_incarnation() -> None:
    ring = Ring([10, 20, 30], standing=[10, 20, 30])
    ring.world.at(0, LEAVE, ring.nodes[20].links.leave)
    ring.world.at(500_000, JOIN, lambda: ring.nodes[20].links.join((10,)))

    ring.world.run()

    assert ring.rights() == {10: 20, 20: 30, 30: 10}
    assert ring.nodes[20].links.me.incarnation > 0
    assert ring_objections(ring.links()) == []


def test_peers_with_one_key_are_in_order_of_their_names() -> None:
    world = World(Near(), 1)
    nodes = [Node(address, world.host(address), LinkSettings()) for address in (1, 2, 3)]
    for node in nodes:
        node.links.set_key(7)
        node.links.position.start(0)
        world.place(int(str(node.address)), node)
    assemble_ring([node.links for node in nodes])

    assert [node.links.right.address for node in nodes] == [2, 3, 1]
    assert opening([node.links for node in nodes]) is None


def test_the_same_request_gets_the_same_answer_again() -> None:
    node, ledger = lone()
    request = insert(node, Ref(60, 60, 5))

    node.handle_message(60, request)
    first = only(ledger, SetRAck)
    node.handle_message(60, request)

    assert only(ledger, SetRAck) == first
    assert node.right == Ref(60, 60, 5)


def test_an_older_request_is_not_even_answered() -> None:
    node, ledger = lone()
    node.handle_message(60, insert(node, Ref(60, 60, 5), op=3))
    ledger.take()

    node.handle_message(60, insert(node, Ref(60, 60, 5), op=2))

    assert ledger.sent() == []


def test_who_believes_something_else_is_refused_with_what_is_so() -> None:
    node, ledger = lone()
    node.handle_message(60, insert(node, Ref(60, 60, 5)))
    ledger.take()

    stale = SetR(node.me, Ref(55, 55, 5), 1, INSERT, Ref(55, 55, 5), node.me, (0, 0), (0, 0))
    node.handle_message(55, stale)

    nak = only(ledger, SetRNak)
    assert (nak.reason, nak.right) == (MOVED, Ref(60, 60, 5))


def test_a_link_number_never_comes_back() -> None:
    """The right neighbour and its incarnation are as expected, but the link is a later one."""
    node, ledger = lone()
    guest = Ref(60, 60, 5)
    node.handle_message(60, insert(node, guest))
    node.handle_message(60, SetR(node.me, guest, 2, DELETE, node.me, guest, (0, 0), (0, 2)))
    assert node.right == node.me
    ledger.take()

    node.handle_message(
        55, SetR(node.me, Ref(55, 55, 5), 1, INSERT, Ref(55, 55, 5), node.me, (0, 0), (0, 0))
    )

    assert only(ledger, SetRNak).reason == MOVED


def test_who_is_leaving_refuses_as_busy() -> None:
    node, ledger = lone()
    node.handle_message(60, insert(node, Ref(60, 60, 5)))
    node.leave()
    ledger.take()

    node.handle_message(55, insert(node, Ref(55, 55, 5)))

    assert only(ledger, SetRNak).reason == BUSY


def test_a_departed_incarnation_repeats_its_answers_and_refuses_new_requests() -> None:
    node, ledger = lone()
    guest = Ref(60, 60, 5)
    request = insert(node, guest)
    node.handle_message(60, request)
    me = node.me
    node.leave()
    leaving = next(message for _, message in ledger.sent() if isinstance(message, SetR))
    node.handle_message(60, SetRAck(me, guest, leaving.op, None, ()))
    assert node.state == "out"
    ledger.take()

    node.handle_message(60, request)
    assert isinstance(only(ledger, SetRAck), SetRAck)
    node.handle_message(
        55, SetR(me, Ref(55, 55, 5), 1, INSERT, Ref(55, 55, 5), guest, (0, 0), (0, 0))
    )
    assert only(ledger, SetRNak).reason == GONE
    node.handle_message(60, LinkStateRequest(me, guest, 9, me, (0, 0)))
    assert only(ledger, IncarnationGone) == IncarnationGone(guest, me, 0)


def test_an_incarnation_whose_answers_have_expired_answers_gone_to_that_request() -> None:
    node, ledger = lone()
    former = Ref(50, 50, -1)

    node.handle_message(
        60, SetR(former, Ref(60, 60, 5), 7, INSERT, Ref(60, 60, 5), former, (0, 0), (0, 0))
    )

    assert only(ledger, IncarnationGone) == IncarnationGone(Ref(60, 60, 5), former, 7)


def test_a_stray_gone_does_not_settle_an_own_request() -> None:
    """A leaving node must not take such an IncarnationGone for a refusal: its request may have been
    carried out.
    """
    node, _ = lone()
    guest = Ref(60, 60, 5)
    node.handle_message(60, insert(node, guest))
    node.leave()
    assert node.state == "del"

    node.handle_message(60, IncarnationGone(node.me, guest, 0))

    assert node.state == "del"


def test_newer_news_of_the_left_wins_whatever_the_order_of_arrival() -> None:
    node, ledger = lone()
    near, far = Ref(45, 45, 1), Ref(40, 40, 1)

    node.handle_message(45, SetL(node.me, near, (0, 2), ()))
    node.handle_message(40, SetL(node.me, far, (0, 1), ()))

    assert node.left == near
    answers = [message for _, message in ledger.sent()]
    assert answers == [SetLAck(near, node.me, near, (0, 2)), SetLAck(far, node.me, near, (0, 2))]


def test_the_right_neighbour_proves_an_insertion_whose_answer_was_lost() -> None:
    ledger = Ledger()
    node = Links(55, ledger, 55, LinkSettings())
    node.join((50,))
    left, right = Ref(50, 50, 1), Ref(60, 60, 1)
    node.membership.insert(left, right, (0, 0))
    assert node.state == "ins"

    node.handle_message(60, SetLAck(node.me, right, node.me, (0, 1)))

    assert (node.state, node.rnum, node.requests.pending) == ("in", (0, 1), None)


def test_a_node_with_a_proven_insertion_searches_left_at_once() -> None:
    """The lost or late answer would have carried the left list. Without it the node knows only its
    left neighbour until its next check; if that one fails before, the node has to search half round
    the ring.
    """
    ledger = Ledger()
    node = Links(50, ledger, 50, LinkSettings.with_crashes())
    node.join((10,))
    left, further, right = Ref(40, 40), (Ref(40, 40), Ref(30, 30), Ref(20, 20)), Ref(60, 60)
    node.handle_message(40, PlaceFound(node.me, left, right, (0, 0)))
    ledger.take()

    node.handle_message(60, SetLAck(node.me, right, node.me, (0, 1)))
    check = only(ledger, LinkStateRequest)
    node.handle_message(40, LinkState(node.me, left, check.token, node.me, (0, 0), further))

    assert (check.to, node.state, node.lefts) == (left, "in", further)


def test_a_list_ends_where_it_meets_its_owner() -> None:
    refs = [Ref(key, key) for key in (3, 2, 1, 4)]

    assert cut_list(refs, Ref(1, 1), 4) == (Ref(3, 3), Ref(2, 2))
    assert cut_list(refs, Ref(9, 9), 3) == tuple(refs[:3])


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_an_assembled_ring_passes_the_checks_of_a_grown_one(count: int) -> None:
    ring = Ring(list(range(count)), standing=list(range(count)))

    assert ring_objections(ring.links()) == []
    assert list_objections(ring.links()) == []


def test_lists_are_exact_after_as_many_rounds_of_checking_as_they_are_long() -> None:
    settings = LinkSettings(check_us=2_000_000)
    ring = Ring(list(range(12)), standing=list(range(0, 12, 2)), settings=settings)
    for address in range(1, 12, 2):
        ring.world.at(address, JOIN, lambda address=address: ring.nodes[address].links.join((0,)))

    ring.world.run(until_us=30_000_000)

    assert ring_objections(ring.links()) == []
    assert list_objections(ring.links()) == []


def test_the_checks_from_outside_find_wrong_rings() -> None:
    ring = Ring([10, 20, 30], standing=[10, 20, 30])
    nodes = ring.nodes

    nodes[10].links.position.right = nodes[30].links.me
    assert "member off the ring" in str(opening(ring.links()))
    nodes[10].links.position.right = Ref(25, 25)
    assert "not there" in str(opening(ring.links()))
    nodes[10].links.position.right = nodes[30].links.me
    nodes[30].links.position.right = nodes[20].links.me
    nodes[20].links.position.right = nodes[10].links.me
    assert "not in clockwise order" in str(opening(ring.links()))
