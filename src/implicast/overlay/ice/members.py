"""Members: the known state of every peer that matters to this one, which are suspect and which are
lost.

A suspect is not declared dead. It is only avoided as a next hop while another neighbour will do,
until any message arrives from it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.messages import Heartbeat, Neighbour, OwnershipClaim
from implicast.overlay.ice.state import NeighbourState
from implicast.overlay.ice.surface_site import SurfaceSite
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


class Members:
    """Membership table: alive, suspect and lost peers."""

    __slots__ = (
        "_host",
        "_on_changed",
        "_on_partition_healed",
        "_recovered_us",
        "_timers",
        "check_us",
        "lost",
        "states",
    )

    def __init__(
        self,
        site: SurfaceSite,
        on_changed: Callable[[], None],
        on_partition_healed: Callable[[], None],
    ) -> None:
        """`on_changed` is called when a peer becomes suspect, or is suspect no longer."""
        self._host, self._timers = site.host, site.settings.timers
        self._on_changed, self._on_partition_healed = on_changed, on_partition_healed
        self.states: dict[Address, MemberState] = {}
        self.lost: Recent[Address, tuple[int, int]] = Recent(self._timers.lost_max)
        """Peers that fell silent: since when, and when the next probe is due."""
        self._recovered_us = -PARTITION_HEALED_US
        """When a peer that had been given up was last heard again."""
        self.check_us = -1
        """Before this time no heartbeat is due and no neighbour is silent for too long, unless
        `check_by` moves it forward.
        """

    def state_of(self, peer: Address) -> MemberState:
        """State of a peer; a new one begins now."""
        state = self.states.get(peer)
        if state is None:
            state = self.states[peer] = MemberState(
                self._host.now_us, heartbeat_due_us=self._host.now_us
            )
        return state

    def restore(self, neighbours: Collection[NeighbourState], backups: Collection[Address]) -> None:
        """Know these peers as if they had just been heard, and had just acknowledged this peer as
        far as they are its backups.
        """
        now_us = self._host.now_us
        for each in neighbours:
            state = self.states[each.peer] = MemberState(
                now_us,
                now_us,
                now_us,
                each.version,
                now_us,
                each.backups,
                heartbeat_due_us=each.heartbeat_due_us,
                acked_us=now_us if each.peer in backups else -1,
            )
            state.add_round_trip(each.round_trip_us)

    def state(self) -> tuple[NeighbourState, ...]:
        """The known peers, to be restored elsewhere."""
        return tuple(
            NeighbourState(
                peer, each.version, each.backups, each.round_trip_us, each.heartbeat_due_us
            )
            for peer, each in self.states.items()
        )

    def is_new_incarnation(self, peer: Address, born_us: int) -> bool:
        """True if a later incarnation runs at the address, so that the known one is dead."""
        state = self.states.get(peer)
        return state is not None and 0 <= state.born_us < born_us

    def restart_member(self, peer: Address, born_us: int) -> None:
        """A later incarnation replaces the known one, of which only the round-trip time is kept."""
        before, now_us = self.states[peer], self._host.now_us
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
        self._on_changed()

    def backups_of(self, owner: Address) -> tuple[Address, ...]:
        state = self.states.get(owner)
        return state.backups if state is not None else ()

    def with_backups(self, claims: Iterable[OwnershipClaim]) -> tuple[Neighbour, ...]:
        """Claims, each with its owner's backups: what a backup needs to take over."""
        backups_of = self.backups_of
        return tuple([(each, backups_of(each.owner)) for each in claims])

    def heard_from(self, peer: Address) -> None:
        """Any message is a sign of life."""
        state = self.states.get(peer)
        if state is not None and state.on_heard(self._host.now_us):
            self._on_changed()
        if self.lost:
            lost = self.lost.pop(peer, None)
            if lost is not None:
                self._on_recovered(lost[0])

    def _on_recovered(self, since_us: int) -> None:
        """A lost peer was heard again. Where one peer was cut off others may have been, so all lost
        peers are probed at the next tick. Two recoveries of given-up peers within
        `PARTITION_HEALED_US` count as the end of a partition.
        """
        now_us = self._host.now_us
        for each, (since, due_us) in self.lost.items():
            self.lost[each] = (since, min(due_us, now_us))
        if now_us - since_us > self._timers.dead_after_us:
            if now_us - self._recovered_us < PARTITION_HEALED_US:
                self._on_partition_healed()
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
        return self._host.now_us - max(state.heard_us, state.since_us)

    def is_heard(self, peer: Address, within_us: int) -> bool:
        state = self.states.get(peer)
        return state is not None and self._host.now_us - state.heard_us <= within_us

    def is_suspect(self, peer: Address) -> bool:
        state = self.states.get(peer)
        return state is not None and state.suspect_since_us >= 0

    def suspect(self, peer: Address) -> bool:
        """A peer did not answer; true if it is suspect now."""
        state = self.state_of(peer)
        if state.suspect_since_us < 0:
            state.suspect(self._host.now_us)
            self.check_by(self._host.now_us)
            self._on_changed()
        self.lost.once(peer, (self._host.now_us, self._host.now_us + self._timers.probe_lost_us))
        return True

    def on_unanswered(self, key: Any, question: PendingRequest) -> None:
        """A request was given up."""
        self.suspect(question.to)

    def check_by(self, time_us: int) -> None:
        """Look at the neighbours again by this time."""
        if time_us < self.check_us:
            self.check_us = time_us

    def begin_check(self) -> None:
        """The neighbours are being looked at: nothing is due until `check_by` says when."""
        self.check_us = NEVER_US

    def heard_since(self, since_us: int) -> list[Address]:
        """Peers that were heard after this time."""
        return [each for each, state in self.states.items() if state.heard_us > since_us]

    def has_silent(self, within_us: int) -> bool:
        """Whether a peer fell silent within this time and has not been heard since."""
        since_us = self._host.now_us - within_us
        return any(each > since_us for each, _ in self.lost.values())

    def due_probes(self, longest_us: int) -> list[Address]:
        """Lost peers to be probed now, at pauses that grow with their silence up to `longest_us`:
        they may have recovered, or a partition healed.
        """
        if not self.lost:
            return []
        timers, now_us, due = self._timers, self._host.now_us, list[Address]()
        for peer, (since_us, due_us) in list(self.lost.items()):
            if now_us - since_us > timers.forget_lost_us:
                del self.lost[peer]
            elif now_us >= due_us:
                pause_us = min(max(timers.probe_lost_us, (now_us - since_us) // 4), longest_us)
                self.lost[peer] = (since_us, now_us + pause_us)
                due.append(peer)
        return due

    def reset_silence(self) -> None:
        """This process was suspended: ignore silence before now."""
        for state in self.states.values():
            state.count_silence_from(self._host.now_us)

    def evict_strangers(self, near: Collection[Address]) -> None:
        """Evict states of peers that are not near, those heard longest ago first."""
        if len(self.states) <= self._timers.members_max:
            return
        strangers = sorted(
            (each for each in self.states if each not in near and each not in self.lost),
            key=lambda each: self.states[each].heard_us,
        )
        for each in strangers[: max(0, len(self.states) - self._timers.members_max // 2)]:
            del self.states[each]


class Everyone(Members):
    """Members of a surface without failure detection: no peer is ever suspect, since no heartbeat
    would clear the suspicion.
    """

    __slots__ = ()

    def suspect(self, peer: Address) -> bool:
        return False

    def heard_since(self, since_us: int) -> list[Address]:
        return []
