"""Gaps: extents beside those of this peer that have no owner as far as it knows.

Ordinarily the backups of a dead owner take its extents over. If they are dead too and no neighbour
knew the owner's claim, a gap is left. A peer beside a gap asks for its owner, and claims the gap if
no owner is found. Every other claim beats such a claim.
"""

from implicast.overlay.ice.claiming import Claiming
from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import FindOwner, OwnershipClaim
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.routing import SurfaceRouting
from implicast.overlay.ice.surface_site import SurfaceSite

NEXT_RANKS = 2
"""Ranks for which the owner of the next gap of a hole is looked for. The backups of its owner have
had their time while the first gap was waited for.
"""


class Gaps:
    """Finds the owners of gaps, or claims them."""

    __slots__ = (
        "_ask_us",
        "_claiming",
        "_members",
        "_ownership",
        "_routing",
        "_since_us",
        "_site",
        "_wait_us",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        members: Members,
        claiming: Claiming,
        routing: SurfaceRouting,
    ) -> None:
        self._site, self._ownership, self._members = site, ownership, members
        self._claiming, self._routing = claiming, routing
        self._since_us, self._ask_us, self._wait_us = -1, 0, 0

    def fill_gap(self) -> None:
        """Query the owner of a gap beside this peer's extents; after `gap_us`, claim the gap. A gap
        that lies behind it belongs to the same hole, and is claimed after `NEXT_RANKS` ranks:
        otherwise a large hole would be closed layer by layer, each as late as the first.
        """
        site, timers, near = self._site, self._site.settings.timers, self._ownership.neighbours()
        now_us, gap = site.host.now_us, self._ownership.gap
        if gap is None or not self._ownership.extents:
            self._since_us = -1
            return
        if self._since_us < 0:
            self._since_us = self._ask_us = now_us
            self._wait_us = timers.gap_us
        low, bits = gap
        if now_us - self._since_us > self._wait_us:
            self._since_us = self._ask_us = now_us
            self._wait_us = NEXT_RANKS * timers.rank_us
            self._claiming.claim_unowned([OwnershipClaim(low, bits, 0, site.address)], set(near))
            return
        if now_us < self._ask_us:
            return
        # Each pause is as long as the gap is old: a query travels round the gap.
        self._ask_us = now_us + max(timers.tick_us, now_us - self._since_us)
        self._routing.route(site.address, FindOwner(RouteHeader((low, low + 1)), site.address))
        # After a partition a few peers can have only each other as neighbours. So a peer that is
        # heard and is no neighbour forwards the query too.
        near = self._ownership.neighbours()
        heard = self._members.heard_since(now_us - timers.suspect_after_us)
        known = [each for each in heard if each not in near]
        if known:
            way = RouteHeader((low, low + 1), site.numbers.next())
            site.host.send(site.host.rng.choice(known), FindOwner(way, site.address))
