"""Place lookups on a linked ring: the lookup of the own place, and the routing of other nodes'
lookups.

Rings separate in a partition, or when more adjacent nodes fail at once than the left lists cover.
To merge them, each node now and then looks its own place up through a node that is not its
neighbour: a shortcut of the overlay above or a suspected node. In an intact ring the answer is its
left neighbour. Otherwise the node searches left from the answer and so inserts itself into the
other ring. Each node that gains a left neighbour introduces its former and its new left neighbour
to each other, so that the merge proceeds in round trips rather than in lookup periods.
"""

from implicast.overlay.links.attempts import after_jittered
from implicast.overlay.links.introducers import Introducers
from implicast.overlay.links.listener import LayerAbove
from implicast.overlay.links.liveness import RingLiveness
from implicast.overlay.links.messages import (
    FindPlace,
    KnownNodes,
    KnownNodesRequest,
    NotOnRing,
    PlaceFound,
    StaleRoute,
)
from implicast.overlay.links.pointers import Pointers
from implicast.overlay.links.position import Position
from implicast.overlay.links.refs import Ref, lies_between
from implicast.overlay.links.requests import Send
from implicast.overlay.links.settings import LinkSettings
from implicast.overlay.links.state import IN, INS, OUT
from implicast.peer.contract import Address, Host, Part, StandingAlarm, handles
from implicast.peer.memory import Repeats

DISTINCT_ATTEMPTS = 64
"""Number of attempts of one origin that can be told from duplicates."""
CONTACTS_ALONE = 8
"""Number of contacts that a node without neighbours uses at once."""
NEIGHBOURS_SAVED = 24
"""Nodes saved for the next incarnation: the nearest, and fingers to distant parts of the ring."""
PASSED_US = 2_000_000
"""The same lookup within this time is a duplicate."""
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

    __slots__ = (
        "_above",
        "_introducers",
        "_liveness",
        "_passed",
        "_pointers",
        "_position",
        "_send",
        "_settings",
        "_soon_until_us",
        "attempts",
    )

    def __init__(
        self,
        position: Position,
        host: Host,
        settings: LinkSettings,
        liveness: RingLiveness,
        pointers: Pointers,
        introducers: Introducers,
        above: LayerAbove,
        send: Send,
    ) -> None:
        super().__init__(position.address, host)
        self._position, self._settings, self._liveness = position, settings, liveness
        self._pointers, self._introducers = pointers, introducers
        self._above, self._send = above, send
        self.attempts = self._soon_until_us = 0
        """`attempts`: attempts so far. `_soon_until_us`: until when other rings are looked for."""
        self._passed = Repeats[FindPlace](settings.passed_bound)
        """Lookups forwarded recently, because pointers may form a cycle."""

    # --- the own place

    def reset_attempts(self) -> None:
        """A joining node starts its lookups."""
        self.attempts = 0

    def send_find_place(self, to: Address) -> None:
        """Send a lookup. Each attempt starts with a different hop limit, which makes it distinct
        from duplicates.
        """
        self.attempts += 1
        less = self.attempts % DISTINCT_ATTEMPTS
        self.host.send(to, FindPlace(self._position.me, self._settings.find_hops - less))

    @handles(MergeRound)
    def on_merge_round(self, alarm: MergeRound) -> None:
        position = self._position
        if alarm.incarnation == position.me.incarnation and position.state == IN:
            # Lookups may be lost: more often while a partition may end at any moment.
            after_jittered(self.host, self._settings.merge_us >> self._liveness.is_split(), alarm)
            for contact in self.merge_contacts():
                self.lookup_via(contact)

    def merge_soon(self) -> None:
        """This ring was founded just now, or this node lost all nodes that it knew on its left: there
        may be other rings. Look for these through all that is remembered, for a while.
        """
        if self._settings.merges and self.host.now_us >= self._soon_until_us:
            self._soon_until_us = self.host.now_us + SOON_ROUNDS * SOON_US
            alarm = MergeSoon(self._position.me.incarnation, SOON_ROUNDS)
            after_jittered(self.host, SOON_US // 4, alarm)

    @handles(MergeSoon)
    def on_merge_soon(self, alarm: MergeSoon) -> None:
        position = self._position
        if alarm.incarnation != position.me.incarnation or position.state != IN:
            return
        for contact in self._remembered_contacts():
            self.lookup_via(contact)
        if alarm.left > 1:
            after_jittered(self.host, SOON_US, MergeSoon(alarm.incarnation, alarm.left - 1))

    def _remembered_contacts(self) -> list[Address]:
        position = self._position
        if position.is_alone:
            return self.merge_contacts()
        near = {ref.address for ref in (position.left, position.right, position.me)}
        remembered = (ref.address for ref in self._liveness.remembered)
        known = dict.fromkeys((*remembered, *self._introducers.joined_through))
        contacts = [address for address in known if address not in near]
        return self.host.rng.sample(contacts, min(SOON_CONTACTS, len(contacts)))

    def merge_contacts(self) -> list[Address]:
        """Nodes that may stand on another ring: one known node at random, and the next suspected
        one. Any remembered node serves: one of the present ring, a former neighbour, an introducer,
        or the origin of a lookup that passed by. Under fast turnover only the last two may know the
        other ring. A node that is alone uses up to 8 of each, also departed nodes, because every
        node it knew may have failed or restarted.
        """
        position, liveness = self._position, self._liveness
        is_alone = position.is_alone
        many, gone = (CONTACTS_ALONE, liveness.departed) if is_alone else (1, ())
        known = dict.fromkeys(
            (
                *self._above.listener.known_nodes(),
                *position.lefts[1:],
                *liveness.remembered,
                *gone,
            )
        )
        near = (position.left, position.right, position.me, *liveness.unreachable)
        others = [ref.address for ref in known if ref not in near]
        joined_through = self._introducers.joined_through
        candidates = list(dict.fromkeys((*others, *joined_through)))
        drawn = self.host.rng.sample(candidates, min(many, len(candidates)))
        found = [*drawn, *(ref.address for ref in liveness.next_unreachable(many))]
        return [*found, *joined_through] if is_alone else found

    def lookup_via(self, contact: Address) -> None:
        """Look the own place up through a node that may stand on another ring."""
        if self._position.state == IN and contact != self.address:
            self.send_find_place(contact)

    # --- the places of other nodes

    @handles(FindPlace)
    def on_find_place(self, sender: Address, find: FindPlace) -> None:
        position, origin = self._position, find.origin
        if self._passed.came_by(find, self.host.now_us, PASSED_US):
            return
        self._liveness.remember(origin)
        if sender == origin.address and find.hops_left == self._settings.find_hops - 1:
            self.on_known_nodes_request(sender, KnownNodesRequest())  # the first of a joining node
        if position.state in (OUT, INS):
            self._forward_as_nonmember(sender, find)
        elif origin.place == position.right.place or lies_between(
            position.me, origin, position.right
        ):
            assert position.rnum is not None, "a member knows the number of its link"
            found = PlaceFound(origin, position.me, position.right, position.rnum)
            self._send(origin, found)
        elif find.hops_left > 0 and (step := self._next_step(origin)) is not None:
            self._send(step, FindPlace(origin, find.hops_left - 1))

    def _next_step(self, origin: Ref) -> Ref | None:
        """The next hop towards the place of `origin`. A finger to a departed node, or to an earlier
        incarnation of this node, is removed first; otherwise it would swallow every lookup of a
        joining node. A finger to the origin's own address, where another node stood before, is
        skipped in favour of the right neighbour.
        """
        listener, right = self._above.listener, self._position.right
        step = listener.closest_preceding(origin.place) or right
        if self._is_stale(step):
            listener.on_node_left(step)
            step = listener.closest_preceding(origin.place) or right
        if step.address == origin.address:
            step = right
        return None if self._is_stale(step) or step.address == origin.address else step

    def _is_stale(self, step: Ref) -> bool:
        return step.address == self.address or self._liveness.forwards_nothing(step)

    def _forward_as_nonmember(self, sender: Address, find: FindPlace) -> None:
        """A departed node sends the lookup to its former left neighbour, from which the place is
        still ahead, and sends StaleRoute to the sender so that the stale finger is dropped. A node
        being inserted sends it to its right neighbour.
        """
        position, introducers = self._position, self._introducers
        departed = next(reversed(self._pointers.departed.items()), None)
        is_out = position.state == OUT
        step = position.right if not is_out else departed[1].left if departed else None
        if step is not None and step.address != self.address and find.hops_left > 0:
            self.host.send(step.address, FindPlace(find.origin, find.hops_left - 1))
        if is_out and departed is not None and sender != find.origin.address:
            self.host.send(sender, StaleRoute(departed[0]))
        if is_out and introducers.addresses and step is None and self._settings.founds:
            waiting = NotOnRing(find.origin, position.me, introducers.is_new)
            self._send(find.origin, waiting)
            introducers.add((find.origin,))  # it may join first

    # --- known nodes

    def nearby_nodes(self) -> tuple[Ref, ...]:
        """Nodes for the next incarnation to contact, the right neighbour first."""
        position, known = self._position, self._above.listener.known_nodes()
        first = (position.right, *known[:2], position.left)
        near = dict.fromkeys((*first, *position.lefts, *known[2:]))
        near.pop(position.me, None)
        return tuple(near)[:NEIGHBOURS_SAVED] or self._introducers.former

    @handles(KnownNodesRequest)
    def on_known_nodes_request(self, sender: Address, request: KnownNodesRequest) -> None:
        told = self._settings.nodes_told
        if told and self._position.state == IN:
            known = [ref for ref in self.nearby_nodes() if not self._liveness.is_lost(ref)]
            self.host.send(sender, KnownNodes(tuple(known[:told])))

    @handles(KnownNodes)
    def on_known_nodes(self, sender: Address, answer: KnownNodes) -> None:
        """A joining node also looks its place up through these: its introducers may fail before
        they can help it.
        """
        if self._position.state == OUT:
            self._introducers.add(answer.nodes)

    @handles(StaleRoute)
    def on_stale_route(self, sender: Address, departed: StaleRoute) -> None:
        self._liveness.note_departed(departed.ref)
        self._above.listener.on_node_left(departed.ref)
