"""Routing table of a peer: its own boxes and its neighbours', laid out as one sheet for the kernels.

A table is made of the ownership map whenever that changes, and is immutable. Its size depends on
the number of dimensions only, not on the number of peers (thesis section 7.2).
"""

from collections.abc import Collection, Iterable, Sequence

from implicast.overlay.ice.messages import OwnershipClaim
from implicast.peer.contract import Address
from implicast.space import kernels
from implicast.space.morton import Box
from implicast.space.prefix import box_of
from implicast.space.surface import Rank, Surface
from implicast.space.tract import Tract

NAMES = 1 << 31
"""Only addresses below this value fit on a sheet."""
HANDFUL = 4
"""From this number of codes on, one call for all is faster."""
FARTHEST: Rank = (kernels.FAR, 0)
"""Rank of a peer without extents."""
NO_SHEET = memoryview(b"")


class SurfaceTable:
    """One peer's table: a sheet with `owns` own boxes, then one box of each of the `owners`."""

    __slots__ = ("dimensions", "named", "owners", "owns", "sheet")

    def __init__(
        self, dimensions: int, owners: list[Address], owns: int, sheet: memoryview, named: bool
    ) -> None:
        """`named`: the sheet contains the owners' addresses; else numbers of rows."""
        self.dimensions, self.owners, self.owns = dimensions, owners, owns
        self.sheet, self.named = sheet, named

    def next_hop(self, code: int) -> Address | None:
        """The neighbour to which a message for this code goes (Listing 6)."""
        if not self.owners:
            return None
        name = kernels.hop_by_sheet(self.sheet, self.owns, code)
        if name < 0:
            return None
        return name if self.named else self.owners[name]

    def next_hops(self, codes: Sequence[int]) -> list[Address | None]:
        """`next_hop` for many codes: 0.5 instead of 2 microseconds each."""
        if len(codes) < HANDFUL or not self.owners:
            return [self.next_hop(code) for code in codes]
        return [
            self._named(each) for each in kernels.hops_of_codes(self.sheet, self.owns, list(codes))
        ]

    def _named(self, name: int) -> Address | None:
        if name < 0:
            return None
        return name if self.named else self.owners[name]

    def branches(
        self, tract: Tract, cosine: float, merge: bool
    ) -> list[tuple[Address | None, Tract]]:
        """The destination divided among neighbours; with `merge`, clusters with the same next hop
        share a branch.
        """
        if not self.owners:
            return [(None, tract)]
        if self.owns == 1:
            found = kernels.branches(self.sheet, tract, cosine, merge)
        else:
            found = kernels.branches_of(self.sheet, self.owns, tract, cosine, merge)
        return [(self._named(name), part) for name, part in found]

    def boxes(self) -> list[kernels.Row]:
        """The own boxes, then the neighbours', each as its corners."""
        if not (self.owns or self.owners):
            return []
        return [each[: 2 * self.dimensions] for each in kernels.unpack(self.sheet)[0]]

    @property
    def centre(self) -> tuple[int, ...]:
        """Centre of the largest own box, in half units."""
        return kernels.centre_of(self.boxes()[: self.owns], self.dimensions)

    def rank(self, part: Tract) -> Rank:
        """Distance rank of this peer's extents to a destination."""
        own = self.boxes()[: self.owns]
        return kernels.nearest(own, self._targets(part), self.dimensions) if own else FARTHEST

    def nearest(self, part: Tract, visited: Collection[Address]) -> Address | None:
        """The neighbour nearest to a destination among those not visited."""
        targets, rows = self._targets(part), self.boxes()[self.owns :]
        ranks = [
            (kernels.nearest((row,), targets, self.dimensions), index)
            for index, (row, owner) in enumerate(zip(rows, self.owners, strict=True))
            if owner not in visited
        ]
        return self.owners[min(ranks)[1]] if ranks else None

    def _targets(self, part: Tract) -> list[kernels.Row]:
        return [(*low, *high) for low, high in Surface(self.dimensions).boxes(part)]


def table_of(
    dimensions: int,
    extents: Iterable[OwnershipClaim],
    others: list[OwnershipClaim],
    latencies: list[float],
) -> SurfaceTable:
    """The table of a peer with these extents and neighbours' extents."""
    owners = [each.owner for each in others]
    own, boxes = (
        [box_of(each.low, each.bits, dimensions) for each in claims] for claims in (extents, others)
    )
    return table_of_boxes(dimensions, own, boxes, owners, latencies)


def table_of_boxes(
    dimensions: int,
    own: list[Box],
    boxes: list[Box],
    owners: list[Address],
    latencies: list[float],
) -> SurfaceTable:
    names = [each for each in owners if type(each) is int and 0 <= each < NAMES]
    named = len(names) == len(owners)
    sheet = NO_SHEET
    if own or boxes:
        rows = names if named else range(len(owners))
        sheet = kernels.sheet_of(dimensions, own, boxes, latencies, rows)
    return SurfaceTable(dimensions, owners, len(own), sheet, named)
