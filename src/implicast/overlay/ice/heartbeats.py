"""Heartbeats: neighbours exchange their full state, with timestamps and versions, and correct each
other's claims.

An idle pair exchanges one heartbeat in a period, sent by the peer whose turn comes first; the ack
carries the answerer's own timestamp where it needs an ack in turn. Heartbeats are requests, so
silence is probed at once, and a change reaches all neighbours in spite of message loss. Correction
on use: acks and hops carry the sender's version, and a receiver that does not know this version
requests the full state. A peer that hears a claim worse than one it knows answers with the better
claims.
"""

from collections.abc import Callable, Iterable

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange, is_listed
from implicast.overlay.ice.members import Members, MemberState
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FullStateRequest,
    Heartbeat,
    HeartbeatAck,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.ownership_map import overlap
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Part, handles
from implicast.peer.memory import Recent
from implicast.peer.requests import UpkeepRequests

OnIncarnation = Callable[[Address, int], None]
"""Called with the sender of a heartbeat and the start of its incarnation."""
OnClaims = Callable[[Iterable[OwnershipClaim]], None]


class Heartbeats(Part):
    """Receives heartbeats and their acks, and learns from them."""

    __slots__ = (
        "_copies",
        "_exchange",
        "_learnt",
        "_members",
        "_on_better_claims",
        "_on_incarnation",
        "_ownership",
        "_requests",
        "_set",
        "_timers",
    )

    def __init__(
        self,
        site: SurfaceSite,
        requests: UpkeepRequests,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        on_incarnation: OnIncarnation,
        on_better_claims: OnClaims,
    ) -> None:
        """`on_incarnation` is called before a heartbeat is read, `on_better_claims` when another
        peer corrects this one.
        """
        super().__init__(site.address, site.host)
        self._timers, self._requests, self._ownership = site.settings.timers, requests, ownership
        self._members, self._set, self._copies = members, backup_set, backup_set.copies
        self._exchange, self._on_incarnation = exchange, on_incarnation
        self._on_better_claims = on_better_claims
        self._learnt: Recent[Address, tuple[int, int, int]] = Recent(self._timers.members_max)
        """By peer: version and number of relinquished claims of its last heartbeat that was learnt
        from, and this peer's map version after that.
        """

    @handles(Heartbeat)
    def on_heartbeat(self, sender: Address, heartbeat: Heartbeat) -> None:
        if sender == self.address:
            return  # no other peer states what this peer owns
        members, now_us, version = self._members, self.host.now_us, heartbeat.version
        self._on_incarnation(sender, heartbeat.born_us)
        state = members.states.get(sender) or members.state_of(sender)
        denied = (version < state.version or heartbeat.born_us < state.born_us) and self._is_denied(
            sender, state
        )
        if heartbeat.born_us < state.born_us and not denied:
            return  # sent by an incarnation that is dead
        members.heard_from(sender)
        state.heartbeat_at(now_us + self._timers.turn_us)
        own_stamp_us = now_us if sender in self._set.backups else 0
        if version >= state.version or denied:
            state.apply_heartbeat(heartbeat, now_us)
            self._copies.on_owner_heartbeat(sender, heartbeat)
            self._learn_once(sender, heartbeat)
        self._ack(sender, heartbeat.stamp_us, version, own_stamp_us)

    def _learn_once(self, sender: Address, heartbeat: Heartbeat) -> None:
        """Learn from a heartbeat, unless nothing has changed since the sender's previous one."""
        ownership = self._ownership
        learnt = (heartbeat.version, len(heartbeat.relinquished), ownership.map_version)
        if self._learnt.get(sender) != learnt:
            self._learnt.pop(sender, None)
            # else the correction may be lost: repeat it at the next heartbeat
            if not self._learn_from(sender, heartbeat):
                self._learnt[sender] = (*learnt[:2], ownership.map_version)

    def _ack(self, sender: Address, stamp_us: int, version: int, own_stamp_us: int) -> None:
        stamp_us = self._copies.ack_stamp(sender, stamp_us, version)
        has_copy = self._copies.holds_copy(sender)
        self.host.send(
            sender, HeartbeatAck(stamp_us, self._ownership.version, own_stamp_us, has_copy)
        )

    def _is_denied(self, sender: Address, state: MemberState) -> bool:
        """A peer states an older version or incarnation than is known. Versions and incarnations
        only increase and no message is delayed for so long: if the known state has not been
        confirmed for `suspect_after_us` it was forged, and all that rests on it is dropped.
        """
        if self.host.now_us - state.confirmed_us <= self._timers.suspect_after_us:
            return False
        self._copies.drop(sender)
        self._ownership.drop_claims_of(sender)
        return True

    def _learn_from(self, sender: Address, heartbeat: Heartbeat) -> bool:
        """A heartbeat lists all extents of its sender: drop every other claim in the sender's name.
        True if this peer knows better claims.
        """
        ownership, claim_map = self._ownership, self._ownership.claim_map
        changed = any(map(ownership.is_news, heartbeat.relinquished)) or sender in [
            claim.owner for _, claim in self._exchange.relinquished
        ]
        if not (changed or heartbeat.provisional) and claim_map.has_exactly(
            sender, heartbeat.extents
        ):
            return False  # nothing to learn nor to correct: the usual case, at a third of the cost
        listed = (*heartbeat.extents, *heartbeat.provisional)
        extents = [(each, not claim_map.better_than(each)) for each in heartbeat.extents]
        gone = [
            each
            for each in claim_map.of(sender)
            if not is_listed(each, listed) or _is_untrue(each, extents)
        ]
        map_version = ownership.map_version
        ownership.drop(gone)
        self._exchange.drop_denied(sender, listed)
        self._exchange.learn_claims((*heartbeat.relinquished, *heartbeat.extents), sender)
        if gone and ownership.map_version == map_version:
            ownership.refresh()
        return self._exchange.correct(sender, listed)

    @handles(HeartbeatAck)
    def on_heartbeat_ack(self, sender: Address, ack: HeartbeatAck) -> None:
        members = self._members
        members.heard_from(sender)
        if self._requests.answered("heartbeat", sender) is None and sender not in members.states:
            return
        self._set.on_ack(sender, ack.stamp_us, ack.has_copy)
        if ack.own_stamp_us:
            self._ack(sender, ack.own_stamp_us, ack.version, 0)
        self._exchange.check_version(sender, ack.version)

    @handles(FullStateRequest)
    def on_full_state_request(self, sender: Address, request: FullStateRequest) -> None:
        self._members.heard_from(sender)
        self._exchange.send_to([sender])

    @handles(ClaimUpdate)
    def on_claim_update(self, sender: Address, better: ClaimUpdate) -> None:
        self._members.heard_from(sender)
        self._on_better_claims(better.claims)
        self._exchange.learn_claims(better.claims, sender)


def _is_untrue(claim: OwnershipClaim, extents: Iterable[tuple[OwnershipClaim, bool]]) -> bool:
    """True if a claim is not what its owner has there, given the owner's extents and whether each
    is undisputed.

    The claim may have a larger epoch than its owner ever used, as a forgery in the owner's name;
    then no heartbeat of the owner could beat it. Or it is a fragment of the owner's extent, left
    over because a better claim that is gone took the rest.
    """
    return any(
        overlap(claim, extent)
        and (
            claim.epoch > extent.epoch
            or (undisputed and extent.bits < claim.bits and extent.epoch == claim.epoch)
        )
        for extent, undisputed in extents
    )
