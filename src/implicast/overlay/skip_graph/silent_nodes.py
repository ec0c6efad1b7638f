"""Nodes and contacts that may be members although this peer does not list them. Receipts of casts
that concern them are uncertain. Sends no messages.

A peer that loses another remembers its places (`members.py`). A newcomer was not there: its
neighbours tell it which nodes near it they lost, or know only from others, and for how long they
have been silent. It names them to later newcomers likewise, until a member that falls silent is no
longer owed casts (`OWED_US`). A restarted peer expects the contacts of its former incarnation.
"""

from collections.abc import Callable, Collection

from implicast.overlay.skip_graph.messages import SILENT_MAX, SilentNode
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import Places
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate
from implicast.peer.lease import OWED_US
from implicast.peer.memory import Recent

NODES_MAX = 1_024
"""Silent nodes remembered; the one named first is evicted first."""

Silent = tuple[Certificate, int]
"""A node, and the time since which it is silent."""


class SilentNodes:
    """What one peer was told of silent nodes, and the contacts that it expects.

    `lists(address)` tells whether this peer lists a place of an address, `was_heard_since(address,
    time_us)` whether it sent a message since.
    """

    __slots__ = ("_contacts", "_lists", "_nodes", "_places", "_until_us", "_was_heard_since")

    def __init__(
        self,
        places: Places,
        lists: Callable[[Address], bool],
        was_heard_since: Callable[[Address, int], bool],
    ) -> None:
        self._places, self._lists, self._was_heard_since = places, lists, was_heard_since
        self._contacts: dict[Address, None] = {}
        self._until_us = 0
        # by key: node, silent since, time at which it was named
        self._nodes: Recent[bytes, tuple[Certificate, int, int]] = Recent(NODES_MAX)

    # --- contacts of an earlier incarnation

    def expect(self, contacts: Collection[Address]) -> None:
        """Until they are listed or have left, these may be members that this peer does not know
        again.
        """
        self._contacts = dict.fromkeys(contacts)
        self._until_us = self._places.host.now_us + OWED_US

    def contacts(self) -> list[Address]:
        """The expected contacts of which no place is listed, within `OWED_US`."""
        if self._contacts:
            is_over = self._places.host.now_us > self._until_us
            left = [] if is_over else [each for each in self._contacts if not self._lists(each)]
            self._contacts = dict.fromkeys(left)
        return list(self._contacts)

    # --- nodes named by neighbours

    def learn(self, named: Collection[SilentNode]) -> None:
        """Remember nodes that a neighbour named as silent."""
        now_us, store = self._places.host.now_us, self._places.certificate_store
        for each in named:
            node, since_us = each.certificate, now_us - each.age_us
            if node.address != self._places.address and store.is_valid(node):
                self._nodes.once(node.key, (node, since_us, now_us))

    def nodes(self, concerns: Callable[[bytes], bool]) -> list[Silent]:
        """The nodes named whose key concerns the caller, and that have sent nothing since, are not
        listed and have not left. A node beyond all lists of level 0 is left to the peers beside it.
        """
        found, owed_us = list[Silent](), self._places.host.now_us - OWED_US
        for key in [key for key in self._nodes if concerns(key)]:
            node, since_us, named_us = self._nodes[key]
            if since_us < owed_us or self._is_resolved(node, named_us):
                del self._nodes[key]
            elif any(place.wide.levels[0].spans(key) for place in self._places.held.values()):
                found.append((node, since_us))
        return found

    def _is_resolved(self, node: Certificate, named_us: int) -> bool:
        return (
            self._was_heard_since(node.address, named_us)
            or any(node.key in place.known for place in self._places.held.values())
            or not self._places.certificate_store.is_valid(node)
        )

    def forget(self, address: Address) -> None:
        """A peer has left."""
        self._contacts.pop(address, None)


def silent_near(
    place: Place,
    silent_places: Callable[[Callable[[bytes], bool]], Collection[Silent]],
    now_us: int,
) -> tuple[SilentNode, ...]:
    """The silent nodes to name to a peer that asked a place: those that its list of level 0 spans,
    and those that it knows only from others, within `OWED_US`.
    """
    spans = place.wide.levels[0].spans
    found = {node.key: (node, since_us) for node, since_us in silent_places(spans)}
    for key, since_us in place.unconfirmed.items():
        if key in place.known and spans(key):
            found.setdefault(key, (place.known[key], since_us))
    return tuple(
        [
            SilentNode(node, now_us - since_us)
            for node, since_us in found.values()
            if now_us - OWED_US < since_us <= now_us
        ][:SILENT_MAX]
    )
