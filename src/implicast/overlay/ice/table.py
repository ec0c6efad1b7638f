"""Routing table of a peer: its own boxes and its neighbours', laid out for the compiled kernels.

A table is built from the ownership map whenever that changes, and is immutable. Its size depends on
the number of dimensions only, not on the number of peers (thesis section 7.2).
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from implicast.overlay.ice.messages import OwnershipClaim
from implicast.peer.contract import Address
from implicast.peer.lazy_attributes import unmade
from implicast.space import kernels
from implicast.space.morton import Box
from implicast.space.prefix import box_of
from implicast.space.surface import Rank, Surface
from implicast.space.tract import Tract

Rows = npt.NDArray[np.int64]
NAMES = 1 << 31
"""Only addresses below this value fit on a sheet."""
HANDFUL = 4
"""From this number of codes on, an array is faster."""
FARTHEST: Rank = (1 << 62, 0)
"""Rank of a peer without extents."""
TableBoxes = tuple[Rows, Rows, npt.NDArray[np.float64]]
"""Own boxes, the neighbours' boxes, and the neighbours' latencies."""


class SurfaceTable:
    """One peer's table: `own` and `rows` are boxes, row i belongs to `owners[i]` at `latencies[i]`
    microseconds.
    """

    __slots__ = (
        "_load",
        "centre",
        "dimensions",
        "latencies",
        "named",
        "own",
        "owners",
        "owns",
        "rows",
        "sheet",
    )

    def __init__(
        self,
        dimensions: int,
        owners: list[Address],
        boxes: TableBoxes | None,
        sheet: npt.NDArray[np.int32] | None = None,
        load: Callable[[], TableBoxes] | None = None,
    ) -> None:
        """`boxes`: own boxes, the neighbours' boxes and latencies. If a sheet of one own box with
        the owners' addresses is given, `load` computes the boxes at their first use: most tables of
        a large surface only route.
        """
        self.dimensions, self.owners, self.sheet, self._load = dimensions, owners, sheet, load
        self.owns = 1
        self.named = True
        """True if the sheet contains the owners' addresses; false if it contains row numbers."""
        if boxes is not None:
            self.own, self.rows, self.latencies = boxes
            self.centre, self.owns = _centre(self.own, dimensions), len(self.own)
            self.named = all(type(each) is int and 0 <= each < NAMES for each in owners)
        else:
            self.__class__ = unmade(
                SurfaceTable, ("own", "rows", "latencies", "centre"), SurfaceTable.load
            )

    def load(self) -> None:
        """Compute the boxes at their first use."""
        assert self._load is not None, "a table has boxes or a function that computes them"
        self.own, self.rows, self.latencies = self._load()
        self.centre, self.__class__ = _centre(self.own, self.dimensions), SurfaceTable

    def next_hop(self, code: int) -> Address | None:
        """The neighbour to which a message for this code goes (Listing 6)."""
        sheet = self.sheet
        name = kernels.hop_by_sheet(self.build_sheet() if sheet is None else sheet, self.owns, code)
        if name < 0:
            return None
        return name if self.named else self.owners[name]

    def next_hops(self, codes: Sequence[int]) -> list[Address | None]:
        """`next_hop` for many codes: 0.5 instead of 2 microseconds each."""
        if len(codes) < HANDFUL:
            return [self.next_hop(code) for code in codes]
        sheet = self.sheet if self.sheet is not None else self.build_sheet()
        names = kernels.hops_by_sheet(sheet, self.owns, np.array(codes, np.int64)).tolist()
        if self.named:
            return [name if name >= 0 else None for name in names]
        return [self.owners[name] if name >= 0 else None for name in names]

    def build_sheet(self) -> npt.NDArray[np.int32]:
        """Pack the table into one array for the kernels."""
        names = self.owners if self.named else range(len(self.owners))
        self.sheet = kernels.sheet_of(self.own, self.rows, self.latencies, list(names))
        return self.sheet

    def branches(
        self, tract: Tract, cosine: float, merge: bool
    ) -> list[tuple[Address | None, Tract]]:
        """The destination divided among neighbours; with `merge`, clusters with the same next hop
        share a branch.
        """
        if self.named and self.owns == 1 and self.owners:
            sheet = self.sheet if self.sheet is not None else self.build_sheet()
            return [
                (None if name < 0 else name, part)
                for name, part in kernels.branches(sheet, tract, cosine, merge)
            ]
        found = kernels.branch(
            np.array(tract, np.int64),
            self.own,
            self.centre,
            self.rows,
            self.latencies,
            cosine,
            self.dimensions,
        )
        return [
            (self.owners[hop] if hop >= 0 else None, part)
            for hop, part in kernels.parts_of(found, merge)
        ]

    def rank(self, part: Tract) -> Rank:
        """Distance rank of this peer's extents to a destination."""
        return self._rank(self.own, self._targets(part)) if len(self.own) else FARTHEST

    def nearest(self, part: Tract, visited: Collection[Address]) -> Address | None:
        """The neighbour nearest to a destination among those not visited."""
        targets = self._targets(part)
        rows = [row for row, owner in enumerate(self.owners) if owner not in visited]
        ranks = [(self._rank(self.rows[row : row + 1], targets), row) for row in rows]
        return self.owners[min(ranks)[1]] if ranks else None

    def _targets(self, part: Tract) -> Rows:
        return rows_of(Surface(self.dimensions).boxes(part), self.dimensions)

    def _rank(self, boxes: Rows, targets: Rows) -> Rank:
        """Smallest distance rank between any box and any target."""
        unlimited = np.zeros(len(targets), np.int64)
        squared, touching = kernels.nearest(boxes, targets, 0, unlimited, self.dimensions)
        return int(squared), int(touching)


def table_of(
    dimensions: int,
    extents: list[OwnershipClaim],
    others: list[OwnershipClaim],
    latencies: list[float],
) -> SurfaceTable:
    """The table of a peer with these extents and neighbours' extents."""
    own, rows = (
        rows_of((box_of(each.low, each.bits, dimensions) for each in claims), dimensions)
        for claims in (extents, others)
    )
    boxes = (own, rows, np.array(latencies, np.float64))
    return SurfaceTable(dimensions, [each.owner for each in others], boxes)


def rows_of(boxes: Iterable[Box], dimensions: int) -> Rows:
    rows = [[*low, *high] for low, high in boxes]
    return np.array(rows, np.int64).reshape(len(rows), 2 * dimensions)


def _centre(own: Rows, dimensions: int) -> Rows:
    """Centre of the largest extent, in half units; a leaving peer may have none."""
    if not len(own):
        return np.zeros(dimensions, np.int64)
    edges = own[:, dimensions:] - own[:, :dimensions]
    largest = own[0 if len(own) == 1 else int(np.argmax(np.prod(edges.astype(np.float64), axis=1)))]
    centre: Rows = largest[:dimensions] + largest[dimensions:]
    return centre
