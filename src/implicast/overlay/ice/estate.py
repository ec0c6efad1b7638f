"""The line between the surface and the layer that keeps things on it.

The surface moves *items* about without understanding them: with a piece that is given away, to the heirs of an owner,
back from an estate when a piece is seized. An item lies at a place (one code, or the span of several) and has a key;
all else is the keeper's. What the keeper knows newer or larger, it says by `accept`: it unites what it is handed with
what it has, whatever the order.
"""

from collections.abc import Iterable
from operator import lt
from typing import Annotated, Protocol

from msgspec import Meta

from implicast.peer.contract import Address, Message
from implicast.peer.errors import RemoteError
from implicast.space.morton import CODES
from implicast.space.tract import Tract

MARK_MAX = (1 << 62) - 1
ENDS_MAX = 8_192
"""Ends of intervals in one destination."""
HOPS_MAX = 1_024
"""Hops of one way over the surface; what has gone so far is dropped."""
VISITED_MAX = 64
"""Peers that a way remembers to have visited."""

Code = Annotated[int, Meta(ge=0, le=CODES)]
Number = Annotated[int, Meta(ge=0, le=1 << 62)]
"""A number that only its sender understands."""
Mark = Annotated[int, Meta(ge=0, le=MARK_MAX)]
"""A number that only rises."""


class Item(Message):
    """Something kept for others at a place."""

    low: Code
    high: Code
    """It lies within [low, high): a record at its home (one code), a closed part in the span of its tract."""
    key: Annotated[bytes, Meta(max_length=4_096)]
    """Equal keys are one thing: what an owner says later about a key replaces what it said before."""
    body: Annotated[bytes, Meta(max_length=1 << 20)]
    """Encoded by the keeper; empty: the owner keeps this no longer, an heir may forget it."""


class Way(Message):
    """Where a routed message goes. Every kind that is routed has a field `way` of this type."""

    tract: Annotated[tuple[Code, ...], Meta(max_length=ENDS_MAX)]
    """The part of the destination still to be visited."""
    number: Number = 0
    """Names this hop, for its acknowledgement. The surface fills it in, and all below."""
    mark: Mark = 0
    """What the last hop knows of itself: who does not know this mark asks for a greeting."""
    hops: Annotated[int, Meta(ge=0, le=HOPS_MAX)] = 0
    stuck: Annotated[tuple[Number, ...], Meta(max_length=2)] = ()
    """On a detour: the rank (distance, touching dimensions) at which nobody nearer was known."""
    visited: Annotated[tuple[Address, ...], Meta(max_length=VISITED_MAX)] = ()
    """On a detour: who has seen the message."""


def check_tract(tract: Tract) -> None:
    """What a stranger calls a tract has to be one: intervals in order, none empty."""
    if len(tract) == 2 and tract[0] < tract[1]:
        return  # most are
    if len(tract) % 2 or not all(map(lt, tract, tract[1:])):
        raise RemoteError(f"no tract: {tract[:8]}")


def check_items(items: Iterable[Item]) -> None:
    """Each item lies somewhere."""
    if [each for each in items if each.low >= each.high]:
        raise RemoteError("an item that lies nowhere")


class Tenant(Protocol):
    """The layer above: it keeps items on the ground that its surface owns."""

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        """All items in the tract: to be given away with it, or copied to an heir. Nothing is forgotten yet."""

    def reads(self, item: Item) -> bool:
        """Can there be such an item, there? Heirs keep no other for an owner: nobody would ever take it back."""

    def accept(self, items: tuple[Item, ...], tract: Tract) -> None:
        """Keep these, as far as they lie in the tract; unite them with what is there: the newest version of a record,
        the union of closed parts. The ground may not be firm yet, and the surface sees to the heirs."""

    def drop(self, tract: Tract) -> None:
        """The tract was given away and the taker has all of it: forget it."""

    def yielded(self, tract: Tract) -> None:
        """The tract was lost to a better title. What lies there must be offered to whoever owns the places now."""

    def arrived(self, sender: Address, part: Tract, message: Message) -> None:
        """A routed message has come to ground that answers: `part` of its destination is ours, firm, not doubtful.

        `sender` is the previous hop, or ourselves. The same message may come again, with another part or the same.
        """

    def settled(self) -> None:
        """The ground that answers has changed: pieces became firm, were merged, given or lost, or doubt has ended."""

    def lost(self, tract: Tract) -> None:
        """Ground of ours, about to answer, whose last owner's items nobody alive seems to have had a whole copy of."""

    def reopened(self) -> None:
        """Ground that did not answer may do so now, ours or others': look again at what waits for it."""

    def reunited(self) -> None:
        """A partition seems to have ended."""
