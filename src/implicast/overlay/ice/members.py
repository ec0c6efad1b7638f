"""Members: the known state of every peer that matters to this one, which are suspect and which are
lost.

A suspect is not declared dead. It is only avoided as a next hop while another neighbour will do,
until any message arrives from it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.messages import Heartbeat
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address
from implicast.peer.memory import Recent
from implicast.peer.requests import PendingRequest

PARTITION_HEALED_US = 10_000_000
"""Lost peers that are heard again within this time of each other were cut off by the same
partition.
"""
NEVER_US = 1 << 62
UNKNOWN_US = 50_000.0
"""Latency assumed for a neighbour that has not been measured yet."""


@dataclass(slots=True)
class MemberState:
    """Known state of one peer."""

    since_us: int
    """Silence is counted from this time at the earliest."""
    born_us: int = -1
    """Start of its incarnation by its own clock; -1: unknown."""
    heard_us: int = -1
    """When its last message arrived; -1: none yet."""
    version: int = -1
    confirmed_us: int = -1
    """When it last confirmed this version."""
    backups: tuple[Address, ...] = ()
    leaving: bool = False
    suspect_since_us: int = -1
    """Since when it is suspect; -1: it is not."""
    heartbeat_due_us: int = 0
    """When the next heartbeat to it is due."""
    acked_us: int = -1
    """Newest timestamp of this peer that it has acknowledged as a backup."""
    dismissed_us: int = -1
    """By its own clock: when it last declared that this peer is not its backup."""
    dismissal_heard_us: int = -1
    """By this peer's clock: when that declaration arrived."""
    withhold_until_us: int = -1
    """Until this time it gets no acks as an owner, because this peer has voted that it is silent.
    """
    outdated: bool = False
    """The known state may be outdated: the full state is requested until a heartbeat arrives."""
    state_requested_us: int = -1
    """When its full state was last requested."""
    round_trip_us: int = 0
    """Smoothed round-trip time; 0: unknown."""

    def add_round_trip(self, sample_us: int) -> None:
        self.round_trip_us = (
            self.round_trip_us + (sample_us - self.round_trip_us) // 8
            if self.round_trip_us
            else max(1, sample_us)
        )

    def on_heard(self, now_us: int) -> bool:
        """A message arrived; true if the peer was suspect."""
        self.heard_us = now_us
        if self.suspect_since_us < 0:
            return False
        self.suspect_since_us = -1
        return True

    def suspect(self, now_us: int) -> None:
        self.suspect_since_us = now_us

    def count_silence_from(self, now_us: int) -> None:
        """Ignore silence before this time."""
        self.since_us = now_us

    def heartbeat_at(self, heartbeat_due_us: int) -> None:
        self.heartbeat_due_us = heartbeat_due_us

    def confirm(self, now_us: int) -> None:
        """It confirmed the known version."""
        self.confirmed_us = now_us

    def apply_heartbeat(self, heartbeat: Heartbeat, now_us: int) -> None:
        """Adopt the state in its heartbeat."""
        self.outdated, self.born_us, self.confirmed_us = False, heartbeat.born_us, now_us
        self.version, self.backups, self.leaving = (
            heartbeat.version,
            heartbeat.backups,
            heartbeat.leaving,
        )

    def set_backups(self, backups: tuple[Address, ...]) -> None:
        self.backups = backups

    def may_request_state(self, now_us: int, pause_us: int) -> bool:
        """Mark the state as outdated; true if a request for the full state is due."""
        self.outdated = True
        if now_us - self.state_requested_us <= pause_us:
            return False
        self.state_requested_us = now_us
        return True

    def note_ack(self, stamp_us: int) -> None:
        """It acknowledged this timestamp."""
        if stamp_us > self.acked_us:
            self.acked_us = stamp_us

    def dismiss(self, stamp_us: int, now_us: int, late_us: int) -> None:
        """It declared at `stamp_us` by its clock that this peer is not its backup."""
        if stamp_us > self.dismissed_us or now_us - self.dismissal_heard_us > late_us:
            self.dismissed_us, self.dismissal_heard_us = stamp_us, now_us

    def is_dismissed(self, stamp_us: int, now_us: int, late_us: int) -> bool:
        """True if a snapshot of this time was sent before the declaration. No message is delayed
        for longer than `late_us`.
        """
        return stamp_us < self.dismissed_us and now_us - self.dismissal_heard_us <= late_us

    def withhold_acks(self, until_us: int) -> None:
        self.withhold_until_us = until_us


class Members(SurfacePart):
    """Membership table: alive, suspect and lost peers."""

    __slots__ = ("_calm", "_calm_us", "_recovered_us", "lost", "states")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.states: dict[Address, MemberState] = {}
        self.lost: Recent[Address, tuple[int, int]] = Recent(self.timers.lost_max)
        """Peers that fell silent: since when, and when the next probe is due."""
        self._recovered_us = -PARTITION_HEALED_US
        """When a peer that had been given up was last heard again."""
        self._calm_us = -1
        """Before this time no heartbeat is due and no neighbour is silent for too long, unless
        `check_by` moves it forward. Valid ...
        """
        self._calm: tuple[list[Address], tuple[Address, ...]] = ([], ())
        """... only while these are the neighbours and backups."""

    def state_of(self, peer: Address) -> MemberState:
        """State of a peer; a new one begins now."""
        state = self.states.get(peer)
        if state is None:
            state = self.states[peer] = MemberState(
                self.host.now_us, heartbeat_due_us=self.host.now_us
            )
        return state

    def restore_member(
        self,
        peer: Address,
        version: int,
        backups: tuple[Address, ...],
        round_trip_us: int,
        heartbeat_due_us: int,
    ) -> None:
        """Restore a neighbour of an assembled network, as if it had just been heard."""
        now_us, acked_us = (
            self.host.now_us,
            self.host.now_us if peer in self.surface.backups else -1,
        )
        state = self.states[peer] = MemberState(
            now_us,
            now_us,
            now_us,
            version,
            now_us,
            backups,
            heartbeat_due_us=heartbeat_due_us,
            acked_us=acked_us,
        )
        state.add_round_trip(round_trip_us)

    def is_new_incarnation(self, peer: Address, born_us: int) -> bool:
        """True if a later incarnation runs at the address, so that the known one is dead."""
        state = self.states.get(peer)
        return state is not None and 0 <= state.born_us < born_us

    def restart_member(self, peer: Address, born_us: int) -> None:
        """A later incarnation replaces the known one, of which only the round-trip time is kept."""
        before, now_us = self.states[peer], self.host.now_us
        self.states[peer] = MemberState(
            now_us,
            born_us,
            now_us,
            confirmed_us=now_us,
            dismissed_us=born_us,
            dismissal_heard_us=now_us,
            round_trip_us=before.round_trip_us,
        )
        self.lost.pop(peer, None)
        self.check_by(now_us)
        self.surface.routing.set_table()

    def backups_of(self, owner: Address) -> tuple[Address, ...]:
        state = self.states.get(owner)
        return state.backups if state is not None else ()

    def heard_from(self, peer: Address) -> None:
        """Any message is a sign of life."""
        state = self.states.get(peer)
        if state is not None and state.on_heard(self.host.now_us):
            self.surface.routing.set_table()
        if self.lost:
            lost = self.lost.pop(peer, None)
            if lost is not None:
                self._on_recovered(lost[0])

    def _on_recovered(self, since_us: int) -> None:
        """A lost peer was heard again. Where one peer was cut off others may have been, so all lost
        peers are probed at the next tick. Two recoveries of given-up peers within
        `PARTITION_HEALED_US` count as the end of a partition.
        """
        now_us = self.host.now_us
        for each, (since, due_us) in self.lost.items():
            self.lost[each] = (since, min(due_us, now_us))
        if now_us - since_us > self.timers.dead_after_us:
            if now_us - self._recovered_us < PARTITION_HEALED_US:
                self.surface.store.on_partition_healed()
            self._recovered_us = now_us

    def on_round_trip(self, peer: Address, round_trip_us: int) -> None:
        """Record a measured round trip."""
        state = self.states.get(peer)
        if state is not None:
            state.add_round_trip(round_trip_us)

    def latency_us(self, peer: Address) -> float:
        state = self.states.get(peer)
        return state.round_trip_us / 2 if state is not None and state.round_trip_us else UNKNOWN_US

    def silence_us(self, peer: Address) -> int:
        """How long a peer has been silent."""
        state = self.state_of(peer)
        return self.host.now_us - max(state.heard_us, state.since_us)

    def is_heard(self, peer: Address, within_us: int) -> bool:
        state = self.states.get(peer)
        return state is not None and self.host.now_us - state.heard_us <= within_us

    def is_suspect(self, peer: Address) -> bool:
        state = self.states.get(peer)
        return state is not None and state.suspect_since_us >= 0

    def suspect(self, peer: Address) -> None:
        """A peer did not answer. Ignored without assurance: no heartbeat would ever clear the
        suspicion.
        """
        if not self.surface.settings.assured:
            return
        state = self.state_of(peer)
        if state.suspect_since_us < 0:
            state.suspect(self.host.now_us)
            self.check_by(self.host.now_us)
            self.surface.routing.set_table()
        self.lost.once(peer, (self.host.now_us, self.host.now_us + self.timers.probe_lost_us))

    def on_unanswered(self, key: Any, question: PendingRequest) -> None:
        """A request was given up."""
        self.suspect(question.to)

    def check_by(self, time_us: int) -> None:
        """Look at the neighbours again by this time."""
        if time_us < self._calm_us:
            self._calm_us = time_us

    def check_neighbours(self) -> bool:
        """At each tick: send the heartbeats that are due, also to backups that have not acked for a
        period. Return true if a neighbour is silent, suspect or of outdated state. About two ticks
        in five end at the first test.
        """
        near, backups, now_us = (
            self.surface.ownership.neighbours(),
            self.surface.backup_set.backups,
            self.host.now_us,
        )
        if now_us < self._calm_us and self._calm[0] is near and self._calm[1] is backups:
            return False
        self._calm, self._calm_us = (near, backups), NEVER_US
        due, troubled = self._scan(near, now_us)
        heartbeat_us, known = self.timers.heartbeat_us, self.states
        for backup in backups:
            acked_us = (known.get(backup) or self.state_of(backup)).acked_us
            if acked_us + heartbeat_us <= now_us:
                due[backup] = None
            self.check_by(acked_us + heartbeat_us)
        if due:
            self._send_heartbeats(due)
            self.check_by(min([known[each].heartbeat_due_us for each in due]))
        if troubled:
            self.check_by(now_us)
            self._suspect_silent()
        return troubled

    def _scan(self, near: list[Address], now_us: int) -> tuple[dict[Address, None], bool]:
        """Neighbours whose heartbeat is due, and whether any of them needs attention."""
        due, troubled, suspect_after_us, known = (
            dict[Address, None](),
            False,
            self.timers.suspect_after_us,
            self.states,
        )
        silent_us, first_us, calm_us = now_us - suspect_after_us, now_us, NEVER_US
        for peer in near:
            state = known.get(peer) or self.state_of(peer)
            if state.outdated:
                self.surface.heartbeats.request_full_state(peer)
            heard_us, heartbeat_due_us = state.heard_us, state.heartbeat_due_us
            if (
                state.outdated
                or state.suspect_since_us >= 0
                or (heard_us < silent_us and state.since_us < silent_us)
            ):
                troubled = True
            if heartbeat_due_us <= now_us:
                due[peer] = None
            elif heartbeat_due_us < calm_us:
                calm_us = heartbeat_due_us
            if heard_us < first_us:
                first_us = heard_us
        self.check_by(min(calm_us, first_us + suspect_after_us))
        return due, troubled

    def _send_heartbeats(self, peers: Iterable[Address]) -> None:
        """Send heartbeats to those peers that have none pending."""
        is_open = self.surface.heartbeat_requests.open
        self.surface.heartbeats.send_to([each for each in peers if not is_open("heartbeat", each)])

    def _suspect_silent(self) -> None:
        """Suspect silent peers. Exchange heartbeats with the backups of suspects, which may take
        their place.
        """
        backups: dict[Address, None] = {}
        for peer in dict.fromkeys((*self.surface.ownership.neighbours(), *self.surface.backups)):
            if not self.is_suspect(peer) and self.silence_us(peer) > self.timers.suspect_after_us:
                self.suspect(peer)
            if self.is_suspect(peer):
                backups.update(dict.fromkeys(self.backups_of(peer)))
        backups.pop(self.address, None)
        self._send_heartbeats(
            each for each in backups if self.state_of(each).heartbeat_due_us <= self.host.now_us
        )

    def has_silent(self, within_us: int) -> bool:
        """Whether a peer fell silent within this time and has not been heard since."""
        since_us = self.host.now_us - within_us
        return any(each > since_us for each, _ in self.lost.values())

    def probe_lost(self) -> None:
        """Probe lost peers, at pauses that grow with their silence: they may have recovered, or a
        partition healed. A peer with few neighbours is in a small surface, perhaps one that was cut
        off from a larger one, and has little other upkeep: its pauses are shorter.
        """
        timers, now_us = self.timers, self.host.now_us
        longest_us = timers.probe_lost_us * max(1, len(self.surface.ownership.neighbours()))
        for peer, (since_us, due_us) in list(self.lost.items()) if self.lost else ():
            if now_us - since_us > timers.forget_lost_us:
                del self.lost[peer]
            elif now_us >= due_us:
                pause_us = min(max(timers.probe_lost_us, (now_us - since_us) // 4), longest_us)
                self.lost[peer] = (since_us, now_us + pause_us)
                if not self.surface.heartbeat_requests.open("heartbeat", peer):
                    self.host.send(peer, self.surface.heartbeats.heartbeat_for(peer))

    def reset_silence(self) -> None:
        """This process was suspended: ignore silence before now."""
        for state in self.states.values():
            state.count_silence_from(self.host.now_us)

    def evict_strangers(self) -> None:
        """Evict states of peers that are of no concern, those heard longest ago first."""
        if len(self.states) <= self.timers.members_max:
            return
        surface = self.surface
        near = {
            *surface.ownership.neighbours(),
            *surface.backups,
            *surface.backup_copies.held,
            *self.lost,
        }
        strangers = sorted(
            (each for each in self.states if each not in near),
            key=lambda each: self.states[each].heard_us,
        )
        for each in strangers[: max(0, len(self.states) - self.timers.members_max // 2)]:
            del self.states[each]
