"""One backup copy, and items on their way in parts: plain values."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from implicast.overlay.ice.item_store import Item, Number, StateVersion
from implicast.overlay.ice.messages import (
    Backups,
    Claims,
    Heartbeat,
    Items,
    Neighbour,
    OwnershipClaim,
    PartNumber,
    Surroundings,
)
from implicast.overlay.ice.ownership_map import tract_of
from implicast.peer.contract import Address, Message
from implicast.peer.fields import Micros
from implicast.space.tract import Tract, intersect


class BackupSnapshot(Message):
    """One part of an owner's complete state, for a peer that becomes its backup."""

    wire = 0x090D
    number: Number
    part: PartNumber
    parts: PartNumber
    serial: Number
    stamp_us: Micros
    version: StateVersion
    claims: Claims
    backups: Backups
    around: Surroundings
    items: Items


class SnapshotAck(Message):
    """Acknowledges one part of a snapshot."""

    wire = 0x090E
    number: Number
    part: PartNumber
    stamp_us: Micros


class BackupDelta(Message):
    """Changes of an owner's items since its snapshot."""

    wire = 0x090F
    number: Number
    serial: Number
    stamp_us: Micros
    version: StateVersion
    claims: Claims
    items: Items


class DeltaAck(Message):
    """The backup has stored a delta."""

    wire = 0x0910
    number: Number
    stamp_us: Micros


class NoBackupCopy(Message):
    """The backup has no copy to which a delta could be applied."""

    wire = 0x0911
    number: Number


@dataclass(slots=True)
class ChunkedTransfer:
    """Items on their way to another peer, sent part by part."""

    number: int
    parts: list[tuple[Item, ...]]
    at: int = field(default=0, kw_only=True)

    def next_part(self) -> bool:
        """Advance to the next part; false if all have been sent."""
        more = self.at + 1 < len(self.parts)
        self.at += more
        return more


@dataclass(slots=True)
class BackupCopy:
    """Backup copy of one owner's items."""

    number: int
    """Number of the snapshot that the copy began with."""
    claims: tuple[OwnershipClaim, ...]
    backups: tuple[Address, ...]
    around: tuple[Neighbour, ...]
    stamp_us: int
    """By the owner's clock: time of its last message about the copy."""
    version: int = -1
    awaited: set[int] = field(default_factory=set)
    """Parts of the snapshot that have not arrived yet."""
    items: dict[bytes, tuple[int, Item]] = field(default_factory=dict)
    """Serial and item by key; the larger serial is the later write."""
    serial: int = -1
    """Largest serial received."""
    denied_us: int = -1
    """Since when the owner's heartbeats have had smaller versions than this copy; -1: they have
    not.
    """
    purged_serial: int = -1  # all writes up to this serial have arrived, or never will

    def apply_delta(self, delta: BackupDelta, items: Iterable[Item]) -> None:
        """Apply changes of the owner."""
        # the delta may be older than a heartbeat
        self.stamp_us = max(self.stamp_us, delta.stamp_us)
        if delta.version >= self.version:
            self.version, self.claims = delta.version, delta.claims
        self.put(delta.serial, items)

    def apply_heartbeat(self, heartbeat: Heartbeat, as_backup: bool) -> None:
        """The owner's heartbeat names this peer as a backup."""
        self.version, self.stamp_us, self.denied_us = heartbeat.version, heartbeat.stamp_us, -1
        self.backups = heartbeat.backups if as_backup else self.backups
        self.around = heartbeat.around or self.around
        if self.claims != (*heartbeat.extents, *heartbeat.provisional):
            self.claims = (*heartbeat.extents, *heartbeat.provisional)
            # The owner has given up all other extents.
            tract, items = tract_of(self.claims), self.items.items()
            self.items = {
                key: entry
                for key, entry in items
                if intersect((entry[1].low, entry[1].high), tract)
            }

    def is_denied(self, now_us: int, late_us: int) -> bool:
        """The owner's heartbeat has a smaller version. Versions only increase and no message is
        delayed for longer than `late_us`: if this lasts, the copy was forged.
        """
        self.denied_us = now_us if self.denied_us < 0 else self.denied_us
        return now_us - self.denied_us > late_us

    def put(self, serial: int, items: Iterable[Item]) -> None:
        """Record a write of the owner; items outside its extents are ignored."""
        self.serial = max(self.serial, serial)
        spans, known = [(each.low, each.high) for each in self.claims], self.items
        for item in items:
            later = known.get(item.key, (serial,))[0] <= serial
            if later and [low for low, high in spans if item.low < high and low < item.high]:
                known[item.key] = (serial, item)

    def add_extent(self, claim: OwnershipClaim, items: Iterable[Item], stamp_us: int) -> None:
        """The owner received this extent in a handoff at that time, and has not written to the
        items since.
        """
        self.stamp_us = max(self.stamp_us, stamp_us)
        self.claims = (*(each for each in self.claims if each.low != claim.low), claim)
        for item in items:
            self.items.setdefault(item.key, (-1, item))

    def purge_deleted(self) -> None:
        """Remove deleted items whose deletion had arrived by the previous call."""
        self.items = {
            key: entry
            for key, entry in self.items.items()
            if entry[1].body or entry[0] > self.purged_serial
        }
        self.purged_serial = self.serial

    def rank_of(self, backup: Address) -> int | None:
        """Position of a peer in the owner's backup set; None unless it is in it and the copy is
        complete.
        """
        if self.awaited or backup not in self.backups:
            return None
        return self.backups.index(backup)

    def within(self, tract: Tract) -> tuple[Item, ...]:
        """The items, without deleted ones, that lie in a tract."""
        return tuple(
            item
            for _, item in self.items.values()
            if item.body and intersect((item.low, item.high), tract)
        )


def split_into_parts(items: tuple[Item, ...], bytes_max: int) -> list[tuple[Item, ...]]:
    """Split items into parts of at most `bytes_max` bytes; at least one part."""
    parts: list[tuple[Item, ...]] = []
    part: list[Item] = []
    length = 0
    for item in items:
        weight = 32 + len(item.key) + len(item.body)
        if part and length + weight > bytes_max:
            parts.append(tuple(part))
            part, length = [], 0
        part.append(item)
        length += weight
    return [*parts, tuple(part)]
