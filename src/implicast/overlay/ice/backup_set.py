"""Owner side of replication: the backup set, peers that hold a complete copy of this owner's items.

An owner chooses its backups among its neighbours, sends each a snapshot (`BackupSnapshot`), and
then every change (`BackupDelta`). A batch is *complete* when every backup, and the peer that is
receiving a snapshot, has acknowledged it; only then may the store report anything as durable. An
owner that none of its backups has acknowledged for `suspect_after_us` is *unconfirmed* and answers
nothing, so that it has stopped answering before any peer takes over its extents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from implicast.overlay.ice.backup_copies import BackupCopies
from implicast.overlay.ice.backup_copy import (
    BackupDelta,
    BackupSnapshot,
    ChunkedTransfer,
    DeltaAck,
    NoBackupCopy,
    SnapshotAck,
    split_into_parts,
)
from implicast.overlay.ice.item_store import Item
from implicast.overlay.ice.members import NEVER_US, Members
from implicast.overlay.ice.ownership import TAKEN_OVER, Ownership
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Part, handles
from implicast.peer.requests import AbstractRequests, PendingRequest


@dataclass(slots=True)
class OutgoingSnapshot(ChunkedTransfer):
    """A snapshot on its way to a peer that will become a backup."""

    to: Address
    serial: int


class BackupSet(Part):
    """The backups of this owner, and the batches that wait for their acks; on the other side, the
    messages for this peer's copies.
    """

    __slots__ = (
        "_batches",
        "_first_sender",
        "_members",
        "_numbers",
        "_on_changed",
        "_on_confirmed",
        "_outgoing",
        "_ownership",
        "_requests",
        "_store",
        "_timers",
        "_unconfirmed_after_us",
        "acked_us",
        "backups",
        "copies",
        "serial",
    )

    def __init__(
        self,
        site: SurfaceSite,
        requests: AbstractRequests,
        ownership: Ownership,
        members: Members,
        copies: BackupCopies,
        on_changed: Callable[[list[Address]], None],
        on_confirmed: Callable[[], None],
    ) -> None:
        """`on_changed` is called with the former backups when the set changes, `on_confirmed` when
        backups acknowledge this peer again.
        """
        super().__init__(site.address, site.host)
        self._timers, self._store, self._numbers = site.settings.timers, site.store, site.numbers
        self._requests, self._ownership, self._members = requests, ownership, members
        self.copies, self._on_changed, self._on_confirmed = copies, on_changed, on_confirmed
        self._unconfirmed_after_us = (
            self._timers.suspect_after_us if site.settings.monitored else NEVER_US
        )
        self.backups: tuple[Address, ...] = ()
        self.acked_us = self.host.now_us
        """Newest timestamp of this peer that a backup has acknowledged."""
        self._batches: dict[int, tuple[set[Address], Callable[[], None]]] = {}
        """Pending batches: the peers whose acks are missing, and the callback on completion."""
        self.serial = 0
        """Serial of the last write; orders all messages to the backups."""
        self._outgoing: OutgoingSnapshot | None = None
        self._first_sender: Address | None = None
        requests.topic(
            "snapshot",
            self._timers.retry_policy(self._timers.tries_snapshot),
            self._on_snapshot_lost,
        )
        requests.topic(
            "delta", self._timers.retry_policy(self._timers.tries_delta), self._on_delta_lost
        )

    @property
    def receivers(self) -> tuple[Address, ...]:
        """The backups, and the peer that is receiving a snapshot."""
        return self.backups if self._outgoing is None else (*self.backups, self._outgoing.to)

    def new_backups(self) -> tuple[Address, ...]:
        """Peers that will become backups: the receiver of a snapshot, or the sender of the first
        extent, which has the items that it handed off.
        """
        if self._outgoing is not None:
            return (self._outgoing.to,)
        none = self._first_sender is None or self.backups
        return () if none else (self._first_sender,)  # type: ignore[return-value]

    def note_handoff_from(self, sender: Address | None) -> None:
        """A handoff from this peer is prepared; None: it has ended."""
        self._first_sender = sender

    def backups_with(self, sender: Address) -> tuple[Address, ...]:
        """The backups; without any, the sender of the first extent."""
        return self.backups or (sender,)

    def begin_with(self, sender: Address, acked_us: int) -> bool:
        """The sender of the first extent becomes the first backup; false if none is wanted."""
        self.set_backups((sender,), acked_us)
        return True

    def set_backups(self, backups: tuple[Address, ...], acked_us: int) -> None:
        """These peers have a complete copy, acknowledged at this time."""
        self.backups, self.acked_us = backups, max(self.acked_us, acked_us)
        for backup in backups:
            self._members.state_of(backup).note_ack(acked_us)

    def is_lacking(self) -> bool:
        """True if there are fewer backups than there should be."""
        return len(self.backups) < self._timers.backups

    @property
    def pending_batches(self) -> int:
        return len(self._batches)

    def holdings(self) -> tuple[object, ...]:
        """The backup set and held backup copies, to be encoded."""
        return self.backups, self.copies.holdings()

    def clear(self) -> None:
        """Every extent is lost to other owners."""
        self.backups = ()
        self._end_snapshot()
        self._batches.clear()

    # --- confirmation by backups

    @property
    def is_unconfirmed(self) -> bool:
        """True if no backup has acknowledged this peer for `suspect_after_us`: another peer may be
        about to take over.
        """
        late = self.host.now_us - self.acked_us > self._unconfirmed_after_us
        return late and bool(self._ownership.others)

    def on_ack(self, backup: Address, stamp_us: int, has_copy: bool) -> None:
        if backup not in self.backups:
            return
        state = self._members.state_of(backup)
        if has_copy:
            state.note_ack(stamp_us)
            self._on_acked(stamp_us)
        elif stamp_us > state.acked_us:  # else the ack was sent before the backup had the copy
            self.drop_backup(backup)

    def _on_acked(self, stamp_us: int) -> None:
        if stamp_us <= self.acked_us:
            return
        doubtful = self.is_unconfirmed
        self.acked_us = stamp_us
        if doubtful and not self.is_unconfirmed:
            self._on_confirmed()
            self._complete_batches()

    # --- choice of backups

    def choose_backups(self) -> None:
        """At each tick: replace backups that are silent, leaving or no longer neighbours, one at a
        time.
        """
        ownership = self._ownership
        if not ownership.others:
            self.acked_us = self.host.now_us
        if sum(map(self._is_eligible, self.backups)) >= self._timers.backups:
            return
        # Batches do not wait for a backup that has been suspect for long.
        for backup in self.backups:
            since_us = self._members.state_of(backup).suspect_since_us
            if (since_us >= 0 and self.host.now_us - since_us > self._timers.give_up_us) or (
                self._is_departing(backup) and len(self.backups) > 1
            ):
                self.drop_backup(backup)
        outgoing = self._outgoing
        if outgoing is not None and not (
            self._requests.open("snapshot", outgoing.number) and self._is_eligible(outgoing.to)
        ):
            # the request table was full, or the receiver fell silent: choose another
            self._end_snapshot()
        if self._outgoing is None and (ownership.committed or ownership.of_status(TAKEN_OVER)):
            candidates = [
                each
                for each in ownership.neighbours()
                if each not in self.backups and self._is_eligible(each)
            ]
            if candidates:
                largest = min(ownership.extents, key=lambda claim: (claim.bits, claim.low))
                self._send_snapshot_to(
                    min(candidates, key=lambda each: ownership.preference(largest, each))
                )

    def _is_eligible(self, peer: Address) -> bool:
        state = self._members.states.get(peer)
        return (
            state is not None
            and state.suspect_since_us < 0
            and not state.leaving
            and peer in self._ownership.neighbours()
        )

    def _is_departing(self, peer: Address) -> bool:
        """True if a leaving peer has handed off all its extents and is about to be gone."""
        return self._members.state_of(peer).leaving and peer not in self._ownership.neighbours()

    def drop_backup(self, peer: Address) -> None:
        """A peer does not have its copy: remove it from the backup set, or stop its snapshot."""
        if self._outgoing is not None and peer == self._outgoing.to:
            self._end_snapshot()
        if peer in self.backups:
            self.backups = tuple(each for each in self.backups if each != peer)
            self._stop_waiting_for(peer)
            self._on_changed([peer])
            self._complete_batches()

    def _stop_waiting_for(self, peer: Address) -> None:
        """Batches stop waiting for this peer."""
        for number, (waiting, _) in self._batches.items():
            waiting.discard(peer)
            self._requests.drop("delta", (number, peer))

    # --- snapshots

    def _send_snapshot_to(self, peer: Address) -> None:
        self.serial += 1
        parts = split_into_parts(self._store.pack(self._ownership.tract), self._timers.part_bytes)
        self._outgoing = OutgoingSnapshot(self._numbers.next(), parts, peer, self.serial)
        self._send_snapshot_part(self._outgoing)

    def _send_snapshot_part(self, outgoing: OutgoingSnapshot) -> None:
        snapshot = BackupSnapshot(
            outgoing.number,
            outgoing.at,
            len(outgoing.parts),
            outgoing.serial,
            self.host.now_us,
            self._ownership.version,
            tuple(self._ownership.extents),
            self.receivers,
            self._members.with_backups(self._ownership.others),
            outgoing.parts[outgoing.at],
        )
        self._requests.ask("snapshot", outgoing.number, outgoing.to, snapshot)

    def _on_snapshot_lost(self, key: Any, question: PendingRequest) -> None:
        self._members.suspect(question.to)
        self._end_snapshot()

    def _end_snapshot(self) -> None:
        outgoing, self._outgoing = self._outgoing, None
        if outgoing is not None:
            self._requests.drop("snapshot", outgoing.number)
            self._stop_waiting_for(outgoing.to)
            self._complete_batches()

    @handles(SnapshotAck)
    def on_snapshot_ack(self, sender: Address, ack: SnapshotAck) -> None:
        self._members.heard_from(sender)
        outgoing = self._outgoing
        acked = (sender, ack.number, ack.part)
        if outgoing is None or acked != (outgoing.to, outgoing.number, outgoing.at):
            return
        self._requests.answered("snapshot", ack.number)
        if outgoing.next_part():
            self._send_snapshot_part(outgoing)
        else:
            self.add_backup(sender, ack.stamp_us)

    def add_backup(self, peer: Address, stamp_us: int) -> None:
        """The snapshot is complete. Ineligible backups are removed as far as they are replaced."""
        self._outgoing = None
        staying = sorted(self.backups, key=lambda each: not self._is_eligible(each))[
            : self._timers.backups - 1
        ]
        gone = [each for each in self.backups if each not in staying]
        self.backups = (*staying, peer)
        for each in gone:
            self._stop_waiting_for(each)
        self._members.state_of(peer).note_ack(stamp_us)
        self._on_acked(stamp_us)
        self._on_changed(gone)
        self._complete_batches()

    # --- batches

    def replicate(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        """Replicate items to all backups; `then` is called on completion. False: too many batches
        are pending.
        """
        timers = self._timers
        if (
            len(self._batches) >= timers.batches_max
            or len(self._requests) + timers.backups >= timers.requests_max
        ):
            return False
        self.serial += 1
        number = self._numbers.next()
        self._batches[number] = set(self.receivers), then
        extents = tuple(self._ownership.extents)
        delta = BackupDelta(
            number, self.serial, self.host.now_us, self._ownership.version, extents, items
        )
        for peer in self.receivers:
            self._requests.ask("delta", (number, peer), peer, delta)
        self._complete_batches()
        return True

    def _on_delta_lost(self, key: Any, question: PendingRequest) -> None:
        self._members.suspect(question.to)
        self.drop_backup(question.to)

    @handles(DeltaAck)
    def on_delta_ack(self, sender: Address, ack: DeltaAck) -> None:
        self._members.heard_from(sender)
        batch = self._batches.get(ack.number)
        self._requests.answered("delta", (ack.number, sender))
        self.on_ack(sender, ack.stamp_us, True)
        if batch is not None:
            batch[0].discard(sender)
            self._complete_if_acked(ack.number)

    @handles(NoBackupCopy)
    def on_no_backup_copy(self, sender: Address, none: NoBackupCopy) -> None:
        self._members.heard_from(sender)
        self.drop_backup(sender)  # if a delta overtook its snapshot, a new snapshot will contain it

    def _complete_batches(self) -> None:
        for number in list(self._batches):
            self._complete_if_acked(number)

    def _complete_if_acked(self, number: int) -> None:
        """Complete this batch if all acks have arrived."""
        batch, alone = self._batches.get(number), not self._ownership.others
        if (
            batch is not None
            and not batch[0]
            and (self.backups or alone)
            and not self.is_unconfirmed
        ):
            del self._batches[number]
            batch[1]()

    # --- the other side

    @handles(BackupSnapshot)
    def on_snapshot(self, sender: Address, snapshot: BackupSnapshot) -> None:
        self.copies.on_snapshot(sender, snapshot)

    @handles(BackupDelta)
    def on_delta(self, sender: Address, delta: BackupDelta) -> None:
        self.copies.on_delta(sender, delta)


class Unreplicated(BackupSet):
    """Form without assurance: an owner has no backups, and a batch is complete at once."""

    __slots__ = ()

    def replicate(self, items: tuple[Item, ...], then: Callable[[], None]) -> bool:
        then()
        return True

    def backups_with(self, sender: Address) -> tuple[Address, ...]:
        return ()

    def begin_with(self, sender: Address, acked_us: int) -> bool:
        return False

    def is_lacking(self) -> bool:
        return False

    def holdings(self) -> tuple[object, ...]:
        return ()
