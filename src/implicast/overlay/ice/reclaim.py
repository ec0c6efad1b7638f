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

from implicast.overlay.ice.durable import DurableSurface
from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.messages import FindOwner, OwnershipClaim
from implicast.overlay.ice.ownership_map import OwnershipMap
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address, Message, handles
from implicast.space.morton import BITS

ROUTES = 2
"""Introducers through which the owner of a former extent is looked up in each round."""


class ReclaimDue(Message):
    """Fires when better claims than those of the previous incarnation have had time to arrive."""

    last: bool


class Reclaim(SurfacePart):
    """The former extents of this peer that no other peer is known to claim."""

    __slots__ = ("_introducers", "_previous", "claims")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.claims: tuple[OwnershipClaim, ...] = ()
        self._previous: DurableSurface | None = None
        self._introducers: tuple[Address, ...] = ()

    def begin(self, previous: DurableSurface, introducers: tuple[Address, ...]) -> None:
        """Ask for better claims, twice, then claim what remains."""
        self._previous, self._introducers, self.claims = previous, introducers, previous.claims
        self._ask_for_better_claims()
        if self.claims:
            self.host.after(self.timers.backups * self.timers.rank_us, ReclaimDue(last=False))

    def _ask_for_better_claims(self) -> None:
        """Former contacts also learn from the heartbeat that the previous incarnation is dead, so
        that its backups take over.
        """
        assert self._previous is not None, "there is a previous state to reclaim"
        self.surface.heartbeats.send_to(self._previous.contacts, self.claims)
        rng = self.host.rng
        for each in self.claims:
            code = each.low | rng.getrandbits(BITS - each.bits)
            for to in rng.sample(self._introducers, min(ROUTES, len(self._introducers))):
                header = RouteHeader((code, code + 1), self.surface.next_number())
                self.host.send(to, FindOwner(header, self.address))

    @handles(ReclaimDue)
    def on_reclaim_due(self, alarm: ReclaimDue) -> None:
        if not self.claims:
            return
        if not alarm.last:
            self._ask_for_better_claims()
            self.host.after(self.timers.answers_us, ReclaimDue(last=True))
            return
        assert self._previous is not None, "there is a previous state to reclaim"
        claims, self.claims = self.claims, ()
        if not self.surface.extents:
            # No peer has given this one a place, so its neighbourhood restarted too. With the
            # former neighbours' claims it notices those that do not return, and takes over.
            for each in self._previous.neighbour_claims:
                self.surface.ownership.claim_map.learn(each)
        self.surface.takeover.claim_unowned(list(claims), set(self._previous.contacts))

    def learn_claims(self, claims: Iterable[OwnershipClaim]) -> None:
        """Other peers claim these: what they cover is not reclaimed."""
        if self.claims:
            best = OwnershipMap(self.claims)
            for each in claims:
                if each.owner != self.address:
                    best.learn(each)
            self.claims = tuple(best.of(self.address))
