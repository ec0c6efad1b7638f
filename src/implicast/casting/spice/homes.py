"""Placement: the address of a tag, the roots of its replicas, and the home of a registration at
each notch.

All of it is computed from names, so that storing a registration twice stores it once. The thesis
divides lists of registrations in proportion to volume (Listing 11). Homes drawn by hash have the
same distribution on average, and make renewing and withdrawing a lookup instead of a traversal.
"""

from collections.abc import Sequence
from functools import lru_cache

from implicast.peer.contract import Name
from implicast.space.digest import digest_bits
from implicast.space.morton import BITS, Place, code, place, side

TAGS_REMEMBERED = 1 << 17
SPOTS_REMEMBERED = 1 << 14
"""Cache size. The owner and its backups look up the spot of a removed record one after the other;
computing it takes 5 us.
"""


@lru_cache(TAGS_REMEMBERED)
def address_of(tag: str) -> int:
    """The rendezvous extent of a tag: a single code, so that exactly one peer owns it (thesis
    section 7.3.1).
    """
    return digest_bits(BITS, tag)


@lru_cache(SPOTS_REMEMBERED)
def spot_of(consumer: Name, tag: str) -> int:
    """Hash of consumer and tag. Its leading digits place the registration inside each container."""
    return digest_bits(BITS, consumer, tag)


@lru_cache(TAGS_REMEMBERED)
def rotation_of(root: int) -> int:
    """Hash that is XORed into the spots of a root, so that replicas with the same container place a
    record at different peers. Without it the same peers carry every replica (TOUT_G .33 instead of
    .21 in the extreme experiment).
    """
    return digest_bits(BITS, root)


def home(root: int, notch: int, spot: int, dimensions: int) -> int:
    """The root's address with its last `notch` digits replaced by the first digits of the rotated
    spot.

    Scaled by 2^d, the home at one notch is the extent that contains the home at the next. Homes
    therefore lie in the scaled tracts of thesis Fig. 8.2, and are uniform there.
    """
    shift = notch * dimensions
    if not shift:
        return root
    return root >> shift << shift | (spot ^ rotation_of(root)) >> (BITS - shift)


def homes(root: int, notch: int, spots: Sequence[int], dimensions: int) -> list[int]:
    """`home` of several spots."""
    shift = notch * dimensions
    if not shift:
        return [root] * len(spots)
    base, turn, past = root >> shift << shift, rotation_of(root), BITS - shift
    return [base | (spot ^ turn) >> past for spot in spots]


def roots_of(address: int, level: int, dimensions: int) -> list[int]:
    """Roots of a level: the address with its first `level` digits replaced in all 2^(d level) ways,
    the original address included.
    """
    shift = BITS - level * dimensions
    tail = address & (1 << shift) - 1
    return [head << shift | tail for head in range(1 << level * dimensions)]


@lru_cache(TAGS_REMEMBERED)
def nearest_root(address: int, level: int, centre: Place) -> int:
    """The root of a level nearest to a centre, which is given in half units. Each dimension is
    decided independently.

    Cached, because every peer on the route of a cast asks: 20 us to compute, 0.2 us from the cache.
    """
    dimensions = len(centre)
    step = side(dimensions) >> level
    at = []
    for here, there in zip(centre, place(address, dimensions), strict=True):
        least = there % step
        at.append((least + (here - 2 * least + step) // (2 * step) * step) % side(dimensions))
    return code(tuple(at))
