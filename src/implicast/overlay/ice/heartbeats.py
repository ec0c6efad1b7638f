"""Heartbeats: neighbours exchange their full state, with timestamps and versions, and correct each
other's claims.

An idle pair exchanges one heartbeat in a period, sent by the peer whose turn comes first; the ack
carries the answerer's own timestamp where it needs an ack in turn. Heartbeats are requests, so
silence is probed at once, and a change reaches all neighbours in spite of message loss. Correction
on use: acks and hops carry the sender's version, and a receiver that does not know this version
requests the full state. A peer that hears a claim worse than one it knows answers with the better
claims.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from implicast.overlay.ice.members import MemberState
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FullStateRequest,
    Heartbeat,
    HeartbeatAck,
    Neighbour,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import PROVISIONAL
from implicast.overlay.ice.ownership_map import overlap
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.space.tract import subtract

CLAIMS_MAX = 64
"""Better claims in one answer."""


class Heartbeats(SurfacePart):
    """Keeps the ownership maps of this peer and its neighbours up to date."""

    __slots__ = ("_learnt", "relinquished", "version")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.version = surface.born_us + 1
        """Increases whenever this peer's extents, their status or its backups change, also from one
        incarnation to the next.
        """
        self.relinquished: list[tuple[int, OwnershipClaim]] = []
        """Claims by which this peer parted with extents, and since when; heartbeats mention them.
        """
        self._learnt: Recent[Address, tuple[int, int, int]] = Recent(self.timers.members_max)
        """By peer: version and number of relinquished claims of its last heartbeat that was learnt
        from, and this peer's map version after that.
        """
        surface.heartbeat_requests.topic(
            "heartbeat",
            self.timers.retry_policy(self.timers.tries_heartbeat),
            surface.members.on_unanswered,
        )

    def next_version(self) -> None:
        self.version += 1

    def heartbeat_for(self, peer: Address) -> Heartbeat:
        return self._heartbeat(self.around() if peer in self.surface.backup_set.receivers else ())

    def _heartbeat(self, around: tuple[Neighbour, ...]) -> Heartbeat:
        ownership, backup_set = self.surface.ownership, self.surface.backup_set
        provisional = tuple(ownership.of_status(PROVISIONAL)) if ownership.status else ()
        extents = (
            tuple(each for each in ownership.extents if each not in provisional)
            if provisional
            else tuple(ownership.extents)
        )
        relinquished = tuple([claim for _, claim in self.relinquished]) if self.relinquished else ()
        return Heartbeat(
            self.host.now_us,
            self.surface.born_us,
            self.version,
            extents,
            provisional,
            backup_set.backups,
            backup_set.new_backups(),
            self.surface.leaving,
            relinquished,
            around,
        )

    def around(self) -> tuple[Neighbour, ...]:
        """The neighbours' claims, each with its owner's backups: what a backup needs to take over
        from this peer.
        """
        backups_of = self.surface.members.backups_of
        return tuple([(each, backups_of(each.owner)) for each in self.surface.ownership.others])

    def send_to(self, peers: Iterable[Address], former: tuple[OwnershipClaim, ...] = ()) -> None:
        """Send heartbeats. `former`: claims of a previous incarnation, named as provisional so that
        a peer with better ones answers with them.
        """
        surface, next_us = self.surface, self.host.now_us + self.timers.heartbeat_us
        # One message for all peers but backups, so that its size is computed once.
        plain: Heartbeat | None = None
        known, state_of, receivers = (
            surface.members.states,
            surface.members.state_of,
            surface.backup_set.receivers,
        )
        surface.members.check_by(next_us)
        for peer in peers:
            if peer == self.address:
                continue
            (known.get(peer) or state_of(peer)).heartbeat_at(next_us)
            if peer in receivers:
                heartbeat = self._heartbeat(self.around())
            else:
                heartbeat = plain = plain or self._heartbeat(())
            if former:
                heartbeat = replace(heartbeat, provisional=(*heartbeat.provisional, *former))
            surface.heartbeat_requests.ask("heartbeat", peer, peer, heartbeat)

    @handles(Heartbeat)
    def on_heartbeat(self, sender: Address, heartbeat: Heartbeat) -> None:
        if sender == self.address:
            return  # no other peer states what this peer owns
        surface, members, now_us, version = (
            self.surface,
            self.surface.members,
            self.host.now_us,
            heartbeat.version,
        )
        surface.takeover.on_incarnation(sender, heartbeat.born_us)
        state = members.states.get(sender) or members.state_of(sender)
        denied = (version < state.version or heartbeat.born_us < state.born_us) and self._is_denied(
            sender, state
        )
        if heartbeat.born_us < state.born_us and not denied:
            return  # sent by an incarnation that is dead
        members.heard_from(sender)
        state.heartbeat_at(now_us + self.timers.turn_us)
        own_stamp_us = now_us if sender in surface.backup_set.backups else 0
        if version >= state.version or denied:
            state.apply_heartbeat(heartbeat, now_us)
            surface.backup_copies.on_owner_heartbeat(sender, heartbeat)
            learnt = (version, len(heartbeat.relinquished), surface.ownership.map_version)
            if self._learnt.get(sender) != learnt:
                self._learnt.pop(sender, None)
                # else the correction may be lost: repeat it at the next heartbeat
                if not self._learn_from(sender, heartbeat):
                    self._learnt[sender] = (*learnt[:2], surface.ownership.map_version)
        stamp_us = surface.backup_copies.ack_stamp(sender, heartbeat.stamp_us, version)
        self.host.send(
            sender,
            HeartbeatAck(
                stamp_us, self.version, own_stamp_us, surface.backup_copies.holds_copy(sender)
            ),
        )

    def _is_denied(self, sender: Address, state: MemberState) -> bool:
        """A peer states an older version or incarnation than is known. Versions and incarnations
        only increase and no message is delayed for so long: if the known state has not been
        confirmed for `suspect_after_us` it was forged, and all that rests on it is dropped.
        """
        if self.host.now_us - state.confirmed_us <= self.timers.suspect_after_us:
            return False
        self.surface.backup_copies.held.pop(sender, None)
        self.surface.ownership.claim_map.drop(self.surface.ownership.claim_map.of(sender))
        return True

    def _learn_from(self, sender: Address, heartbeat: Heartbeat) -> bool:
        """A heartbeat lists all extents of its sender: drop every other claim in the sender's name.
        True if this peer knows better claims.
        """
        ownership, claim_map = self.surface.ownership, self.surface.ownership.claim_map
        changed = any(map(ownership.is_news, heartbeat.relinquished)) or sender in [
            claim.owner for _, claim in self.relinquished
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
            if not _is_listed(each, listed) or _is_untrue(each, extents)
        ]
        map_version = ownership.map_version
        claim_map.drop(gone)
        self._drop_denied(sender, listed)
        self.surface.learn_claims((*heartbeat.relinquished, *heartbeat.extents), sender)
        if gone and ownership.map_version == map_version:
            ownership.refresh()
        return self.correct(sender, listed)

    def _drop_denied(self, sender: Address, listed: tuple[OwnershipClaim, ...]) -> None:
        """Stop mentioning a claim that its owner denies: two peers that named each other as the
        owner would keep a gap open for ever. A heartbeat that was sent before the handoff denies
        nothing.
        """
        alive_within_us = self.host.now_us - self.timers.heartbeat_us
        self.relinquished = [
            (given_us, claim)
            for given_us, claim in self.relinquished
            if claim.owner != sender or given_us > alive_within_us or _is_listed(claim, listed)
        ]

    def correct(self, peer: Address, claimed: Iterable[OwnershipClaim]) -> bool:
        """Send a peer the claims that beat these; false if none are known."""
        ownership = self.surface.ownership
        granted = ownership.of_status(PROVISIONAL)
        better = {
            claim.low: claim for each in claimed for claim in ownership.claim_map.better_than(each)
        }
        known = [each for each in better.values() if each not in granted and each.owner != peer]
        if known:
            self.host.send(peer, ClaimUpdate(tuple(known[:CLAIMS_MAX])))
        return bool(known)

    @handles(HeartbeatAck)
    def on_heartbeat_ack(self, sender: Address, ack: HeartbeatAck) -> None:
        surface = self.surface
        surface.members.heard_from(sender)
        if (
            surface.heartbeat_requests.answered("heartbeat", sender) is None
            and sender not in surface.members.states
        ):
            return
        surface.backup_set.on_ack(sender, ack.stamp_us, ack.has_copy)
        if ack.own_stamp_us:
            stamp_us = surface.backup_copies.ack_stamp(sender, ack.own_stamp_us, ack.version)
            self.host.send(
                sender,
                HeartbeatAck(stamp_us, self.version, 0, surface.backup_copies.holds_copy(sender)),
            )
        self.check_version(sender, ack.version)

    def check_version(self, peer: Address, version: int) -> None:
        """Request the full state if the peer's version is not the known one, at most once per round
        trip.
        """
        state = self.surface.members.states.get(peer)
        if state is None:
            return
        if state.version == version:
            state.confirm(self.host.now_us)
        elif (
            state.version < version
            or self.host.now_us - state.confirmed_us > self.timers.suspect_after_us
        ):
            self.request_full_state(peer)

    def request_full_state(self, peer: Address) -> None:
        """Request a heartbeat, and at each tick again until it arrives."""
        members, now_us = self.surface.members, self.host.now_us
        members.check_by(now_us)
        if members.state_of(peer).may_request_state(now_us, self.timers.rto_us):
            self.host.send(peer, FullStateRequest())

    @handles(FullStateRequest)
    def on_full_state_request(self, sender: Address, request: FullStateRequest) -> None:
        self.surface.members.heard_from(sender)
        self.send_to([sender])

    @handles(ClaimUpdate)
    def on_claim_update(self, sender: Address, better: ClaimUpdate) -> None:
        self.surface.members.heard_from(sender)
        self.surface.reclaim.learn_claims(better.claims)
        self.surface.learn_claims(better.claims, sender)

    def note_lost_to(self, winners: list[OwnershipClaim]) -> None:
        """Record the winners, so that heartbeats tell other peers who owns the tract now."""
        now_us, tract = self.host.now_us, self.surface.ownership.tract
        self.relinquished += [
            (now_us, each) for each in winners if subtract((each.low, each.high), tract)
        ]

    def expire_relinquished(self) -> None:
        since_us, most = (
            self.host.now_us - 2 * self.timers.dead_after_us,
            self.timers.relinquished_max,
        )
        self.relinquished = [each for each in self.relinquished if each[0] >= since_us][-most:]


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


def _is_listed(claim: OwnershipClaim, listed: Iterable[OwnershipClaim]) -> bool:
    return any(extent.low <= claim.low and claim.high <= extent.high for extent in listed)
