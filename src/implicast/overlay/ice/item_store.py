"""Interface between the surface and the layer above it, which stores items on it.

The surface moves *items* without interpreting them: with an extent in a handoff, to the backups of
an owner, and from a backup copy when an extent is taken over. An item has a location (one code or
an interval of codes) and a key; the body belongs to the store. `accept` merges: the store combines
the items that it is handed with those it has, whatever the order of arrival.
"""

from collections.abc import Iterable
from operator import lt
from typing import Annotated, Protocol

from msgspec import Meta

from implicast.peer.contract import Address, Message
from implicast.peer.errors import RemoteError
from implicast.space.morton import CODES
from implicast.space.tract import Tract

VERSION_MAX = (1 << 62) - 1
"""Largest version or serial in a message."""
ENDS_MAX = 8_192
"""Interval ends in one destination."""
HOPS_MAX = 1_024
"""Hops of a routed message; beyond it the message is dropped."""
VISITED_MAX = 64
"""Visited peers that a routed message can list."""

Code = Annotated[int, Meta(ge=0, le=CODES)]
Number = Annotated[int, Meta(ge=0, le=1 << 62)]
"""Identifies something to its sender only."""
StateVersion = Annotated[int, Meta(ge=0, le=VERSION_MAX)]
"""A counter that only increases."""


class Item(Message):
    """Something stored for other peers at a location."""

    low: Code
    high: Code
    """Location [low, high): one code for a record at its home, the span of its tract for a closed
    part.
    """
    key: Annotated[bytes, Meta(max_length=4_096)]
    """Identity: a later write of an owner to a key replaces its earlier ones."""
    body: Annotated[bytes, Meta(max_length=1 << 20)]
    """Encoded by the store. Empty: a deletion, which a backup may purge."""


class RouteHeader(Message):
    """Routing header. Every routed message has a field `way` of this type."""

    tract: Annotated[tuple[Code, ...], Meta(max_length=ENDS_MAX)]
    """The part of the destination that is still to be visited."""
    number: Number = 0
    """Identifies this hop, for its ack. The surface fills in this field and those below."""
    version: StateVersion = 0
    """State version of the previous hop. A receiver that does not know this version requests the
    full state.
    """
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)] = 0
    stuck: Annotated[tuple[Number, ...], Meta(max_length=2)] = ()
    """On a detour: the rank (distance, touching dimensions) at which no nearer peer was known."""
    visited: Annotated[tuple[Address, ...], Meta(max_length=VISITED_MAX)] = ()
    """On a detour: the peers that have forwarded the message."""


def check_tract(tract: Tract) -> None:
    """Raises `RemoteError` unless a tract from another peer consists of non-empty intervals in
    order.
    """
    if len(tract) == 2 and tract[0] < tract[1]:
        return  # the usual case
    if len(tract) % 2 or not all(map(lt, tract, tract[1:])):
        raise RemoteError(f"a tract must be ascending, non-empty intervals: {tract[:8]}")


def check_items(items: Iterable[Item]) -> None:
    """Raises `RemoteError` if an item has an empty location."""
    if [each for each in items if each.low >= each.high]:
        raise RemoteError("an item must have a non-empty location, low < high")


class ItemStore(Protocol):
    """The layer above: it stores items in the extents that its surface owns."""

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        """All items in the tract, for a handoff or a snapshot. Removes nothing."""

    def can_decode(self, item: Item) -> bool:
        """True if such an item can exist at that location. Backups discard all others, since no
        owner could use them.
        """

    def accept(self, items: tuple[Item, ...], tract: Tract) -> None:
        """Store those items that lie in the tract, merged with what is there: the newest version of
        a record, the union of closed parts. The tract may not be committed yet. The surface
        replicates the items to the backups.
        """

    def drop(self, tract: Tract) -> None:
        """The tract was handed off and the receiver has all its items: remove them."""

    def on_tract_lost(self, tract: Tract) -> None:
        """The tract was lost to a better claim. The store must offer its items to the present
        owners.
        """

    def on_arrival(self, sender: Address, part: Tract, message: Message) -> None:
        """A routed message has arrived: this peer answers for `part` of its destination.

        `sender` is the previous hop, or this peer. The same message may arrive again, with another
        part or the same one.
        """

    def settled(self) -> None:
        """The committed tract has changed: extents were committed, merged, handed off or lost, or
        backups acknowledge this peer again.
        """

    def lost(self, tract: Tract) -> None:
        """This tract is about to be committed although no live peer seems to have had a complete
        copy of its last owner's items.
        """

    def retry_waiting(self) -> None:
        """A tract of this or another peer that was not answered for may be so now: the store
        retries what waits for it.
        """

    def on_partition_healed(self) -> None:
        """A partition seems to have healed."""
