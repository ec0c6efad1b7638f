"""Gaps: extents beside those of this peer that have no owner as far as it knows.

Ordinarily the backups of a dead owner take its extents over. If they are dead too and no neighbour
knew the owner's claim, a gap is left. A peer beside a gap asks for its owner, and claims the gap if
no owner is found. Every other claim beats such a claim.
"""

from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.messages import FindOwner, OwnershipClaim
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart

NEXT_RANKS = 2
"""Ranks for which the owner of the next gap of a hole is looked for. The backups of its owner have
had their time while the first gap was waited for.
"""


class Gaps(SurfacePart):
    """Finds the owners of gaps, or claims them."""

    __slots__ = ("_ask_us", "_since_us", "_wait_us")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self._since_us, self._ask_us, self._wait_us = -1, 0, 0

    def fill_gap(self) -> None:
        """Query the owner of a gap beside this peer's extents; after `gap_us`, claim the gap. A gap
        that lies behind it belongs to the same hole, and is claimed after `NEXT_RANKS` ranks:
        otherwise a large hole would be closed layer by layer, each as late as the first.
        """
        now_us, gap = self.host.now_us, self.surface.ownership.gap
        if gap is None or not self.surface.extents:
            self._since_us = -1
            return
        if self._since_us < 0:
            self._since_us = self._ask_us = now_us
            self._wait_us = self.timers.gap_us
        low, bits = gap
        if now_us - self._since_us > self._wait_us:
            self._since_us = self._ask_us = now_us
            self._wait_us = NEXT_RANKS * self.timers.rank_us
            self.surface.takeover.claim_unowned(
                [OwnershipClaim(low, bits, 0, self.address)],
                set(self.surface.ownership.neighbours()),
            )
            return
        if now_us < self._ask_us:
            return
        # Each pause is as long as the gap is old: a query travels round the gap.
        self._ask_us = now_us + max(self.timers.tick_us, now_us - self._since_us)
        self.surface.send(FindOwner(RouteHeader((low, low + 1)), self.address))
        # After a partition a few peers can have only each other as neighbours. So a peer that is
        # heard and is no neighbour forwards the query too.
        near, since_us = self.surface.ownership.neighbours(), now_us - self.timers.suspect_after_us
        heard = (
            each for each, state in self.surface.members.states.items() if state.heard_us > since_us
        )
        known = [each for each in heard if each not in near]
        if known and self.surface.settings.assured:
            way = RouteHeader((low, low + 1), self.surface.next_number())
            self.host.send(self.host.rng.choice(known), FindOwner(way, self.address))

    def claim_all(self) -> None:
        """Claim the whole surface, since no peer that is heard owns any of it. Claims of silent
        owners are beaten as in every takeover; elsewhere any other claim beats ours, and of two
        such claims one wins.
        """
        silent = [
            OwnershipClaim(each.low, each.bits, each.epoch + 1, self.address)
            for each in self.surface.ownership.others
        ]
        self.surface.takeover.claim_unowned([*silent, OwnershipClaim(0, 0, 0, self.address)], set())
