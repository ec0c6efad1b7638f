"""Requests to store entries, their acknowledgements, and how both travel without receipts.

Records and acknowledgements to the same peer then share messages. Closed parts never open, so an
acknowledgement says what is closed at its notch, and later records go past it.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from implicast.casting.spice.homes import homes
from implicast.casting.spice.items import (
    TOGETHER_MAX,
    Answer,
    Entries,
    Entry,
    Key,
    Notch,
    NotchMessage,
    StoredEntry,
    Tag,
    TractField,
)
from implicast.casting.spice.part import SpiceTable, Tools
from implicast.casting.spice.registries import Registries
from implicast.overlay.ice.item_store import Code, RouteHeader
from implicast.peer.contract import Address, Message, Name
from implicast.peer.fields import Token
from implicast.space.tract import EMPTY, Tract, contains, union, unite

OWN, ASCENDING = 0, 1
"""Tokens of a consumer's own registration and of records that a closed registry passes up. Larger
tokens name other requests.
"""
KNOWN_CLOSED_MAX = 256
"""Maximum number of interval ends remembered as closed for one notch of a registry."""


class StoreRequest(NotchMessage):
    """Asks the owners of the entries' homes at one notch to store them."""

    wire = 0x0A01

    entries: Entries
    reply: Address
    token: Token
    """Chosen by the requester and returned in `StoreAck`."""
    first: bool = False
    """Whether the consumer itself sends the request. The original root then pushes the entry to the
    replicas.
    """


class StoreAck(Message):
    """The named entries, and their backup copies, are stored at the requested notch or at one above
    it.
    """

    wire = 0x0A02

    tag: Tag
    root: Code
    notch: Notch
    """The requested notch."""
    token: Token
    entries: Annotated[tuple[StoredEntry, ...], Meta(max_length=TOGETHER_MAX)]
    closed: TractField = ()
    """Without receipts: what the answering peer has closed at that notch. Closed parts never open
    there, so the requester sends later records past it.
    """


def way_to(root: int, notch: int, entries: Sequence[Entry], dimensions: int) -> RouteHeader:
    """The way to the homes of these entries."""
    places = homes(root, notch, [each.spot for each in entries], dimensions)
    if len(places) == 1:
        return RouteHeader((places[0], places[0] + 1))
    return RouteHeader(union([(each, each + 1) for each in places]))


class Grouping(SpiceTable):
    """Records and acknowledgements that share messages."""

    __slots__ = ("_known_closed", "_on_local", "_on_waiting", "_registries", "_unsent_acks")

    def __init__(
        self,
        tools: Tools,
        registries: Registries,
        on_local: Callable[[str, int, int, Sequence[Entry], Answer], None],
        on_waiting: Callable[[], None],
    ) -> None:
        """`on_local`: called with entries whose homes are here. `on_waiting`: called when there are
        acknowledgements to send.
        """
        super().__init__(tools)
        self._registries, self._on_local, self._on_waiting = registries, on_local, on_waiting
        self._unsent_acks: dict[tuple[Answer, str, int], dict[Name, StoredEntry]] = {}
        self._known_closed: dict[Key, Tract] = {}
        """Parts at higher notches that other peers report as closed."""

    def divide(self, store: StoreRequest) -> None:
        """Forward a request (Listing 11 with fixed homes). Each record takes its own best route,
        and records with the same next hop share a message: branch factor 0, merged.
        """
        root, notch, dimensions = store.root, store.notch, self.settings.dimensions
        places = homes(root, notch, [each.spot for each in store.entries], dimensions)
        ours, others = self.surface.routing.sort_by_hop(places, store.entries)
        if ours:
            self._on_local(store.tag, root, notch, ours, (store.reply, store.token, notch))
        for hop, entries in others.items():
            alone = hop is None or len(entries) == 1
            way = way_to(root, notch, entries, dimensions) if alone else store.way
            onward = replace(store, way=way, entries=tuple(entries))
            if hop is None:
                self.surface.send(onward)
            else:
                self.host.send(hop, onward)

    def send_ack(self, to: Address, ack: StoreAck) -> None:
        if ack.token == OWN:
            self.host.send(to, ack)
            return
        key = ((to, ack.token, ack.notch), ack.tag, ack.root)
        self._unsent_acks.setdefault(key, {}).update({each[0]: each for each in ack.entries})
        self._on_waiting()

    def send_acks(self) -> None:
        """Send the collected acknowledgements."""
        unsent, self._unsent_acks = self._unsent_acks, {}
        for ((reply, token, notch), tag, root), by_consumer in unsent.items():
            registry = self._registries.by_key.get((tag, root, notch))
            closed = registry.closed if registry is not None and notch else EMPTY
            closed = closed if len(closed) <= KNOWN_CLOSED_MAX else EMPTY
            entries = list(by_consumer.values())
            for start in range(0, len(entries), TOGETHER_MAX):
                together = tuple(entries[start : start + TOGETHER_MAX])
                self.host.send(reply, StoreAck(tag, root, notch, token, together, closed))

    def learn_closed(self, key: Key, closed: Tract) -> None:
        """Another peer reports what is closed there."""
        known = unite(self._known_closed.get(key, EMPTY), closed)
        if closed and len(known) <= KNOWN_CLOSED_MAX:
            self._known_closed[key] = known

    def is_closed(self, key: Key, code: int) -> bool:
        return contains(self._known_closed.get(key, EMPTY), code)
