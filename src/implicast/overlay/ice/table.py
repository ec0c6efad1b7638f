"""What a peer routes by: its own boxes and its neighbours', laid out for the compiled kernels.

A table is made from the atlas whenever that changes, and not changed itself. Its size depends on the number of
dimensions only, whatever the number of peers (thesis section 7.2).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.peer.contract import Address
from implicast.peer.memory import Recent
from implicast.space import kernels
from implicast.space.tract import Tract

Rows = npt.NDArray[np.int64]
NAMES = 1 << 31
"""Addresses below it can be written on a sheet."""
HANDFUL = 4
"""So many codes are worth an array."""
KNOWN_MAX = 32
"""Destinations whose ways are remembered while a table lasts."""
Drawn = tuple[Rows, Rows, npt.NDArray[np.float64]]
"""Our own boxes, the neighbours', and how far these are."""
UNKNOWN_US = 50_000.0
"""Latency assumed of a neighbour that has not been measured yet."""


class SurfaceTable:
    """One peer's view: `own` and `rows` are boxes, row i belongs to `owners[i]` at `latencies[i]` microseconds."""

    __slots__ = ("_draw", "centre", "dimensions", "known", "latencies", "named", "own", "owners", "owns", "rows",
                 "sheet")  # fmt: skip

    def __init__(
        self, dimensions: int, owners: list[Address], drawn: Drawn | None, sheet: npt.NDArray[np.int32] | None = None,
        draw: Callable[[], Drawn] | None = None,
    ) -> None:  # fmt: skip
        """`drawn`: own boxes, the neighbours' and how far these are. Where there is a sheet already, of one own box and
        with the owners' names, `draw` says it when it is needed: most tables of a large surface are only routed by."""
        self.dimensions, self.owners, self.sheet, self._draw = dimensions, owners, sheet, draw
        self.owns = 1
        self.named = True
        """Do the sheet's names say the owners themselves? Else they are rows."""
        if drawn is not None:
            self.own, self.rows, self.latencies = drawn
            self.centre, self.owns = _centre(self.own, dimensions), len(self.own)
            self.named = all(type(each) is int and each < NAMES for each in owners)

    def __getattr__(self, name: str) -> Any:
        """What the sheet was made of; and `known`, what was found out by this table for some destinations."""
        if name == "known":
            self.known: Recent[Any, Any] = Recent(KNOWN_MAX)
        elif name in ("own", "rows", "latencies", "centre") and self._draw is not None:
            self.own, self.rows, self.latencies = self._draw()
            self.centre = _centre(self.own, self.dimensions)
        else:
            raise AttributeError(name)
        return getattr(self, name)

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

    def branches(self, tract: Tract, cosine: float, merge: bool) -> list[tuple[Address | None, Tract]]:
        """The destination, divided among neighbours; with `merge`, clusters with one next hop share a branch."""
        if self.named and self.owns == 1 and self.owners:
            sheet = self.sheet if self.sheet is not None else self.lay_out()
            return [(None if name < 0 else name, part) for name, part in kernels.branches(sheet, tract, cosine, merge)]
        found = kernels.branch(
            np.array(tract, np.int64), self.own, self.centre, self.rows, self.latencies, cosine, self.dimensions
        )
        return [(self.owners[hop] if hop >= 0 else None, part) for hop, part in kernels.parts_of(found, merge)]


def _centre(own: Rows, dimensions: int) -> Rows:
    """In half units. Directions are seen from the largest piece: a quiet peer has one, a leaver may have none."""
    if not len(own):
        return np.zeros(dimensions, np.int64)
    edges = own[:, dimensions:] - own[:, :dimensions]
    largest = own[0 if len(own) == 1 else int(np.argmax(np.prod(edges.astype(np.float64), axis=1)))]
    centre: Rows = largest[:dimensions] + largest[dimensions:]
    return centre
