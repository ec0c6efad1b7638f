"""Reclaiming: a restarted peer claims its former extents again if no other peer claims them.

When one peer crashes, its backups take over. In a power cut an owner and its backups restart
together with empty memory, and its extents have no owner. A restarted peer therefore sends the
claims of its previous incarnation to its former contacts, and asks through introducers for the
owners of its former extents. Every peer with a better claim answers. After the time in which the
last backup takes over, and one more round of questions, the peer claims what remains.

The claim has the former epoch, so that every takeover, which has a larger epoch, beats it at any
time. Records of the extent are lost: the item store is told so, and consumers register again.
"""

from collections.abc import Iterable

from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.claiming import Claiming
from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.messages import FindOwner, OwnershipClaim
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.ownership_map import OwnershipMap
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Message
from implicast.space.morton import BITS

ROUTES = 2
"""Introducers through which the owner of a former extent is looked up in each round."""


class ReclaimDue(Message):
    """Fires when better claims than those of the previous incarnation have had time to arrive."""

    last: bool


class Reclaim:
    """The former extents of this peer that no other peer is known to claim."""

    __slots__ = (
        "_claiming",
        "_exchange",
        "_introducers",
        "_ownership",
        "_previous",
        "_site",
        "claims",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        exchange: ClaimExchange,
        claiming: Claiming,
        previous: DurableSurface | None,
    ) -> None:
        self._site, self._ownership, self._exchange = site, ownership, exchange
        self._claiming, self._previous = claiming, previous
        self.claims: tuple[OwnershipClaim, ...] = ()
        self._introducers: tuple[Address, ...] = ()

    @property
    def contacts(self) -> tuple[Address, ...]:
        """Contacts of the previous incarnation."""
        return self._previous.contacts if self._previous is not None else ()

    def begin(self, introducers: tuple[Address, ...]) -> None:
        """After a crash: ask for better claims, twice, then claim what remains."""
        if self._previous is None:
            return
        self._introducers, self.claims = introducers, self._previous.claims
        self._ask_for_better_claims(self._previous)
        if self.claims:
            timers = self._site.settings.timers
            self._site.host.after(timers.backups * timers.rank_us, ReclaimDue(last=False))

    def _ask_for_better_claims(self, previous: DurableSurface) -> None:
        """Former contacts also learn from the heartbeat that the previous incarnation is dead, so
        that its backups take over.
        """
        self._exchange.send_to(previous.contacts, self.claims)
        site, rng = self._site, self._site.host.rng
        for each in self.claims:
            code = each.low | rng.getrandbits(BITS - each.bits)
            for to in rng.sample(self._introducers, min(ROUTES, len(self._introducers))):
                header = RouteHeader((code, code + 1), site.numbers.next())
                site.host.send(to, FindOwner(header, site.address))

    def on_due(self, alarm: ReclaimDue) -> None:
        if not self.claims or self._previous is None:
            return
        if not alarm.last:
            self._ask_for_better_claims(self._previous)
            self._site.host.after(self._site.settings.timers.answers_us, ReclaimDue(last=True))
            return
        claims, self.claims = self.claims, ()
        if not self._ownership.extents:
            # No peer has given this one a place, so its neighbourhood restarted too. With the
            # former neighbours' claims it notices those that do not return, and takes over.
            self._ownership.learn_all(self._previous.neighbour_claims)
        self._claiming.claim_unowned(list(claims), set(self._previous.contacts))

    def learn_claims(self, claims: Iterable[OwnershipClaim]) -> None:
        """Other peers claim these: what they cover is not reclaimed."""
        if self.claims:
            best = OwnershipMap(self.claims)
            for each in claims:
                if each.owner != self._site.address:
                    best.learn(each)
            self.claims = tuple(best.of(self._site.address))
