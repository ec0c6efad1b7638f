"""Claims to extents that have no owner any more: of dead owners, in gaps, or of a former incarnation.

Such extents are committed when their items are at the new owner's backups, and not before rival
claimants have had time to learn of each other.
"""

from collections.abc import Callable

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.death_poll import PendingTakeover
from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.ownership import TAKEN_OVER, ExtentStatus, Ownership
from implicast.overlay.ice.ownership_map import tract_of
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Message
from implicast.space.tract import intersect


class CommitDue(Message):
    """Fires when rivals for extents that were taken over have had time to learn of each other."""

    number: int


class Claiming:
    """Claims extents without an owner, and commits them later."""

    __slots__ = (
        "_acquaintances",
        "_address",
        "_backup_set",
        "_exchange",
        "_host",
        "_numbers",
        "_ownership",
        "_store",
        "_timers",
        "pending",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        acquaintances: Callable[[], list[Address]],
    ) -> None:
        """`acquaintances` names peers that may belong to a surface that this peer does not know of."""
        self._address, self._host, self._store = site.address, site.host, site.store
        self._timers, self._numbers, self._ownership = site.settings.timers, site.numbers, ownership
        self._backup_set, self._exchange = backup_set, exchange
        self._acquaintances = acquaintances
        self.pending: dict[int, PendingTakeover] = {}
        """Extents that are claimed and not committed, by number."""

    def claim(self, claims: list[OwnershipClaim], owner: Address) -> int:
        """Claim extents of a dead owner; returns the number under which they are held."""
        number = self._numbers.next()
        for each in claims:
            self._ownership.hold(
                OwnershipClaim(each.low, each.bits, each.epoch + 1, self._address),
                ExtentStatus(TAKEN_OVER, owner, number),
            )
        self._ownership.refresh()
        return number

    def claim_unowned(self, claims: list[OwnershipClaim], before: set[Address]) -> None:
        """Claim extents that have no owner. Every regular claim beats one of epoch 0."""
        ownership, number = self._ownership, self._numbers.next()
        ownership.learn_all(claims)
        taken = [
            each for each in ownership.claim_map.of(self._address) if each not in ownership.extents
        ]
        for each in taken:
            ownership.set_status(each, ExtentStatus(TAKEN_OVER, self._address, number))
        if taken:
            self.commit_later(number, PendingTakeover(tract_of(taken), tract_of(taken)), before)

    def claim_all(self) -> None:
        """Claim the whole surface, since no peer that is heard owns any of it. Claims of silent
        owners are beaten as in every takeover; elsewhere any other claim beats this one, and of two
        such claims one wins.
        """
        silent = [
            OwnershipClaim(each.low, each.bits, each.epoch + 1, self._address)
            for each in self._ownership.others
        ]
        self.claim_unowned([*silent, OwnershipClaim(0, 0, 0, self._address)], set())

    def commit_later(self, number: int, pending: PendingTakeover, before: set[Address]) -> None:
        """Announce the claims, replicate the items, and give rivals time before the extents are
        committed.
        """
        if pending.lacking:  # another surface may exist, whose claims this peer does not know
            before = before.union(self._acquaintances())
        self._exchange.announce(before - {self._address})
        self.pending[number] = pending
        due, own = CommitDue(number), intersect(pending.tract, self._ownership.tract)
        self._host.after(self._timers.commit_delay_us, due)
        self._backup_set.replicate(self._store.pack(own), lambda: self.on_due(due))

    def on_due(self, due: CommitDue) -> None:
        """The items are replicated, or rivals have had their time."""
        pending = self.pending.get(due.number)
        if pending is not None and pending.step():
            self.commit_takeover(due.number, pending)

    def commit_takeover(self, number: int, pending: PendingTakeover) -> None:
        """The store learns of lost items first: the commit releases parked messages."""
        del self.pending[number]
        if left := intersect(pending.lacking, self._ownership.unsettled):
            self._store.lost(left)
        self._exchange.commit(TAKEN_OVER, number, set())

    def forget(self) -> None:
        """Every extent was lost to other owners."""
        self.pending.clear()
