"""Who is meant: one life of one peer at one place of the circle.

A peer that left, crashed or gave up joining comes back only with a larger life: two lives are two nodes, so that
nothing said to the old one can harm the new one.
"""

from itertools import takewhile
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from implicast.peer.contract import Address
from implicast.space.ring import between

RingKey = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A place on the circle of peers, as it travels."""
RingLife = Annotated[int, Meta(ge=0, lt=1 << 62)]
Step = Annotated[int, Meta(ge=0, lt=1 << 62)]

Place = tuple[int, Any]
"""Key and address: ring order. Equal keys of different peers are in order; two lives of one peer share a place.
Addresses of both kinds can be compared, for nobody knows what a stranger sends."""

Number = tuple[Step, Step]
"""Number of a left pointer: (repair, step), compared in that order, so that a repair beats all that was before it."""

FIRST: Number = (0, 0)


def after(number: Number) -> Number:
    """The number of whoever takes the link over."""
    return number[0], number[1] + 1


class Ref(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """One life of one peer. (A table of them is asked at every word: its hash remembered is a third of the price.)"""

    key: RingKey
    address: Address
    incarnation: RingLife = 0

    @property
    def place(self) -> Place:
        address = self.address
        return self.key, ("", address) if isinstance(address, int) else address


def lies_between(low: Ref, ref: Ref, high: Ref) -> bool:
    """Whether ref's place is in the open arc (low, high)."""
    first, key, last = low.key, ref.key, high.key
    if first in (key, last) or key == last:  # names settle it
        return between(low.place, ref.place, high.place)
    return between(first, key, last)  # half the price


def cut_list(refs: list[Ref], owner: Ref, longest: int) -> tuple[Ref, ...]:
    """A list ends where it meets its owner: in small rings it would else run on round the circle and feed
    entries that have long gone to the next list for ever."""
    return tuple(takewhile(lambda ref: ref.address != owner.address, refs[:longest]))
