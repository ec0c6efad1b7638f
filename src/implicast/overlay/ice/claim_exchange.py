"""Exchange of claims: what a peer tells its neighbours of itself, and what it learns from claims.

A heartbeat states all extents of its sender. Each change of them is announced to all neighbours,
old and new. Claims that arrive are joined into the ownership map. A claim heard from a third peer
is verified with its owner, and a peer whose claims are worse than known ones is corrected.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import (
    ClaimUpdate,
    FullStateRequest,
    Heartbeat,
    Neighbour,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import PROVISIONAL, Ownership
from implicast.overlay.ice.ownership_map import overlap, tract_of
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, in_order
from implicast.peer.requests import UpkeepRequests
from implicast.space.tract import Tract, subtract

CLAIMS_MAX = 64
"""Better claims in one answer."""
OnClaimsLost = Callable[[Tract, list[Address], list[OwnershipClaim]], None]
"""Called with the lost tract, the neighbours before, and the winning claims."""


class ClaimExchange:
    """Keeps the ownership maps of this peer and its neighbours up to date."""

    __slots__ = (
        "_address",
        "_backup_set",
        "_host",
        "_members",
        "_on_announced",
        "_on_claims_lost",
        "_on_learnt",
        "_ownership",
        "_requests",
        "_site",
        "_timers",
        "leaving",
        "relinquished",
    )

    def __init__(
        self,
        site: SurfaceSite,
        requests: UpkeepRequests,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        on_announced: Callable[[], None],
        on_learnt: Callable[[], None],
        on_claims_lost: OnClaimsLost,
    ) -> None:
        """`on_announced` is called after an announcement, `on_learnt` when the map has changed and
        the own extents have not, `on_claims_lost` when better claims took a tract.
        """
        self._site, self._address, self._host = site, site.address, site.host
        self._timers = site.settings.timers
        self._requests, self._ownership, self._members = requests, ownership, members
        self._backup_set, self._on_announced = backup_set, on_announced
        self._on_learnt, self._on_claims_lost = on_learnt, on_claims_lost
        self.leaving = False
        """True if this peer is handing off all its extents."""
        self.relinquished: list[tuple[int, OwnershipClaim]] = []
        """Claims by which this peer parted with extents, and since when; heartbeats mention them.
        """
        requests.topic(
            "heartbeat",
            self._timers.retry_policy(self._timers.tries_heartbeat),
            members.on_unanswered,
        )

    # --- what this peer tells

    def begin_leaving(self) -> None:
        self.leaving = True
        self.announce()

    def heartbeat_for(self, peer: Address) -> Heartbeat:
        return self._heartbeat(self.around() if peer in self._backup_set.receivers else ())

    def _heartbeat(self, around: tuple[Neighbour, ...]) -> Heartbeat:
        ownership, backup_set = self._ownership, self._backup_set
        provisional = tuple(ownership.of_status(PROVISIONAL)) if ownership.status else ()
        extents = (
            tuple(each for each in ownership.extents if each not in provisional)
            if provisional
            else tuple(ownership.extents)
        )
        relinquished = tuple([claim for _, claim in self.relinquished]) if self.relinquished else ()
        return Heartbeat(
            self._host.now_us,
            self._site.born_us,
            ownership.version,
            extents,
            provisional,
            backup_set.backups,
            backup_set.new_backups(),
            self.leaving,
            relinquished,
            around,
        )

    def around(self) -> tuple[Neighbour, ...]:
        """The neighbours' claims, each with its owner's backups."""
        return self._members.with_backups(self._ownership.others)

    def send_to(self, peers: Iterable[Address], former: tuple[OwnershipClaim, ...] = ()) -> None:
        """Send heartbeats. `former`: claims of a previous incarnation, named as provisional so that
        a peer with better ones answers with them.
        """
        members, next_us = self._members, self._host.now_us + self._timers.heartbeat_us
        # One message for all peers but backups, so that its size is computed once.
        plain: Heartbeat | None = None
        known, receivers = members.states, self._backup_set.receivers
        members.check_by(next_us)
        for peer in peers:
            if peer == self._address:
                continue
            (known.get(peer) or members.state_of(peer)).heartbeat_at(next_us)
            if peer in receivers:
                heartbeat = self._heartbeat(self.around())
            else:
                heartbeat = plain = plain or self._heartbeat(())
            if former:
                heartbeat = replace(heartbeat, provisional=(*heartbeat.provisional, *former))
            self._requests.ask("heartbeat", peer, peer, heartbeat)

    def is_sending_to(self, peer: Address) -> bool:
        """True if a heartbeat to this peer awaits its ack."""
        return self._requests.open("heartbeat", peer) is not None

    def stop_sending_to(self, peer: Address) -> None:
        """A heartbeat to this peer needs no ack any more."""
        self._requests.drop("heartbeat", peer)

    def announce(self, before: Iterable[Address] = ()) -> None:
        """Extents, their status or backups have changed: inform neighbours, also former ones, and
        the layers above.
        """
        self._ownership.next_version()
        self._ownership.refresh()
        peers = {*before, *self._ownership.neighbours(), *self._backup_set.receivers}
        self.send_to(sorted(peers, key=in_order))
        self._on_announced()

    def commit(self, kind: str, number: int, before: set[Address]) -> None:
        """Commit the extents held under this status and number, if any are left."""
        before = before.union(self._ownership.neighbours())
        if self._ownership.commit(kind, number):
            self.announce(before)

    def note_relinquished(self, claims: Iterable[OwnershipClaim]) -> None:
        """These claims took extents of this peer: heartbeats tell other peers."""
        now_us = self._host.now_us
        self.relinquished += [(now_us, each) for each in claims]

    def drop_denied(self, owner: Address, listed: tuple[OwnershipClaim, ...]) -> None:
        """Stop mentioning a claim that its owner denies: two peers that named each other as the
        owner would keep a gap open for ever. A heartbeat that was sent before the handoff denies
        nothing.
        """
        alive_within_us = self._host.now_us - self._timers.heartbeat_us
        self.relinquished = [
            (given_us, claim)
            for given_us, claim in self.relinquished
            if claim.owner != owner or given_us > alive_within_us or is_listed(claim, listed)
        ]

    def expire_relinquished(self) -> None:
        since_us = self._host.now_us - 2 * self._timers.dead_after_us
        most = self._timers.relinquished_max
        self.relinquished = [each for each in self.relinquished if each[0] >= since_us][-most:]

    # --- what this peer asks and corrects

    def check_version(self, peer: Address, version: int) -> None:
        """Request the full state if the peer's version is not the known one, at most once per round
        trip.
        """
        state = self._members.states.get(peer)
        if state is None:
            return
        now_us = self._host.now_us
        if state.version == version:
            state.confirm(now_us)
        elif state.version < version or now_us - state.confirmed_us > self._timers.suspect_after_us:
            self.request_full_state(peer)

    def request_full_state(self, peer: Address) -> None:
        """Request a heartbeat, and at each tick again until it arrives."""
        members, now_us = self._members, self._host.now_us
        members.check_by(now_us)
        if members.state_of(peer).may_request_state(now_us, self._timers.rto_us):
            self._host.send(peer, FullStateRequest())

    def correct(self, peer: Address, claimed: Iterable[OwnershipClaim]) -> bool:
        """Send a peer the claims that beat these; false if none are known."""
        better = {each.low: each for each in self._ownership.valid_better(claimed)}
        known = [each for each in better.values() if each.owner != peer]
        if known:
            self._host.send(peer, ClaimUpdate(tuple(known[:CLAIMS_MAX])))
        return bool(known)

    # --- what this peer learns

    def learn_claims(self, claims: Iterable[OwnershipClaim], sender: Address | None = None) -> None:
        """Learn claims; give up extents that lose to them. Verify claims about third peers."""
        ownership = self._ownership
        before, neighbours = list(ownership.extents), ownership.neighbours()
        if not (learnt := ownership.learn(claims)):
            return
        hearsay = {each.owner for each in learnt if each.owner != sender}
        for each in ownership.neighbours():
            # Otherwise a claim that its owner has relinquished could circulate among other peers
            # for ever. An owner whose version is unknown is asked at its first ack in any case.
            if each in hearsay and self._members.state_of(each).version >= 0:
                self.request_full_state(each)
        lost = subtract(tract_of(before), ownership.tract)
        if lost:
            winners = [each for each in learnt if any(overlap(each, extent) for extent in before)]
            # A claim heard from a third peer is not passed on, for the same reason.
            self.note_relinquished(
                each
                for each in winners
                if each.owner == sender and subtract((each.low, each.high), ownership.tract)
            )
            self._on_claims_lost(lost, neighbours, winners)
        else:
            self.send_to([each for each in ownership.neighbours() if each not in neighbours])
            self._on_learnt()

    def learn_around(self, around: tuple[Neighbour, ...]) -> None:
        """Learn another owner's neighbours, as far as they are neighbours of this peer now."""
        self.learn_claims(claim for claim, _ in around)
        for claim, backups in around:
            state = self._members.states.get(claim.owner)
            if state is not None and not state.backups:
                state.set_backups(backups)


def is_listed(claim: OwnershipClaim, listed: Iterable[OwnershipClaim]) -> bool:
    return any(extent.low <= claim.low and claim.high <= extent.high for extent in listed)
