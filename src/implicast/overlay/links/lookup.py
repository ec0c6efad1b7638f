"""Place lookups on a linked ring: the lookup of the own place, and the routing of other nodes'
lookups.

Rings separate in a partition, or when more adjacent nodes fail at once than the left lists cover.
To merge them, each node now and then looks its own place up through a node that is not its
neighbour: a shortcut of the overlay above or a suspected node. In an intact ring the answer is its
left neighbour. Otherwise the node searches left from the answer and so inserts itself into the
other ring. Each node that gains a left neighbour introduces its former and its new left neighbour
to each other, so that the merge proceeds in round trips rather than in lookup periods.
"""

from typing import TYPE_CHECKING

from implicast.overlay.links.messages import (
    FindPlace,
    KnownNodes,
    KnownNodesRequest,
    NotOnRing,
    PlaceFound,
    StaleRoute,
)
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.state import IN, INS, OUT
from implicast.peer.contract import Address, Part, StandingAlarm, handles
from implicast.peer.memory import Repeats

if TYPE_CHECKING:
    from implicast.overlay.links.links import Links

DISTINCT_ATTEMPTS = 64
"""Number of attempts of one origin that can be told from duplicates."""
CONTACTS_ALONE = 8
"""Number of contacts that a node without neighbours uses at once."""
NODES_TOLD = 8
"""Nodes that a member names to a joining node."""
PASSED_US = 2_000_000
"""The same lookup within this time is a duplicate."""
_NO_REPEATS: Repeats[FindPlace] = Repeats(0)


SOON_US = 7_000_000
"""Mean time between two lookups through remembered nodes while other rings are looked for."""
SOON_ROUNDS = 6
"""Number of these."""
SOON_CONTACTS = 3
"""Remembered nodes of one of these: with message loss half of the lookups are not answered."""


class MergeSoon(StandingAlarm):
    """Fires while a node looks for other rings through remembered nodes."""

    incarnation: int
    left: int


class MergeRound(StandingAlarm):
    """Fires when a node should look its own place up to merge separated rings."""

    incarnation: int


class PlaceLookup(Part):
    """Sends lookups of the own place, and forwards or answers those of other nodes."""

    __slots__ = ("_passed", "_soon_until_us", "attempts", "links")

    def __init__(self, links: "Links") -> None:
        super().__init__(links.address, links.host)
        self.links = links
        self.attempts = self._soon_until_us = 0
        """`attempts`: attempts so far. `_soon_until_us`: until when other rings are looked for."""
        self._passed = (
            Repeats[FindPlace](links.settings.passed_max)
            if links.detector is not None
            else _NO_REPEATS
        )
        """Lookups forwarded recently. Kept only where peers crash, because there pointers may form
        a cycle.
        """

    # --- the own place

    def reset_attempts(self) -> None:
        """A joining node starts its lookups."""
        self.attempts = 0

    def send_find_place(self, to: Address) -> None:
        """Send a lookup. Where duplicates are dropped, each attempt starts with a different hop
        limit, which makes it distinct.
        """
        links = self.links
        self.attempts += 1
        less = self.attempts % DISTINCT_ATTEMPTS if links.detector is not None else 0
        self.host.send(to, FindPlace(links.me, links.settings.find_hops - less))

    @handles(MergeRound)
    def on_merge_round(self, alarm: MergeRound) -> None:
        links = self.links
        if alarm.incarnation == links.me.incarnation and links.state == IN:
            # Lookups may be lost: more often while a partition may end at any moment.
            is_split = any(map(links.liveness.silent.is_silent, links.liveness.unreachable))
            links.after_jittered(links.settings.merge_us >> is_split, alarm)
            for contact in self.merge_contacts():
                self.lookup_via(contact)

    def merge_soon(self) -> None:
        """This ring was founded just now, or this node lost all nodes that it knew on its left: there
        may be other rings. Look for these through all that is remembered, for a while.
        """
        if self.links.detector is not None and self.host.now_us >= self._soon_until_us:
            self._soon_until_us = self.host.now_us + SOON_ROUNDS * SOON_US
            alarm = MergeSoon(self.links.me.incarnation, SOON_ROUNDS)
            self.links.after_jittered(SOON_US // 4, alarm)

    @handles(MergeSoon)
    def on_merge_soon(self, alarm: MergeSoon) -> None:
        links = self.links
        if alarm.incarnation != links.me.incarnation or links.state != IN:
            return
        for contact in self._remembered_contacts():
            self.lookup_via(contact)
        if alarm.left > 1:
            links.after_jittered(SOON_US, MergeSoon(alarm.incarnation, alarm.left - 1))

    def _remembered_contacts(self) -> list[Address]:
        links = self.links
        if links.right == links.me:
            return self.merge_contacts()
        near = {ref.address for ref in (links.left, links.right, links.me)}
        remembered = (ref.address for ref in links.liveness.remembered)
        known = dict.fromkeys((*remembered, *links.membership.joined_through))
        contacts = [address for address in known if address not in near]
        return self.host.rng.sample(contacts, min(SOON_CONTACTS, len(contacts)))

    def merge_contacts(self) -> list[Address]:
        """Nodes that may stand on another ring: one known node at random, and the next suspected
        one. Any remembered node serves: one of the present ring, a former neighbour, an introducer,
        or the origin of a lookup that passed by. Under fast turnover only the last two may know the
        other ring. A node that is alone uses up to 8 of each, also departed nodes, because every
        node it knew may have failed or restarted.
        """
        links, liveness, is_alone = (
            self.links,
            self.links.liveness,
            self.links.right == self.links.me,
        )
        many, gone = (CONTACTS_ALONE, liveness.departed) if is_alone else (1, ())
        known = dict.fromkeys(
            (*links.listener.known_nodes(), *links.lefts[1:], *liveness.remembered, *gone)
        )
        others = [
            ref.address
            for ref in known
            if ref not in (links.left, links.right, links.me, *liveness.unreachable)
        ]
        joined_through = links.membership.joined_through
        candidates = list(dict.fromkeys((*others, *joined_through)))
        drawn = self.host.rng.sample(candidates, min(many, len(candidates)))
        found = [*drawn, *(ref.address for ref in liveness.next_unreachable(many))]
        return [*found, *joined_through] if is_alone else found

    def lookup_via(self, contact: Address) -> None:
        """Look the own place up through a node that may stand on another ring."""
        if self.links.state == IN and contact != self.address:
            self.send_find_place(contact)

    def introduce_neighbours(self, former: Ref, left: Ref) -> None:
        """The left neighbour changed from `former` to `left`: tell the nearer of the two to search
        from the other, so that rings that meet merge step by step.
        """
        links = self.links
        if former in (left, links.me) or left == links.me or links.liveness.is_lost(former):
            return
        nearer, other = (left, former) if lies_between(former, left, links.me) else (former, left)
        links.send_to(nearer, PlaceFound(nearer, other, links.me, links.lnum))

    def notify_replaced(self, former: Ref) -> None:
        """The right neighbour was replaced: tell it, so that it checks its place at once if it is
        alive.
        """
        links = self.links
        if links.detector is not None and former not in (
            links.me,
            links.right,
            *links.liveness.departed,
        ):
            links.send_to(former, PlaceFound(former, links.me, links.right, links.lnum))

    # --- the places of other nodes

    @handles(FindPlace)
    def on_find_place(self, sender: Address, find: FindPlace) -> None:
        links, origin = self.links, find.origin
        if links.detector is not None and self._passed.came_by(find, self.host.now_us, PASSED_US):
            return
        links.liveness.remember(origin)
        if sender == origin.address and find.hops_left == links.settings.find_hops - 1:
            self.on_known_nodes_request(sender, KnownNodesRequest())  # the first of a joining node
        if links.state in (OUT, INS):
            self._forward_as_nonmember(sender, find)
        elif origin.place == links.right.place or lies_between(links.me, origin, links.right):
            assert links.rnum is not None, "a member knows the number of its link"
            links.send_to(origin, PlaceFound(origin, links.me, links.right, links.rnum))
        elif find.hops_left > 0 and (step := self._next_step(origin)) is not None:
            links.send_to(step, FindPlace(origin, find.hops_left - 1))

    def _next_step(self, origin: Ref) -> Ref | None:
        """The next hop towards the place of `origin`. A finger to a departed node, or to an earlier
        incarnation of this node, is removed first; otherwise it would swallow every lookup of a
        joining node. A finger to the origin's own address, where another node stood before, is
        skipped in favour of the right neighbour.
        """
        links = self.links
        step = links.listener.closest_preceding(origin.place) or links.right
        if self._is_stale(step):
            links.listener.on_node_left(step)
            step = links.listener.closest_preceding(origin.place) or links.right
        if step.address == origin.address:
            step = links.right
        return None if self._is_stale(step) or step.address == origin.address else step

    def _is_stale(self, step: Ref) -> bool:
        return step.address == self.address or (
            self.links.detector is not None and step in self.links.liveness.departed
        )

    def _forward_as_nonmember(self, sender: Address, find: FindPlace) -> None:
        """A departed node sends the lookup to its former left neighbour, from which the place is
        still ahead, and sends StaleRoute to the sender so that the stale finger is dropped. A node
        being inserted sends it to its right neighbour.
        """
        links = self.links
        departed = next(reversed(links.departed_incarnations.items()), None)
        step = links.right if links.state == INS else departed[1].left if departed else None
        if step is not None and step.address != self.address and find.hops_left > 0:
            self.host.send(step.address, FindPlace(find.origin, find.hops_left - 1))
        if links.state == OUT and departed is not None and sender != find.origin.address:
            self.host.send(sender, StaleRoute(departed[0]))
        is_joining = links.state == OUT and links.membership.introducers
        if links.detector is not None and is_joining and step is None:
            is_new = links.membership.is_new
            links.send_to(find.origin, NotOnRing(find.origin, links.me, is_new))
            links.membership.add_introducers(find.origin)  # it may join first

    @handles(KnownNodesRequest)
    def on_known_nodes_request(self, sender: Address, request: KnownNodesRequest) -> None:
        links = self.links
        if links.state == IN and links.detector is not None:
            known = [ref for ref in links.nearby_nodes() if not links.liveness.is_lost(ref)]
            self.host.send(sender, KnownNodes(tuple(known[:NODES_TOLD])))

    @handles(KnownNodes)
    def on_known_nodes(self, sender: Address, answer: KnownNodes) -> None:
        """A joining node also looks its place up through these: its introducers may fail before
        they can help it.
        """
        if self.links.state == OUT and self.links.membership.introducers:
            self.links.membership.add_introducers(*answer.nodes)

    @handles(StaleRoute)
    def on_stale_route(self, sender: Address, departed: StaleRoute) -> None:
        if self.links.detector is not None:
            self.links.liveness.note_departed(departed.ref)
        self.links.listener.on_node_left(departed.ref)
