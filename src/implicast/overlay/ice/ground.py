"""A peer's ground: the pieces it owns, the neighbours it knows, and the carrying of messages across the surface.

Routing is Listings 6 and 7 of the thesis. The two callbacks of Listing 7 are arguments of `route`: `deliver` gets the
part of the destination that is ours, `branch` makes the message for each part that goes on, or vetoes it with None.
Only firm pieces deliver. What arrives for a piece in transit is parked and looked at again when things have settled.

A route always ends: a branch goes to a neighbour that is strictly nearer to it than we are, and is only ever divided.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from implicast.overlay.ice.atlas import Atlas, tract_of
from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.table import Table, table_of
from implicast.peer.contract import Address, Host, Message, Part
from implicast.space.tract import EMPTY, Tract, contains, intersect, split, subtract

Thing = TypeVar("Thing")
PARKED_MAX = 4096
"""Messages that wait for a place to settle; beyond it the newest are dropped, and repeated by whoever asked."""


class Tenant(Protocol):
    """The layer above: what it keeps for places moves with them."""

    def pack(self, tract: Tract) -> bytes:
        """All that is kept for a place, to be handed over with it."""

    def unpack(self, luggage: bytes) -> None:
        """Keep for a place what its last owner kept there."""

    def forget(self, tract: Tract) -> None:
        """The place is in other hands."""

    def settled(self) -> None:
        """Our ground is not what it was: see to what is kept on it."""

    def resume(self, message: Message) -> None:
        """Take up a parked message as if it had just come."""

    def routed(self, payload: bytes) -> None:
        """A payload routed over ICE alone has arrived."""


class Ground(Part):
    """Pieces, table and routing. How pieces come and go is in `giving.py` and `greeting.py`."""

    __slots__ = (
        "_table",
        "atlas",
        "cosine",
        "dimensions",
        "firm",
        "high",
        "latency_us",
        "low",
        "merge",
        "parked",
        "tenant",
        "unsettled",
    )

    def __init__(
        self, address: Address, host: Host, tenant: Tenant, dimensions: int, cosine: float, merge: bool = True
    ) -> None:
        super().__init__(address, host)
        self.tenant, self.dimensions, self.cosine, self.merge = tenant, dimensions, cosine, merge
        self.atlas = Atlas()
        self.latency_us: dict[Address, float] = {}
        self.firm: Tract = EMPTY
        self.unsettled: Tract = EMPTY
        self.low = self.high = 0
        self.parked: list[Message] = []
        self._table: Table | None = None

    @property
    def pieces(self) -> list[Title]:
        return self.atlas.of(self.address)

    @property
    def table(self) -> Table:
        if self._table is None:
            others = [each for each in self.atlas.titles.values() if each.owner != self.address]
            self._table = table_of(self.dimensions, self.pieces, others, self.latency_us)
        return self._table

    def neighbours(self) -> list[Address]:
        return sorted({each.owner for each in self.atlas.titles.values()} - {self.address})

    def survey(self, unsettled: list[Title]) -> None:
        """The atlas has changed: which pieces answer, and which are in transit?"""
        self.unsettled = tract_of(unsettled)
        self.firm = subtract(tract_of(self.pieces), self.unsettled)
        # The quick test in `carry`: a quiet peer owns one interval.
        self.low, self.high = self.firm if len(self.firm) == 2 else (0, 0)
        self._table = None

    def settle_into(self, atlas: Atlas, latency_us: dict[Address, float], table: Table) -> None:
        """Take a place on a surface that is assembled at once."""
        self.atlas, self.latency_us = atlas, latency_us
        self.survey([])
        self._table = table

    def carry(self, code: int, message: Message) -> bool:
        """True if the place is ours to answer for; if not, the message is on its way there."""
        if self.low <= code < self.high or (not self.high and contains(self.firm, code)):
            return True
        if self.unsettled and contains(self.unsettled, code):
            self.park(message)
            return False
        table = self._table
        hop = (self.table if table is None else table).next_hop(code)
        if hop is None:
            self.park(message)
        else:
            self.host.send(hop, message)
        return False

    def sort_by_hop(
        self, codes: Sequence[int], things: Sequence[Thing]
    ) -> tuple[list[Thing], dict[Address | None, list[Thing]]]:
        """Things by where their places are: ours, and the others by next hop (None: to be parked)."""
        ours: list[Thing] = []
        others: dict[Address | None, list[Thing]] = {}
        low, high, unsettled = self.low, self.high, self.unsettled
        for code, hop, thing in zip(codes, self.table.next_hops(codes), things, strict=True):
            if low <= code < high or (not high and contains(self.firm, code)):
                ours.append(thing)
            else:
                to = None if unsettled and contains(unsettled, code) else hop
                others.setdefault(to, []).append(thing)
        return ours, others

    def route(self, tract: Tract, deliver: Callable[[Tract], None], branch: Callable[[Tract], Message | None]) -> None:
        """Deliver our part of a destination, and send the rest on in as few branches as the branch factor allows."""
        if self.high:
            own, rest = split(tract, self.low, self.high)
        else:
            own, rest = intersect(tract, self.firm), subtract(tract, self.firm)
        if own:
            deliver(own)
        if self.unsettled and (waiting := intersect(rest, self.unsettled)):
            self.forward(None, branch(waiting))
            rest = subtract(rest, self.unsettled)
        if rest:
            for hop, part in self.table.branches(rest, self.cosine, self.merge):
                self.forward(hop, branch(part))

    def forward(self, hop: Address | None, message: Message | None) -> None:
        """To the next hop; parked if there is none; nothing if the message was vetoed."""
        if message is None:
            return
        if hop is None:
            self.park(message)
        else:
            self.host.send(hop, message)

    def park(self, message: Message) -> None:
        if len(self.parked) < PARKED_MAX:
            self.parked.append(message)

    def unpark(self) -> None:
        """Something has settled: look again at all that waited."""
        waiting, self.parked = self.parked, []
        for message in waiting:
            self.tenant.resume(message)
