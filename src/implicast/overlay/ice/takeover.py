"""Takeover: a backup detects a dead owner, polls other peers, and claims the owner's extents.

Backup i of a silent owner waits i ranks longer than the first one, then asks the peers around
whether they have heard the owner (`ConfirmDeath`). It declares the owner dead only if no vote is a
veto. If all backups are dead too, any neighbour acts last. A handoff receiver whose sender is
silent runs the same poll. Extents that were taken over are committed when their items are at the
new owner's backups, and not before rival claimants have had time to learn of each other.

Why no two peers answer for one code: an owner is unconfirmed after `suspect_after_us` without an
ack. A backup hears a heartbeat later than its timestamp, so every backup that acked lately has
heard the owner lately and vetoes. And `suspect_after_us` is shorter than `dead_after_us`.
"""

from collections.abc import Iterable

from implicast.overlay.ice.alarms import CommitDue, TakeoverDue
from implicast.overlay.ice.backup_copies import BackupCopy, split_into_parts
from implicast.overlay.ice.death_poll import DeadOwner, DeathPoll, PendingTakeover, voters
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.overlay.ice.messages import (
    ConfirmDeath,
    DeathVote,
    FindOwner,
    FullStateRequest,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import PROVISIONAL, TAKEN_OVER, ExtentStatus
from implicast.overlay.ice.ownership_map import OwnershipMap, overlap, tract_of
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits
from implicast.space.tract import EMPTY, Tract, intersect, subtract

NO_COPY = -2
CERTAIN_ROUND = 16
"""Round number of a poll about a peer that is certainly dead; no vote can be a veto."""


class Takeover(SurfacePart):
    """Decides which silent peers are dead, and takes over their extents."""

    __slots__ = ("dead_owners", "not_before_us", "pending", "polls")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.polls: dict[Address, DeathPoll] = {}
        self.not_before_us: Recent[Address, int] = Recent(self.timers.members_max)
        """Suspects about which no poll starts before the given time."""
        self.dead_owners: dict[Address, DeadOwner] = {}
        self.pending: dict[int, PendingTakeover] = {}

    def check_silent(self, troubled: bool = True) -> None:
        """At each tick: start a poll about each owner that has been silent too long for this peer's
        rank. Without trouble among the neighbours only owners of held backup copies are checked.
        """
        surface, members = self.surface, self.surface.members
        known, dead_after_us = members.states, self.host.now_us - self.timers.dead_after_us
        near = surface.ownership.neighbours() if troubled else ()
        for owner in (*near, *surface.backup_copies.held):
            state = known.get(owner) or members.state_of(owner)
            if max(state.heard_us, state.since_us) < dead_after_us and self._may_ask(owner):
                rank, wait_us = self._rank_of(owner)
                if members.silence_us(owner) > wait_us and (
                    surface.ownership.extents or owner in surface.backup_copies.held
                ):
                    self.start_poll(owner, rank, takes_over=True)
        handoff = surface.handoff_receiver.handoff
        if handoff is not None and handoff.complete and self._may_ask(handoff.sender):
            # A dead sender cannot abort.
            if members.silence_us(handoff.sender) > self.timers.dead_after_us:
                self.start_poll(handoff.sender, self.timers.backups + 1, takes_over=False)
            elif handoff.prepared_us >= 0 or surface.handoff_receiver.is_first:
                surface.handoff_receiver.send_prepared(handoff)
        self._start_due_polls(self.host.now_us)

    def on_incarnation(self, peer: Address, born_us: int) -> None:
        """An earlier incarnation of this peer is dead, if one was known: backups take over."""
        surface, ownership = self.surface, self.surface.ownership
        if not surface.members.is_new_incarnation(peer, born_us):
            return
        copy = surface.backup_copies.held.pop(peer, None)
        surface.members.restart_member(peer, born_us)
        surface.heartbeat_requests.drop("heartbeat", peer)
        ownership.claim_map.drop(ownership.claim_map.of(peer))
        ownership.refresh()
        surface.backup_set.drop_backup(peer)
        self.confirm_dead(peer, copy)
        surface.joining.on_new_incarnation(peer)

    def confirm_dead(self, peer: Address, copy: BackupCopy | None) -> None:
        """A later incarnation proves that a peer is dead: its backups take over in turn, and a
        complete handoff from it is committed.
        """
        self.polls.pop(peer, None)
        now_us = self.host.now_us
        if copy is not None and (rank := copy.rank_of(self.address)) is not None:
            self.dead_owners[peer] = DeadOwner(copy, rank, now_us + rank * self.timers.rank_us)
            self._start_due_polls(now_us)
        elif self.surface.handoff_receiver.complete_from(peer) is not None:
            self.start_poll(peer, self.timers.backups + 1, False, CERTAIN_ROUND)

    def _start_due_polls(self, now_us: int) -> None:
        """Start a poll about each certainly dead owner for which this peer's turn has come."""
        for peer, dead_owner in list(self.dead_owners.items()):
            if dead_owner.due_us <= now_us:
                del self.dead_owners[peer]
                self.start_poll(peer, dead_owner.rank, True, CERTAIN_ROUND, dead_owner.copy)

    def _may_ask(self, owner: Address) -> bool:
        return owner not in self.polls and self.not_before_us.get(owner, 0) <= self.host.now_us

    def _rank_of(self, owner: Address) -> tuple[int, int]:
        """This peer's rank among those that may take over from an owner, and the silence that it
        waits for.
        """
        timers, copy = self.timers, self.surface.backup_copies.held.get(owner)
        if copy is not None and (rank := copy.rank_of(self.address)) is not None:
            return rank, timers.dead_after_us + rank * timers.rank_us
        share = digest_bits(16, "last resort", repr(owner), repr(self.address)) / 2**16
        return timers.backups + 1, timers.dead_after_us + int(
            (timers.backups + 1 + share) * timers.rank_us
        )

    def start_poll(
        self,
        suspect: Address,
        rank: int,
        takes_over: bool,
        round_: int = 0,
        dead_copy: BackupCopy | None = None,
    ) -> None:
        surface, copy = self.surface, dead_copy or self.surface.backup_copies.held.get(suspect)
        extents = {each.low: each for each in (copy.claims if copy is not None else ())}
        if round_ < CERTAIN_ROUND:
            extents.update({each.low: each for each in surface.ownership.claim_map.of(suspect)})
        incoming = surface.ownership.of_status(PROVISIONAL, suspect)
        serial = NO_COPY if copy is None or copy.awaited else copy.serial
        message = ConfirmDeath(
            suspect, tuple(extents.values()), rank, tuple(incoming), serial, round_ >= CERTAIN_ROUND
        )
        asked = dict.fromkeys(voters(surface, suspect, copy))
        self.polls[suspect] = DeathPoll(takes_over, asked, message, copy, round_)
        for peer in asked:
            self.host.send(peer, message)
        if copy is None and takes_over:
            self._find_newer_owners(extents.values())
        self.host.after(self.timers.answers_us // 2, TakeoverDue(suspect, 2 * round_))

    def _find_newer_owners(self, claims: Iterable[OwnershipClaim]) -> None:
        """Without a copy this peer does not know all neighbours of the suspect, and its own may not
        touch the suspect's extents: another peer may have taken them over long ago.
        """
        for each in claims:
            self.surface.send(FindOwner(RouteHeader((each.low, each.low + 1)), self.address))

    @handles(ConfirmDeath)
    def on_confirm_death(self, sender: Address, request: ConfirmDeath) -> None:
        surface, timers, suspect = self.surface, self.timers, request.suspect
        surface.members.heard_from(sender)
        if suspect == self.address:
            surface.heartbeats.send_to([sender])
            return
        state = surface.members.states.get(suspect)
        unknown = request.certain or state is None or state.heard_us < 0
        ago_us = -1 if unknown or state is None else self.host.now_us - state.heard_us
        if ago_us < 0 or ago_us > timers.suspect_after_us:
            surface.learn_claims(request.incoming)
        dead_owner = self.dead_owners.get(suspect)
        if request.certain:
            if dead_owner is not None and dead_owner.rank > request.rank:  # it takes over first
                self.dead_owners[suspect] = dead_owner._replace(
                    due_us=self.host.now_us + timers.rank_us
                )
        else:
            if suspect in surface.backup_copies.held and not 0 <= ago_us < timers.alive_within_us:
                surface.members.state_of(suspect).withhold_acks(
                    self.host.now_us + timers.give_up_us
                )
            if self._rank_of(suspect)[0] >= request.rank:
                self.not_before_us[suspect] = self.host.now_us + timers.rank_us
        spoken_of = (*request.extents, *request.incoming)
        better = [
            claim for each in spoken_of for claim in surface.ownership.claim_map.better_than(each)
        ]
        granted = surface.ownership.of_status(PROVISIONAL)
        claims = tuple(each for each in better if each not in granted)
        self.host.send(
            sender,
            DeathVote(
                suspect, ago_us, claims, *self._newer_items(request), self._in_transit_with(suspect)
            ),
        )

    def _in_transit_with(self, suspect: Address) -> tuple[OwnershipClaim, ...]:
        """Extents that this peer hands off to the suspect, or receives from it; no other peer may
        claim them. The claim after an abort beats the receiver's claim, so it must not be learnt
        yet: if the handoff is committed after all, no peer would own the extent.
        """
        handoff, ownership = self.surface.handoff_sender.handoff, self.surface.ownership
        if handoff is not None and handoff.claim.owner == suspect:
            return self.surface.handoff_sender.claims_if_aborted(handoff)
        return tuple(ownership.of_status(PROVISIONAL, suspect))

    def _newer_items(self, request: ConfirmDeath) -> tuple[tuple[Item, ...], bool]:
        """Items of this peer's copy, as far as one message holds them, if the copy is newer than
        the requester's; and whether they are complete. A backup that was cut off does not know that
        it was replaced, and its successors have later writes.
        """
        dead_owner = self.dead_owners.get(request.suspect)
        copy = (
            self.surface.backup_copies.held.get(request.suspect)
            if dead_owner is None
            else dead_owner.copy
        )
        if copy is None or copy.awaited or copy.serial <= request.serial:
            return (), False
        tract = tract_of(request.extents)
        parts = split_into_parts(copy.within(tract), self.timers.part_bytes)
        return parts[0], len(parts) == 1 and not subtract(tract, tract_of(copy.claims))

    @handles(DeathVote)
    def on_death_vote(self, sender: Address, vote: DeathVote) -> None:
        self.surface.members.heard_from(sender)
        poll = self.polls.get(vote.suspect)
        if poll is None or sender not in poll.awaited:
            return
        del poll.awaited[sender]
        poll.votes.append(vote)
        if not poll.awaited:
            self._tally_votes(vote.suspect, poll)

    @handles(TakeoverDue)
    def on_takeover_due(self, alarm: TakeoverDue) -> None:
        poll = self.polls.get(alarm.suspect)
        if poll is None or alarm.round // 2 != poll.round:
            return
        if alarm.round % 2:
            self._tally_votes(alarm.suspect, poll)
            return
        for peer in poll.awaited:
            self.host.send(peer, poll.message)
        self.host.after(self.timers.answers_us // 2, TakeoverDue(alarm.suspect, alarm.round + 1))

    def _tally_votes(self, suspect: Address, poll: DeathPoll) -> None:
        surface, timers = self.surface, self.timers
        del self.polls[suspect]
        if poll.message.certain:
            self.declare_dead(suspect, poll)
            return
        if surface.members.silence_us(suspect) < timers.suspect_after_us:
            return
        heard_us = [each.ago_us for each in poll.votes if 0 <= each.ago_us < timers.alive_within_us]
        if heard_us:
            surface.learn_claims(poll.claims)
            self.not_before_us[suspect] = self.host.now_us + min(
                timers.rank_us, timers.alive_within_us - min(heard_us)
            )
            self.host.send(suspect, FullStateRequest())
        elif not poll.votes and poll.message.extents and poll.round < timers.poll_rounds:
            self.start_poll(suspect, poll.message.rank, poll.takes_over, poll.round + 1)
        else:
            self.declare_dead(suspect, poll)

    # --- taking over

    def declare_dead(self, suspect: Address, poll: DeathPoll) -> None:
        """No peer has heard the suspect."""
        surface = self.surface
        if not poll.message.certain:
            surface.members.suspect(suspect)
            self.not_before_us[suspect] = self.host.now_us + self.timers.rank_us
        surface.learn_claims(poll.claims)
        handoff = surface.handoff_receiver.complete_from(suspect)
        if handoff is not None:
            surface.handoff_receiver.commit_handoff(handoff)
        if poll.takes_over:
            self.take_over(suspect, poll)

    def take_over(self, suspect: Address, poll: DeathPoll) -> None:
        """Claim every extent of the dead owner whose best claim is still the owner's."""
        surface, ownership, held = (
            self.surface,
            self.surface.ownership,
            self.surface.backup_copies.held,
        )
        before, certain, old = (
            {*ownership.neighbours(), suspect},
            poll.message.certain,
            poll.message.extents,
        )
        copy = poll.copy if certain else held.get(suspect)
        # Extents in transit are not the dead owner's to lose.
        given = [claim for each in poll.votes for claim in each.in_transit]
        best = OwnershipMap()
        for each in (*old, *poll.claims, *given, *ownership.claim_map.claims.values()):
            best.learn(each)
        spans = tract_of(old)
        claims = [each for each in best.of(suspect) if intersect((each.low, each.high), spans)]
        if certain:  # the new incarnation may own extents of the old one already
            claims = [
                each
                for each in claims
                if any(each.epoch == one.epoch and overlap(each, one) for one in old)
            ]
        if copy is not None:
            self._offer_taken(suspect, copy, best, spans)
        if not (certain or given):
            held.pop(suspect, None)  # else the copy may still be needed when the handoff has ended
        if not claims:
            return
        tract = tract_of(claims)
        number = surface.next_number()
        for each in claims:
            ownership.claim_map.learn(
                OwnershipClaim(each.low, each.bits, each.epoch + 1, self.address)
            )
            ownership.status[each.low] = ExtentStatus(TAKEN_OVER, suspect, number)
        ownership.refresh()
        surface.learn_claims(poll.claims)
        if copy is not None:
            before.update(claim.owner for claim, _ in copy.around)
            surface.learn_around(copy.around)
            surface.store.accept(copy.within(tract), tract)
        surface.store.accept(tuple(item for each in poll.votes for item in each.items), tract)
        known = tract_of(copy.claims) if copy is not None and not copy.awaited else EMPTY
        lacking = EMPTY if any(each.whole for each in poll.votes) else subtract(tract, known)
        self.commit_later(number, PendingTakeover(tract, lacking), before)

    def _offer_taken(
        self, suspect: Address, copy: BackupCopy, best: OwnershipMap, spans: Tract
    ) -> None:
        """After a partition heals, a peer that is no backup may own extents of a dead owner: offer
        it the items that this peer holds. The backups have them already.
        """
        having = (suspect, self.address, *copy.backups)
        taken = intersect(
            tract_of(each for each in best.claims.values() if each.owner not in having), spans
        )
        if taken:
            self.surface.store.accept(copy.within(taken), taken)
            self.surface.store.on_tract_lost(taken)

    def claim_unowned(self, claims: list[OwnershipClaim], before: set[Address]) -> None:
        """Claim extents that have no owner. Every regular claim beats one of epoch 0."""
        ownership, number = self.surface.ownership, self.surface.next_number()
        for each in claims:
            ownership.claim_map.learn(each)
        taken = [
            each for each in ownership.claim_map.of(self.address) if each not in ownership.extents
        ]
        for each in taken:
            ownership.status[each.low] = ExtentStatus(TAKEN_OVER, self.address, number)
        if taken:
            self.commit_later(number, PendingTakeover(tract_of(taken), tract_of(taken)), before)

    def commit_later(self, number: int, pending: PendingTakeover, before: set[Address]) -> None:
        """Announce the claims, replicate the items, and give rivals time before the extents are
        committed.
        """
        surface = self.surface
        if pending.lacking:  # another surface may exist, whose claims this peer does not know
            before = before.union(surface.joining.acquaintances())
        surface.announce(before - {self.address})
        self.pending[number] = pending
        due, own = CommitDue(number), intersect(pending.tract, surface.ownership.tract)
        self.host.after(self.timers.commit_delay_us, due)
        surface.replicate(surface.store.pack(own), lambda: self.on_commit_due(due))

    @handles(CommitDue)
    def on_commit_due(self, due: CommitDue) -> None:
        """The items are replicated, or rivals have had their time."""
        pending = self.pending.get(due.number)
        if pending is not None and pending.step():
            self.commit_takeover(due.number, pending)

    def commit_takeover(self, number: int, pending: PendingTakeover) -> None:
        """The store learns of lost items first: the commit releases parked messages."""
        del self.pending[number]
        if left := intersect(pending.lacking, self.surface.ownership.unsettled):
            self.surface.store.lost(left)
        self.surface.commit(TAKEN_OVER, number, set())
