"""What a peer routes by: its own boxes and its neighbours', laid out for the compiled kernels.

A table is made from the atlas whenever that changes, and not changed itself. Its size depends on the number of
dimensions only, whatever the number of peers (thesis section 7.2).
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from implicast.peer.contract import Address
from implicast.peer.late import unmade
from implicast.space import kernels
from implicast.space.morton import Box
from implicast.space.surface import Rank, Surface
from implicast.space.tract import Tract

Rows = npt.NDArray[np.int64]
NAMES = 1 << 31
"""Addresses below it can be written on a sheet."""
HANDFUL = 4
"""So many codes are worth an array."""
FARTHEST: Rank = (1 << 62, 0)
"""Of a peer that has no ground."""
Drawn = tuple[Rows, Rows, npt.NDArray[np.float64]]
"""Our own boxes, the neighbours', and how far these are."""


class SurfaceTable:
    """One peer's view: `own` and `rows` are boxes, row i belongs to `owners[i]` at `latencies[i]` microseconds."""

    __slots__ = (
        "_draw",
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
        drawn: Drawn | None,
        sheet: npt.NDArray[np.int32] | None = None,
        draw: Callable[[], Drawn] | None = None,
    ) -> None:
        """`drawn`: own boxes, the neighbours' and how far these are. Where there is a sheet already, of one own box and
        with the owners' names, `draw` says it when it is needed: most tables of a large surface are only routed by."""
        self.dimensions, self.owners, self.sheet, self._draw = dimensions, owners, sheet, draw
        self.owns = 1
        self.named = True
        """Do the sheet's names say the owners themselves? Else they are rows."""
        if drawn is not None:
            self.own, self.rows, self.latencies = drawn
            self.centre, self.owns = _centre(self.own, dimensions), len(self.own)
            self.named = all(type(each) is int and 0 <= each < NAMES for each in owners)
        else:
            self.__class__ = unmade(
                SurfaceTable, ("own", "rows", "latencies", "centre"), SurfaceTable.draw
            )

    def draw(self) -> None:
        """What the sheet was made of, which nobody has asked for until now."""
        assert self._draw is not None, "a table is drawn, or can be"
        self.own, self.rows, self.latencies = self._draw()
        self.centre, self.__class__ = _centre(self.own, self.dimensions), SurfaceTable

    def next_hop(self, code: int) -> Address | None:
        """The neighbour to which a message for this code goes (Listing 6)."""
        sheet = self.sheet
        name = kernels.hop_by_sheet(self.lay_out() if sheet is None else sheet, self.owns, code)
        if name < 0:
            return None
        return name if self.named else self.owners[name]

    def next_hops(self, codes: Sequence[int]) -> list[Address | None]:
        """`next_hop` of many codes: half a microsecond each instead of two, from a handful on."""
        if len(codes) < HANDFUL:
            return [self.next_hop(code) for code in codes]
        sheet = self.sheet if self.sheet is not None else self.lay_out()
        names = kernels.hops_by_sheet(sheet, self.owns, np.array(codes, np.int64)).tolist()
        if self.named:
            return [name if name >= 0 else None for name in names]
        return [self.owners[name] if name >= 0 else None for name in names]

    def lay_out(self) -> npt.NDArray[np.int32]:
        """The table on one sheet."""
        names = self.owners if self.named else range(len(self.owners))
        self.sheet = kernels.sheet_of(self.own, self.rows, self.latencies, list(names))
        return self.sheet

    def branches(
        self, tract: Tract, cosine: float, merge: bool
    ) -> list[tuple[Address | None, Tract]]:
        """The destination, divided among neighbours; with `merge`, clusters with one next hop share a branch."""
        if self.named and self.owns == 1 and self.owners:
            sheet = self.sheet if self.sheet is not None else self.lay_out()
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
        """How near our ground is to a destination."""
        return self._rank(self.own, self._targets(part)) if len(self.own) else FARTHEST

    def nearest(self, part: Tract, visited: Collection[Address]) -> Address | None:
        """The neighbour that is nearest to a destination, of those that have not been visited."""
        targets = self._targets(part)
        rows = [row for row, owner in enumerate(self.owners) if owner not in visited]
        ranks = [(self._rank(self.rows[row : row + 1], targets), row) for row in rows]
        return self.owners[min(ranks)[1]] if ranks else None

    def _targets(self, part: Tract) -> Rows:
        return rows_of(Surface(self.dimensions).boxes(part), self.dimensions)

    def _rank(self, boxes: Rows, targets: Rows) -> Rank:
        """How near any of the boxes is to any of the targets."""
        unlimited = np.zeros(len(targets), np.int64)
        squared, touching = kernels.nearest(boxes, targets, 0, unlimited, self.dimensions)
        return int(squared), int(touching)


def rows_of(boxes: Iterable[Box], dimensions: int) -> Rows:
    rows = [[*low, *high] for low, high in boxes]
    return np.array(rows, np.int64).reshape(len(rows), 2 * dimensions)


def _centre(own: Rows, dimensions: int) -> Rows:
    """In half units. Directions are seen from the largest piece: a quiet peer has one, a leaver may have none."""
    if not len(own):
        return np.zeros(dimensions, np.int64)
    edges = own[:, dimensions:] - own[:, :dimensions]
    largest = own[0 if len(own) == 1 else int(np.argmax(np.prod(edges.astype(np.float64), axis=1)))]
    centre: Rows = largest[:dimensions] + largest[dimensions:]
    return centre
