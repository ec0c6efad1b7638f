"""The Morton (Z-order) curve of a torus with 2 to 6 dimensions: places as integers.

A *code* has `BITS` bits. Read from the top, bit j belongs to dimension j modulo d, so every prefix
of a code names a box, and all codes with that prefix are one aligned interval. `BITS` is 60, which
2, 3, 4, 5 and 6 divide: a code is a whole number of base 2^d digits in every dimension, and fits a
machine word.

The first bit of a digit is the vertical one, so that on two dimensions digit 0 is top left, 1 top
right, 2 bottom left and 3 bottom right (thesis, Fig. 7.3). Tracts are in `tract.py`; the readable
surface in `surface.py`.
"""

BITS = 60
CODES = 1 << BITS
"""How many codes there are: the whole surface is the interval [0, CODES)."""
DIMENSIONS = (2, 3, 4, 5, 6)
_WRITTEN = f"0{BITS}b"

Place = tuple[int, ...]
Box = tuple[Place, Place]
"""Lower and upper corner in whole units; the upper one is not in the box."""


def side(dimensions: int) -> int:
    """Units along one edge of the surface."""
    return 1 << (BITS // dimensions)


def place(code: int, dimensions: int) -> Place:
    """The coordinates of a code. Written out as digits, it is taken apart by strides: a seventh of
    going bit by bit.
    """
    digits = format(int(code) & CODES - 1, _WRITTEN)
    return tuple([int(digits[each::dimensions], 2) for each in range(dimensions)])


def code(at: Place) -> int:
    """The code of a place: the inverse of `place`."""
    dimensions = len(at)
    within = side(dimensions) - 1
    found = 0
    for each in at:
        found = found << 1 | _spread(int(each) & within, dimensions)
    return found


def _spread(coordinate: int, dimensions: int) -> int:
    """The bits of a number so many places apart: its binary digits read in base 2^d, a quarter of
    going bit by bit.
    """
    if dimensions == 6:  # the largest base that can be read is 36
        return _spread(_spread(coordinate, 2), 3)
    return int(format(coordinate, "b"), 1 << dimensions)


def lengths(bits: int, dimensions: int) -> Place:
    """The edges of the box that a prefix of so many bits names."""
    return tuple(
        side(dimensions) >> len(range(each, bits, dimensions)) for each in range(dimensions)
    )


def box(low: int, bits: int, dimensions: int) -> Box:
    """The box of all codes that begin with the first `bits` bits of `low`."""
    corner = place(low, dimensions)
    edges = lengths(bits, dimensions)
    return corner, tuple(each + edge for each, edge in zip(corner, edges, strict=True))
