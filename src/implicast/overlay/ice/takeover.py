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

from collections.abc import Callable, Iterable

from implicast.overlay.ice.backup_copy import BackupCopy, split_into_parts
from implicast.overlay.ice.backup_set import BackupSet
from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.claiming import Claiming, CommitDue
from implicast.overlay.ice.death_poll import (
    ConfirmDeath,
    DeadOwner,
    DeathPoll,
    DeathVote,
    PendingTakeover,
    voters,
)
from implicast.overlay.ice.handoff import Handoff
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import FindOwner, FullStateRequest, OwnershipClaim
from implicast.overlay.ice.ownership import PROVISIONAL, Ownership
from implicast.overlay.ice.ownership_map import OwnershipMap, overlap, tract_of
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.memory import Recent
from implicast.space.digest import digest_bits
from implicast.space.tract import EMPTY, Tract, intersect, subtract

NO_COPY = -2
CERTAIN_ROUND = 16
"""Round number of a poll about a peer that is certainly dead; no vote can be a veto."""


class TakeoverDue(Message):
    """Fires when voters have had half (even round) or all (odd round) of their time."""

    suspect: Address
    round: int


class Takeover(Part):
    """Decides which silent peers are dead, and takes over their extents."""

    __slots__ = (
        "_backup_set",
        "_claiming",
        "_copies",
        "_exchange",
        "_handoff",
        "_members",
        "_ownership",
        "_send",
        "_store",
        "_timers",
        "dead_owners",
        "not_before_us",
        "polls",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        members: Members,
        backup_set: BackupSet,
        exchange: ClaimExchange,
        handoff: Handoff,
        claiming: Claiming,
        send: Callable[[FindOwner], None],
    ) -> None:
        """`acquaintances` names peers that may belong to a surface that this peer does not know of."""
        super().__init__(site.address, site.host)
        self._timers, self._store = site.settings.timers, site.store
        self._ownership, self._members, self._exchange = ownership, members, exchange
        self._backup_set, self._copies, self._handoff = backup_set, backup_set.copies, handoff
        self._claiming, self._send = claiming, send
        self.polls: dict[Address, DeathPoll] = {}
        self.not_before_us: Recent[Address, int] = Recent(self._timers.members_max)
        """Suspects about which no poll starts before the given time."""
        self.dead_owners: dict[Address, DeadOwner] = {}

    def check_silent(self, troubled: bool = True) -> None:
        """At each tick: start a poll about each owner that has been silent too long for this peer's
        rank. Without trouble among the neighbours only owners of held backup copies are checked.
        """
        members, held, now_us = self._members, self._copies.held, self.host.now_us
        known, dead_after_us = members.states, now_us - self._timers.dead_after_us
        near = self._ownership.neighbours() if troubled else ()
        for owner in (*near, *held):
            state = known.get(owner) or members.state_of(owner)
            if max(state.heard_us, state.since_us) < dead_after_us and self._may_ask(owner):
                rank, wait_us = self._rank_of(owner)
                if members.silence_us(owner) > wait_us and (
                    self._ownership.extents or owner in held
                ):
                    self.start_poll(owner, rank, takes_over=True)
        self._check_handoff_sender()
        self._start_due_polls(now_us)

    def _check_handoff_sender(self) -> None:
        """Poll about the silent sender of a complete handoff: a dead sender cannot abort."""
        receiver = self._handoff.receiver
        handoff = receiver.handoff
        if handoff is not None and handoff.complete and self._may_ask(handoff.sender):
            if self._members.silence_us(handoff.sender) > self._timers.dead_after_us:
                self.start_poll(handoff.sender, self._timers.backups + 1, takes_over=False)
            elif handoff.prepared_us >= 0 or receiver.is_first:
                receiver.send_prepared(handoff)

    def on_incarnation(self, peer: Address, born_us: int) -> None:
        """The known incarnation of this peer is dead: backups take over."""
        ownership = self._ownership
        copy = self._copies.drop(peer)
        self._members.restart_member(peer, born_us)
        self._exchange.stop_sending_to(peer)
        ownership.drop_claims_of(peer)
        ownership.refresh()
        self._backup_set.drop_backup(peer)
        self.confirm_dead(peer, copy)

    def confirm_dead(self, peer: Address, copy: BackupCopy | None) -> None:
        """A later incarnation proves that a peer is dead: its backups take over in turn, and a
        complete handoff from it is committed.
        """
        self.polls.pop(peer, None)
        now_us = self.host.now_us
        if copy is not None and (rank := copy.rank_of(self.address)) is not None:
            self.dead_owners[peer] = DeadOwner(copy, rank, now_us + rank * self._timers.rank_us)
            self._start_due_polls(now_us)
        elif self._handoff.receiver.complete_from(peer) is not None:
            self.start_poll(peer, self._timers.backups + 1, False, CERTAIN_ROUND)

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
        timers, copy = self._timers, self._copies.held.get(owner)
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
        ownership, copy = self._ownership, dead_copy or self._copies.held.get(suspect)
        extents = {each.low: each for each in (copy.claims if copy is not None else ())}
        if round_ < CERTAIN_ROUND:
            extents.update({each.low: each for each in ownership.claim_map.of(suspect)})
        incoming = ownership.of_status(PROVISIONAL, suspect)
        serial = NO_COPY if copy is None or copy.awaited else copy.serial
        message = ConfirmDeath(
            suspect, tuple(extents.values()), rank, tuple(incoming), serial, round_ >= CERTAIN_ROUND
        )
        near = ownership.neighbours()
        asked = dict.fromkeys(voters(suspect, self.address, near, self._members, copy))
        self.polls[suspect] = DeathPoll(takes_over, asked, message, copy, round_)
        for peer in asked:
            self.host.send(peer, message)
        if copy is None and takes_over:
            self._find_newer_owners(extents.values())
        self.host.after(self._timers.answers_us // 2, TakeoverDue(suspect, 2 * round_))

    def _find_newer_owners(self, claims: Iterable[OwnershipClaim]) -> None:
        """Without a copy this peer does not know all neighbours of the suspect, and its own may not
        touch the suspect's extents: another peer may have taken them over long ago.
        """
        for each in claims:
            self._send(FindOwner(RouteHeader((each.low, each.low + 1)), self.address))

    @handles(ConfirmDeath)
    def on_confirm_death(self, sender: Address, request: ConfirmDeath) -> None:
        timers, suspect, now_us = self._timers, request.suspect, self.host.now_us
        self._members.heard_from(sender)
        if suspect == self.address:
            self._exchange.send_to([sender])
            return
        state = self._members.states.get(suspect)
        unknown = request.certain or state is None or state.heard_us < 0
        ago_us = -1 if unknown or state is None else now_us - state.heard_us
        if ago_us < 0 or ago_us > timers.suspect_after_us:
            self._exchange.learn_claims(request.incoming)
        if request.certain:
            self._let_pass(suspect, request.rank)
        else:
            if suspect in self._copies.held and not 0 <= ago_us < timers.alive_within_us:
                self._members.state_of(suspect).withhold_acks(now_us + timers.give_up_us)
            if self._rank_of(suspect)[0] >= request.rank:
                self.not_before_us[suspect] = now_us + timers.rank_us
        better = self._ownership.valid_better((*request.extents, *request.incoming))
        in_transit = self._handoff.in_transit_with(suspect)
        self.host.send(
            sender,
            DeathVote(suspect, ago_us, tuple(better), *self._newer_items(request), in_transit),
        )

    def _let_pass(self, suspect: Address, rank: int) -> None:
        """A backup of a better rank takes over from a certainly dead owner first."""
        dead_owner = self.dead_owners.get(suspect)
        if dead_owner is not None and dead_owner.rank > rank:
            due_us = self.host.now_us + self._timers.rank_us
            self.dead_owners[suspect] = dead_owner._replace(due_us=due_us)

    def _newer_items(self, request: ConfirmDeath) -> tuple[tuple[Item, ...], bool]:
        """Items of this peer's copy, as far as one message holds them, if the copy is newer than
        the requester's; and whether they are complete. A backup that was cut off does not know that
        it was replaced, and its successors have later writes.
        """
        dead_owner = self.dead_owners.get(request.suspect)
        copy = self._copies.held.get(request.suspect) if dead_owner is None else dead_owner.copy
        if copy is None or copy.awaited or copy.serial <= request.serial:
            return (), False
        tract = tract_of(request.extents)
        parts = split_into_parts(copy.within(tract), self._timers.part_bytes)
        return parts[0], len(parts) == 1 and not subtract(tract, tract_of(copy.claims))

    @handles(DeathVote)
    def on_death_vote(self, sender: Address, vote: DeathVote) -> None:
        self._members.heard_from(sender)
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
        self.host.after(self._timers.answers_us // 2, TakeoverDue(alarm.suspect, alarm.round + 1))

    def _tally_votes(self, suspect: Address, poll: DeathPoll) -> None:
        timers = self._timers
        del self.polls[suspect]
        if poll.message.certain:
            self.declare_dead(suspect, poll)
            return
        if self._members.silence_us(suspect) < timers.suspect_after_us:
            return
        heard_us = [each.ago_us for each in poll.votes if 0 <= each.ago_us < timers.alive_within_us]
        if heard_us:
            self._exchange.learn_claims(poll.claims)
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
        if not poll.message.certain:
            self._members.suspect(suspect)
            self.not_before_us[suspect] = self.host.now_us + self._timers.rank_us
        self._exchange.learn_claims(poll.claims)
        receiver = self._handoff.receiver
        handoff = receiver.complete_from(suspect)
        if handoff is not None:
            receiver.commit_handoff(handoff)
        if poll.takes_over:
            self.take_over(suspect, poll)

    def take_over(self, suspect: Address, poll: DeathPoll) -> None:
        """Claim every extent of the dead owner whose best claim is still the owner's."""
        ownership, before = self._ownership, {*self._ownership.neighbours(), suspect}
        certain, spans = poll.message.certain, tract_of(poll.message.extents)
        copy = poll.copy if certain else self._copies.held.get(suspect)
        # Extents in transit are not the dead owner's to lose.
        given = [claim for each in poll.votes for claim in each.in_transit]
        best = OwnershipMap()
        for each in (
            *poll.message.extents,
            *poll.claims,
            *given,
            *ownership.claim_map.claims.values(),
        ):
            best.learn(each)
        if copy is not None:
            self._offer_taken(suspect, copy, best, spans)
        if not (certain or given):
            self._copies.drop(suspect)  # else it may still be needed when the handoff has ended
        claims = _claimable(suspect, poll, best, spans)
        if claims:
            self._claim(suspect, claims, poll, copy, before)

    def _claim(
        self,
        suspect: Address,
        claims: list[OwnershipClaim],
        poll: DeathPoll,
        copy: BackupCopy | None,
        before: set[Address],
    ) -> None:
        """Claim these extents of a dead owner, with the items of the copy and of the votes."""
        tract, store = tract_of(claims), self._store
        number = self._claiming.claim(claims, suspect)
        self._exchange.learn_claims(poll.claims)
        if copy is not None:
            before.update(claim.owner for claim, _ in copy.around)
            self._exchange.learn_around(copy.around)
            store.accept(copy.within(tract), tract)
        store.accept(tuple(item for each in poll.votes for item in each.items), tract)
        known = tract_of(copy.claims) if copy is not None and not copy.awaited else EMPTY
        lacking = EMPTY if any(each.whole for each in poll.votes) else subtract(tract, known)
        self._claiming.commit_later(number, PendingTakeover(tract, lacking), before)

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
            self._store.accept(copy.within(taken), taken)
            self._store.on_tract_lost(taken)

    @handles(CommitDue)
    def on_commit_due(self, due: CommitDue) -> None:
        self._claiming.on_due(due)


def _claimable(
    suspect: Address, poll: DeathPoll, best: OwnershipMap, spans: Tract
) -> list[OwnershipClaim]:
    """Claims of a dead owner that no better one beats."""
    claims = [each for each in best.of(suspect) if intersect((each.low, each.high), spans)]
    if not poll.message.certain:
        return claims
    # The new incarnation may own extents of the old one already.
    old = poll.message.extents
    return [
        each
        for each in claims
        if any(each.epoch == one.epoch and overlap(each, one) for one in old)
    ]
