"""Ownership map: which peer owns which extent, as far as a peer knows. For each code the best claim
wins.

Claims are joined, never overwritten: `learn` is the least upper bound of two maps from codes to
best claims. So it is commutative, associative and idempotent, and neither loss nor repeats nor the
order of messages matter. What is left of a prefix after another was taken out of it is again a few
prefixes.
"""

from collections.abc import Iterable, Sequence

from implicast.overlay.ice.messages import OwnershipClaim
from implicast.peer.contract import Address, in_order
from implicast.space import prefix
from implicast.space.prefix import Span, touch
from implicast.space.tract import Tract, prefixes, subtract, union


def better(one: OwnershipClaim, other: OwnershipClaim) -> bool:
    """The larger epoch wins; at equal epochs the smaller owner address."""
    return one.epoch > other.epoch or (
        one.epoch == other.epoch and in_order(one.owner) < in_order(other.owner)
    )


def overlap(one: OwnershipClaim, other: OwnershipClaim) -> bool:
    return one.low < other.high and other.low < one.high


def remainder(claim: OwnershipClaim, without: Iterable[OwnershipClaim]) -> list[OwnershipClaim]:
    """What is left of a claim after others are subtracted."""
    rest = subtract((claim.low, claim.high), union((each.low, each.high) for each in without))
    return [OwnershipClaim(low, bits, claim.epoch, claim.owner) for low, bits in prefixes(rest)]


class OwnershipMap:
    """Disjoint claims, by the first code of each."""

    __slots__ = ("claims",)

    def __init__(self, claims: Iterable[OwnershipClaim] = ()) -> None:
        self.claims: dict[int, OwnershipClaim] = {each.low: each for each in claims}

    def learn(self, claim: OwnershipClaim) -> bool:
        """Join a claim into the map; false if the map is unchanged."""
        met = [each for each in self.claims.values() if overlap(each, claim)]
        rest = remainder(claim, [each for each in met if not better(claim, each)])
        if not rest:
            return False
        for each in met:
            if better(claim, each):
                del self.claims[each.low]
                self.put(remainder(each, [claim]))
        self.put(rest)
        return True

    def put(self, claims: Iterable[OwnershipClaim]) -> None:
        self.claims.update((each.low, each) for each in claims)

    def drop(self, claims: Iterable[OwnershipClaim]) -> None:
        for each in claims:
            del self.claims[each.low]

    def of(self, owner: Address) -> list[OwnershipClaim]:
        return [each for each in self.claims.values() if each.owner == owner]

    def has_exactly(self, owner: Address, claims: Sequence[OwnershipClaim]) -> bool:
        """True if these are all the claims of an owner in the map."""
        known = self.claims
        if any(known.get(each.low) != each for each in claims):
            return False
        return sum([each.owner == owner for each in known.values()]) == len(claims)

    def better_than(self, claim: OwnershipClaim) -> list[OwnershipClaim]:
        """Claims in the map that overlap this one and win."""
        if self.claims.get(claim.low) == claim:
            return []  # the same claim, so that no other overlaps it: the usual case
        met = [each for each in self.claims.values() if overlap(each, claim)]
        return [each for each in met if better(each, claim)]


def tract_of(claims: Iterable[OwnershipClaim]) -> Tract:
    return union((each.low, each.high) for each in claims)


def touches(one: OwnershipClaim, other: OwnershipClaim, dimensions: int) -> bool:
    """True if two extents share a face."""
    return touch(one.low, one.bits, other.low, other.bits, dimensions)


def gap_beside(
    extents: Iterable[OwnershipClaim], known: Iterable[OwnershipClaim], dimensions: int
) -> Span | None:
    """A prefix (first code, bits) adjacent to the extents that no claim covers; None if there is
    none.
    """
    spans = [(each.low, each.high) for each in known]
    return next(
        filter(
            None, (prefix.gap_beside(each.low, each.bits, spans, dimensions) for each in extents)
        ),
        None,
    )
