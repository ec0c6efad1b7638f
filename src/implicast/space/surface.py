"""The surface of ICE in readable terms: extents as strings of digits, tracts as sets of them,
distances.

A torus of `d` dimensions with unit side, wrapping on every edge (thesis section 7.2.1). This is the
front of the geometry: texts in and out, and the definition of distance that the compiled kernels
(`kernels.py`) are tested against.

    >>> plane = Surface(2)
    >>> plane.text(subtract(plane.tract("0", "2"), plane.tract("20")))
    '{0,21,22,23}'
"""

from dataclasses import dataclass
from math import sqrt

from implicast.space.morton import BITS, DIMENSIONS, Box, box, side
from implicast.space.tract import Tract, extents, union

Rank = tuple[int, int]
"""How near two regions are: squared distance in units, then in how many dimensions they merely
touch.
"""


@dataclass(frozen=True, slots=True)
class Surface:
    """A torus of so many dimensions."""

    dimensions: int = 3

    def __post_init__(self) -> None:
        assert self.dimensions in DIMENSIONS, (
            f"a surface has 2 to 6 dimensions, not {self.dimensions}"
        )

    @property
    def digits(self) -> int:
        """Digits of a full address: the deepest extent is one code."""
        return BITS // self.dimensions

    def extent(self, address: str) -> tuple[int, int]:
        """The interval of codes of an extent such as "3032"; "" is the whole surface."""
        code = 0
        for digit in address:
            code = code << self.dimensions | int(digit, 36)
        shift = BITS - len(address) * self.dimensions
        return code << shift, (code + 1) << shift

    def tract(self, *addresses: str) -> Tract:
        return union(self.extent(each) for each in addresses)

    def address(self, low: int, digits: int) -> str:
        """The text of an extent: digits up to 63, so letters above nine (base 36), then in angle
        brackets.
        """
        shifts = range(
            BITS - self.dimensions, BITS - (digits + 1) * self.dimensions, -self.dimensions
        )
        return "".join(_digit(low >> shift & (1 << self.dimensions) - 1) for shift in shifts)

    def text(self, tract: Tract) -> str:
        return (
            "{"
            + ",".join(self.address(low, digits) for low, digits in extents(tract, self.dimensions))
            + "}"
        )

    def boxes(self, tract: Tract) -> list[Box]:
        return [
            box(low, digits * self.dimensions, self.dimensions)
            for low, digits in extents(tract, self.dimensions)
        ]

    def distance(self, one: Tract, other: Tract) -> float:
        """Length of the shortest segment between two tracts; 1 is the side of the surface."""
        squared, _ = min(self.rank(a, b) for a in self.boxes(one) for b in self.boxes(other))
        return sqrt(squared) / side(self.dimensions)

    def rank(self, one: Box, other: Box) -> Rank:
        """Squared distance of two boxes, and the number of dimensions in which they touch without
        overlapping.

        Distance alone does not order neighbours well enough: peers that touch a destination at an
        edge or corner are all at distance 0, and would pass a message round for ever. With the
        second number every hop improves.
        """
        squared = touching = 0
        for low, high, other_low, other_high in zip(*one, *other, strict=True):
            if max(low, other_low) >= min(high, other_high):
                gap = min(
                    (other_low - high) % side(self.dimensions),
                    (low - other_high) % side(self.dimensions),
                )
                squared += gap * gap
                touching += gap == 0
        return squared, touching


def _digit(value: int) -> str:
    return "0123456789abcdefghijklmnopqrstuvwxyz"[value] if value < 36 else f"<{value}>"
