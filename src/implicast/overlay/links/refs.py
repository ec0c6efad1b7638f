"""Node references: one incarnation of one peer at one place of the ring.

A peer that left, crashed or gave up joining comes back only with a larger incarnation. Two
incarnations count as two nodes, so no message meant for the old one can affect the new one.
"""

from itertools import takewhile
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from implicast.peer.contract import Address
from implicast.space.ring import between

RingKey = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A key on the ring of peers, as it is sent."""
RingIncarnation = Annotated[int, Meta(ge=0, lt=1 << 62)]
Step = Annotated[int, Meta(ge=0, lt=1 << 62)]

Place = tuple[int, Any]
"""Key and address: ring order. Peers with equal keys are ordered by address; two incarnations of
one peer share a place. Addresses of both kinds are made comparable, because a message may carry
either.
"""

Number = tuple[Step, Step]
"""Number of a link: (repair, step), compared in that order, so that a repair supersedes every
earlier number.
"""

FIRST: Number = (0, 0)


def after(number: Number) -> Number:
    """The number of a link after it is taken over by another node."""
    return number[0], number[1] + 1


class Ref(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """One incarnation of one peer. The hash is cached: references are looked up at every message,
    and caching cuts that to a third.
    """

    key: RingKey
    address: Address
    incarnation: RingIncarnation = 0

    @property
    def place(self) -> Place:
        address = self.address
        return self.key, ("", address) if isinstance(address, int) else address


def lies_between(low: Ref, ref: Ref, high: Ref) -> bool:
    """Whether the place of `ref` is in the open arc (low, high)."""
    first, key, last = low.key, ref.key, high.key
    if first in (key, last) or key == last:  # equal keys: addresses decide
        return between(low.place, ref.place, high.place)
    return between(first, key, last)  # keys alone decide: half the cost


def cut_list(refs: list[Ref], owner: Ref, longest: int) -> tuple[Ref, ...]:
    """The first `longest` references, cut where the list meets its owner. Otherwise lists in small
    rings would wrap around the ring and pass departed entries on to the next list for ever.
    """
    return tuple(takewhile(lambda ref: ref.address != owner.address, refs[:longest]))
