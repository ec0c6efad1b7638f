"""Where things are: the address of a tag, the roots of its replicas, the home of a registration at every notch.

All of it is computed from names alone, so nobody decides where a registration goes: whoever owns its home has it, and
storing it twice stores it once. The thesis divides lists of registrations in proportion to volume (Listing 11); homes
drawn by hash do the same on average, and make renewing and withdrawing a look-up instead of a walk.
"""

from collections.abc import Sequence
from functools import lru_cache

from implicast.peer.contract import Name
from implicast.space.digest import digest_bits
from implicast.space.morton import BITS, Place, code, place, side

TAGS_REMEMBERED = 1 << 17
SPOTS_REMEMBERED = 1 << 14
"""An owner and its heirs ask for the spot of a record that goes, one after the other (5 us to find)."""


@lru_cache(TAGS_REMEMBERED)
def address_of(tag: str) -> int:
    """The rendezvous extent of a tag: a single code, so that exactly one peer owns it (thesis section 7.3.1)."""
    return digest_bits(BITS, tag)


@lru_cache(SPOTS_REMEMBERED)
def spot_of(consumer: Name, tag: str) -> int:
    """The digits by which one consumer's registration under one tag is placed inside every container."""
    return digest_bits(BITS, consumer, tag)


@lru_cache(TAGS_REMEMBERED)
def turn_of(root: int) -> int:
    """What a root's homes are turned by, so that replicas whose containers coincide put a record at different peers.

    Without it the same peers were heavy for every replica: TOUT_G .33 instead of .2x in the extreme experiment.
    """
    return digest_bits(BITS, root)


def home(root: int, notch: int, spot: int, dimensions: int) -> int:
    """The root's address with its last `notch` digits replaced by the first digits of the (turned) spot.

    The code at a notch, made 2^d times larger, is the extent that holds the code at the next notch: homes lie in the
    scaled tracts of thesis Fig. 8.2, spread evenly.
    """
    shift = notch * dimensions
    if not shift:
        return root
    return root >> shift << shift | (spot ^ turn_of(root)) >> (BITS - shift)


def homes(root: int, notch: int, spots: Sequence[int], dimensions: int) -> list[int]:
    """`home` of many spots."""
    shift = notch * dimensions
    if not shift:
        return [root] * len(spots)
    base, turn, past = root >> shift << shift, turn_of(root), BITS - shift
    return [base | (spot ^ turn) >> past for spot in spots]


def roots_of(address: int, level: int, dimensions: int) -> list[int]:
    """Every address with the first `level` digits replaced: 2^(d level) of them, the original among them."""
    shift = BITS - level * dimensions
    tail = address & (1 << shift) - 1
    return [head << shift | tail for head in range(1 << level * dimensions)]


@lru_cache(TAGS_REMEMBERED)
def nearest_root(address: int, level: int, centre: Place) -> int:
    """The root of a level that is nearest to a centre (in half units). Each dimension can be decided by itself.

    Remembered: every peer on the way of a cast asks again (20 us to find, 0.2 us to remember).
    """
    dimensions = len(centre)
    step = side(dimensions) >> level
    at = []
    for here, there in zip(centre, place(address, dimensions), strict=True):
        least = there % step
        at.append((least + (here - 2 * least + step) // (2 * step) * step) % side(dimensions))
    return code(tuple(at))
