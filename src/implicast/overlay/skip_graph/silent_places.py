"""Places and contacts that may be members although this peer does not list them. Receipts of casts
that concern them are uncertain. Sends no messages.

A peer that loses another remembers its places (`members.py`). A newcomer was not there: its
neighbours tell it which places near it they lost, or know only from others, and for how long they
have been silent. It names them to later newcomers likewise, until a member that falls silent is no
longer owed casts (`OWED_US`). A restarted peer expects the contacts of its former incarnation.
"""

from collections.abc import Callable, Collection, Sequence

from implicast.overlay.skip_graph.members import GraphMembers
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import Places
from implicast.peer.contract import Address, Message
from implicast.peer.fields import Micros
from implicast.peer.identity import Certificate
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent

SILENT_MAX = 64
"""Silent places in one answer."""
NAMED_SILENT_MAX = 1_024
"""Silent places remembered; the one named first is evicted first."""

Silent = tuple[Certificate, int]
"""A place, and the time since which it is silent."""


class SilentPlace(Message):
    """A place that may be a member's although it does not answer, and for how long it has not."""

    certificate: Certificate
    age_us: Micros


class SilentPlaces:
    """What one peer was told of silent places, what it lost itself, and the contacts that it
    expects.
    """

    __slots__ = ("_members", "_places", "_until_us", "expected", "named")

    def __init__(self, places: Places, members: GraphMembers) -> None:
        self._places, self._members = places, members
        self.expected: dict[Address, None] = {}
        self._until_us = 0
        # by key: place, silent since, time at which it was named
        self.named: Recent[bytes, tuple[Certificate, int, int]] = Recent(NAMED_SILENT_MAX)

    # --- contacts of an earlier incarnation

    def expect(self, contacts: Collection[Address]) -> None:
        """Until they are listed or have left, these may be members that this peer does not know
        again.
        """
        self.expected = dict.fromkeys(contacts)
        self._until_us = self._places.host.now_us + OWED_US

    def contacts(self) -> list[Address]:
        """The expected contacts of which no place is listed, within `OWED_US`."""
        if self.expected:
            is_over, lists = self._places.host.now_us > self._until_us, self._members.lists
            left = [] if is_over else [each for each in self.expected if not lists(each)]
            self.expected = dict.fromkeys(left)
        return list(self.expected)

    def addresses(self) -> tuple[Address, ...]:
        """Addresses that may be members and are not listed: peers lost within `OWED_US`, and
        expected contacts.
        """
        lost = self._members.addresses_lost_within(OWED_US)
        return tuple(dict.fromkeys([*lost, *self.contacts()]))

    def forget(self, address: Address) -> None:
        """A peer has left."""
        self.expected.pop(address, None)

    # --- silent places

    def learn(self, named: Collection[SilentPlace]) -> None:
        """Remember places that a neighbour named as silent."""
        now_us, store = self._places.host.now_us, self._places.certificate_store
        for each in named:
            node, since_us = each.certificate, now_us - each.age_us
            if node.address != self._places.address and store.is_valid(node):
                self.named.once(node.key, (node, since_us, now_us))

    def places(self, concerns: Callable[[bytes], bool]) -> Sequence[Silent]:
        """Places of peers lost within `OWED_US`, and places that neighbours named as silent, whose
        key concerns the caller. A named one is resolved when it sends a message, is listed or has
        left. One beyond all lists of level 0 is left to the peers beside it.
        """
        owed_us, held = self._places.host.now_us - OWED_US, self._places.held.values()
        found = [
            (node, lost.since_us)
            for lost in self._members.lost.values()
            if lost.since_us >= owed_us
            for node in lost.nodes.values()
            if concerns(node.key)
        ]
        for key in [key for key in self.named if concerns(key)]:
            node, since_us, named_us = self.named[key]
            if since_us < owed_us or self._is_resolved(node, named_us):
                del self.named[key]
            elif any(place.wide.levels[0].spans(key) for place in held):
                found.append((node, since_us))
        return found

    def _is_resolved(self, node: Certificate, named_us: int) -> bool:
        return (
            self._members.was_heard_since(node.address, named_us)
            or any(node.key in place.known for place in self._places.held.values())
            or not self._places.certificate_store.is_valid(node)
        )

    def near(self, place: Place, spans: Callable[[bytes], bool]) -> tuple[SilentPlace, ...]:
        """The silent places to name to a peer that asked a place: those that its list of level 0
        spans, and those that it knows only from others, within `OWED_US`.
        """
        now_us = self._places.host.now_us
        found = {node.key: (node, since_us) for node, since_us in self.places(spans)}
        for key, since_us in place.unconfirmed.items():
            if key in place.known and spans(key):
                found.setdefault(key, (place.known[key], since_us))
        silent = [
            SilentPlace(node, now_us - since_us)
            for node, since_us in found.values()
            if now_us - OWED_US < since_us <= now_us
        ]
        return tuple(silent[:SILENT_MAX])
