"""Ownership: a peer's extents with their status, and the ownership map of its neighbourhood.

An extent is *committed* unless its status says otherwise, and a peer answers only for committed
extents. Claims of other peers enter through `learn` alone. Two kinds are never learnt: claims that
name this peer, which arise from its own actions and can only be out of date elsewhere; and the
claim of a peer that is receiving an extent from this one, because only `HandoffPrepared` ends a
handoff.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.ownership_map import OwnershipMap, gap_beside, overlap, touches, tract_of
from implicast.peer.contract import Address, in_order
from implicast.space.morton import BITS
from implicast.space.prefix import sibling
from implicast.space.tract import EMPTY, Tract, subtract, volume

HANDING_OFF, PROVISIONAL, TAKEN_OVER = "handing off", "provisional", "taken over"


class ExtentStatus(NamedTuple):
    """Why an extent is not committed: the other peer involved, and the number of the handoff or
    takeover.
    """

    kind: str
    peer: Address
    number: int


class Extents:
    """A peer's extents and the claims around them, on a surface where nothing changes."""

    __slots__ = (
        "_claims",
        "_near",
        "_others",
        "address",
        "committed",
        "extents",
        "gap",
        "tract",
        "unsettled",
    )

    def __init__(
        self, address: Address, claims: Callable[[], Iterable[OwnershipClaim]] = tuple
    ) -> None:
        """`claims` returns all known claims, in the order in which they were learnt."""
        self.address = address
        self.extents: list[OwnershipClaim] = []
        self.tract: Tract = EMPTY
        """All extents."""
        self.committed: Tract = EMPTY
        """All committed extents."""
        self.unsettled: Tract = EMPTY
        self.gap: tuple[int, int] | None = None
        """A prefix beside this peer's extents that no known claim covers."""
        self._claims = claims
        self._others: list[OwnershipClaim] | None = None
        """Claims of other peers in the order of their codes. In an assembled network this and the
        next field are computed at their first use.
        """
        self._near: list[Address] = []

    def restore(
        self, extents: list[OwnershipClaim], others: Callable[[], Iterable[OwnershipClaim]]
    ) -> None:
        """Begin with these committed extents. The claims around them are computed at their first
        use.
        """
        self._claims = others
        self.set_extents(extents)

    def set_extents(
        self,
        extents: list[OwnershipClaim],
        unsettled: Tract = EMPTY,
        gap: tuple[int, int] | None = None,
    ) -> None:
        self.extents, self.unsettled, self.gap = extents, unsettled, gap
        self.tract = tract_of(extents)
        self.committed = subtract(self.tract, unsettled)

    @property
    def others(self) -> list[OwnershipClaim]:
        """Claims of other peers in the order of their codes."""
        return self._find_neighbours() if self._others is None else self._others

    def claims_to_name(self) -> list[OwnershipClaim]:
        """Claims to extents that this peer does not answer for, but knows the owner of."""
        return self.others

    def neighbours(self) -> list[Address]:
        """Owners of adjacent extents, in order."""
        if self._others is None:
            self._find_neighbours()
        return self._near

    def claims_of_others(self) -> tuple[OwnershipClaim, ...]:
        """Claims of other peers in the order in which they were learnt."""
        return tuple(each for each in self._claims() if each.owner != self.address)

    def _find_neighbours(self) -> list[OwnershipClaim]:
        self._others = sorted(self.claims_of_others(), key=lambda claim: claim.low)
        self._near = sorted({each.owner for each in self._others}, key=in_order)
        return self._others


class Ownership(Extents):
    """Extents with their status, and the ownership map. Other parts change them by its methods, and
    end each change with `refresh`.
    """

    __slots__ = (
        "_dimensions",
        "_on_changed",
        "claim_map",
        "has_owned",
        "map_version",
        "status",
        "version",
    )

    def __init__(
        self, address: Address, dimensions: int, version: int, on_changed: Callable[[], None]
    ) -> None:
        """`on_changed` is called after each change of the map."""
        super().__init__(address, self._known_claims)
        self._dimensions, self._on_changed = dimensions, on_changed
        self.claim_map = OwnershipMap()
        self.status: dict[int, ExtentStatus] = {}
        """By the first code of an extent; committed extents have no entry."""
        self.map_version = 0
        """Increases whenever the ownership map changes."""
        self.version = version
        """State version of this peer: increases whenever its extents, their status or its backups
        change, also from one incarnation to the next.
        """
        self.has_owned = False
        """True once an extent was committed."""

    def _known_claims(self) -> Iterable[OwnershipClaim]:
        return self.claim_map.claims.values()

    def restore(
        self, extents: list[OwnershipClaim], others: Callable[[], Iterable[OwnershipClaim]]
    ) -> None:
        self.claim_map.put([*extents, *others()])
        self.has_owned = bool(extents)
        self.set_extents(extents)

    def next_version(self) -> None:
        self.version += 1

    def claims_to_name(self) -> list[OwnershipClaim]:
        return [*self.others, *self.of_status(TAKEN_OVER)]

    # --- status of extents

    def committed_extents(self) -> list[OwnershipClaim]:
        return [each for each in self.extents if each.low not in self.status]

    def of_status(self, kind: str, peer: Address | None = None) -> list[OwnershipClaim]:
        """Extents with this status; with `peer`, only those that go to it or come from it."""
        held = ((each, self.status[each.low]) for each in self.extents if each.low in self.status)
        return [
            each for each, status in held if status.kind == kind and peer in (None, status.peer)
        ]

    def lone_sibling(self, extent: OwnershipClaim) -> OwnershipClaim | None:
        """The claim to the sibling of an extent, if the sibling is one extent of another peer."""
        other = self.claim_map.claims.get(sibling(extent.low, extent.bits))
        return (
            other
            if other is not None and other.bits == extent.bits and other.owner != self.address
            else None
        )

    def preference(self, extent: OwnershipClaim, peer: Address) -> tuple[bool, int, Address]:
        """Sort key of candidates: the owner of the extent's sibling first, then the smallest tract,
        then the smallest address.
        """
        other = self.lone_sibling(extent)
        return other is None or other.owner != peer, volume(tract_of(self.claim_map.of(peer))), peer

    def learn(self, claims: Iterable[OwnershipClaim]) -> list[OwnershipClaim]:
        """Learn claims of other peers; returns those that changed the map."""
        learnt = [each for each in claims if self.is_news(each) and self.claim_map.learn(each)]
        if learnt:
            self.refresh()
        return learnt

    def is_news(self, claim: OwnershipClaim) -> bool:
        """True if the claim can matter to this peer: it touches or overlaps one of its extents, and
        is not excluded (see the module).
        """
        if self.claim_map.claims.get(claim.low) == claim or claim.owner == self.address:
            return False
        if any(overlap(extent, claim) for extent in self.of_status(HANDING_OFF, claim.owner)):
            return False
        dimensions = self._dimensions
        near = any(
            touches(claim, extent, dimensions) or overlap(claim, extent) for extent in self.extents
        )
        return near or not self.extents

    def valid_better(self, claims: Iterable[OwnershipClaim]) -> list[OwnershipClaim]:
        """Known claims that beat each of these, but for provisional ones, which are not valid yet."""
        granted = self.of_status(PROVISIONAL)
        better = [one for each in claims for one in self.claim_map.better_than(each)]
        return [each for each in better if each not in granted]

    def hold(self, claim: OwnershipClaim, status: ExtentStatus) -> None:
        """Claim an extent that is not committed yet."""
        self.claim_map.learn(claim)
        self.status[claim.low] = status

    def set_status(self, extent: OwnershipClaim, status: ExtentStatus) -> None:
        """An extent of this peer is not committed any more."""
        self.status[extent.low] = status

    def put(self, claims: Iterable[OwnershipClaim]) -> None:
        """Record claims that overlap no others."""
        self.claim_map.put(claims)

    def learn_all(self, claims: Iterable[OwnershipClaim]) -> None:
        """Join claims into the map, whether they matter to this peer or not."""
        for each in claims:
            self.claim_map.learn(each)

    def drop(self, claims: Iterable[OwnershipClaim]) -> None:
        self.claim_map.drop(claims)

    def drop_claims_of(self, peer: Address) -> None:
        """Drop all claims of a peer."""
        self.claim_map.drop(self.claim_map.of(peer))

    def commit(self, kind: str, number: int) -> bool:
        """Commit the extents held under this status and number, and merge siblings. False if there
        are none.
        """
        released = [
            low
            for low, status in self.status.items()
            if (status.kind, status.number) == (kind, number)
        ]
        for low in released:
            del self.status[low]
        if released:
            self._merge_extents()
        return bool(released)

    def refresh(self) -> None:
        """Update everything that follows from the map: drop claims that touch none of this peer's
        extents, and compute the committed tract, the neighbours and the gap.
        """
        before, dimensions = self.extents, self._dimensions
        self.map_version += 1
        extents = sorted(self.claim_map.of(self.address), key=lambda claim: claim.low)
        if extents:
            others = [each for each in self.claim_map.claims.values() if each.owner != self.address]
            self.claim_map.drop(
                [
                    each
                    for each in others
                    if not any(touches(each, one, dimensions) for one in extents)
                ]
            )
        self._inherit_status(before, extents)
        unsettled = tract_of(each for each in extents if each.low in self.status)
        gap = gap_beside(extents, self.claim_map.claims.values(), dimensions)
        self.set_extents(extents, unsettled, gap)
        self.has_owned = self.has_owned or bool(self.committed)
        self._find_neighbours()
        self._on_changed()

    def _inherit_status(self, before: list[OwnershipClaim], extents: list[OwnershipClaim]) -> None:
        """What is left of an extent after a part was lost keeps the status of the whole."""
        if not self.status:
            return
        held, statuses = (
            [each for each in before if each.low in self.status],
            dict[int, ExtentStatus](),
        )
        for extent in extents:
            whole = (
                extent
                if extent.low in self.status
                else next((each for each in held if overlap(each, extent)), None)
            )
            if whole is not None:
                statuses[extent.low] = self.status[whole.low]
        self.status = statuses

    def _merge_extents(self) -> None:
        """Merge committed siblings into their parent; its epoch is the larger one plus 1."""
        extents = {
            each.low: each
            for each in self.claim_map.of(self.address)
            if each.low not in self.status
        }
        for each in sorted(extents.values(), key=lambda claim: (-claim.bits, claim.low)):
            other = extents.get(sibling(each.low, each.bits))
            if other is not None and other.bits == each.bits:
                self.claim_map.drop([each, other])
                low, epoch = min(each.low, other.low), max(each.epoch, other.epoch) + 1
                self.claim_map.put([OwnershipClaim(low, each.bits - 1, epoch, self.address)])
                return self._merge_extents()
        return None

    def split(self, extent: OwnershipClaim, code: int) -> OwnershipClaim:
        """Halve an extent; returns the half that contains the code."""
        bits = extent.bits + 1
        half = 1 << (BITS - bits)
        halves = [
            OwnershipClaim(low, bits, extent.epoch + 1, self.address)
            for low in (extent.low, extent.low + half)
        ]
        self.claim_map.drop([extent])
        self.claim_map.put(halves)
        self.refresh()
        return halves[code >= halves[1].low]
