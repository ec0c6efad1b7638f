"""Backup side of replication: the complete copies of other owners' items that this peer holds.

An owner numbers its writes with a serial; whatever their order of arrival, the larger serial wins.
A copy ends when its owner's heartbeat no longer names this peer, and a late repeat of the snapshot
does not restore it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from implicast.overlay.ice.item_store import Item, check_items
from implicast.overlay.ice.messages import (
    BackupDelta,
    BackupSnapshot,
    DeltaAck,
    Heartbeat,
    Neighbour,
    NoBackupCopy,
    OwnershipClaim,
    SnapshotAck,
)
from implicast.overlay.ice.ownership_map import tract_of
from implicast.overlay.ice.surface_part import IceSurface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.errors import RemoteError
from implicast.space.tract import Tract, intersect


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


class BackupCopies(SurfacePart):
    """Holds backup copies for other owners."""

    __slots__ = ("_purged_us", "held")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface)
        self.held: dict[Address, BackupCopy] = {}
        self._purged_us = self.host.now_us

    @handles(BackupSnapshot)
    def on_snapshot(self, sender: Address, snapshot: BackupSnapshot) -> None:
        if snapshot.part >= snapshot.parts:
            raise RemoteError(f"snapshot part {snapshot.part} must be below {snapshot.parts}")
        check_items(snapshot.items)
        members = self.surface.members
        state = members.state_of(sender)
        members.heard_from(sender)
        copy = self.held.get(sender)
        if copy is None or copy.number < snapshot.number:
            full = copy is None and len(self.held) >= self.timers.copies_max
            if full or state.is_dismissed(
                snapshot.stamp_us, self.host.now_us, self.timers.suspect_after_us
            ):
                return  # a late repeat must not restore a copy that has ended
            # A delta may overtake its snapshot and be applied to an older copy, which the snapshot
            # then replaces.
            old = copy.items if copy is not None else {}
            newer = {key: entry for key, entry in old.items() if entry[0] > snapshot.serial}
            awaited = set(range(snapshot.parts))
            copy = self.held[sender] = BackupCopy(
                snapshot.number,
                snapshot.claims,
                snapshot.backups,
                snapshot.around,
                snapshot.stamp_us,
                snapshot.version,
                awaited,
                newer,
            )
        if copy.number == snapshot.number:
            copy.awaited.discard(snapshot.part)
            copy.put(snapshot.serial, filter(self.surface.store.can_decode, snapshot.items))
        stamp_us = self.ack_stamp(sender, snapshot.stamp_us, snapshot.version)
        self.host.send(sender, SnapshotAck(snapshot.number, snapshot.part, stamp_us))

    @handles(BackupDelta)
    def on_delta(self, sender: Address, delta: BackupDelta) -> None:
        self.surface.members.heard_from(sender)
        copy = self.held.get(sender)
        if copy is None:
            self.host.send(sender, NoBackupCopy(delta.number))
            return
        check_items(delta.items)
        copy.apply_delta(delta, filter(self.surface.store.can_decode, delta.items))
        self.host.send(
            sender, DeltaAck(delta.number, self.ack_stamp(sender, delta.stamp_us, delta.version))
        )

    def holds_copy(self, owner: Address) -> bool:
        """True if this peer holds a complete copy of an owner's items."""
        copy = self.held.get(owner)
        return copy is not None and not copy.awaited

    def ack_stamp(self, owner: Address, stamp_us: int, version: int) -> int:
        """The owner's timestamp, if this peer as its backup may acknowledge it; else 0.

        An owner that resumes after its extents were taken over must get no ack from a backup. So a
        backup withholds acks while it knows better claims, and for a while after it has voted that
        the owner is silent: the poller may be taking over, and its claims may be on the way.
        """
        if (copy := self.held.get(owner)) is None:
            return stamp_us
        claim_map = self.surface.ownership.claim_map
        better = [
            each
            for claim in copy.claims
            for each in claim_map.better_than(claim)
            if each.owner != owner
        ]
        contradicted = better or copy.version != version
        return (
            0
            if contradicted
            or self.surface.members.state_of(owner).withhold_until_us > self.host.now_us
            else stamp_us
        )

    def on_owner_heartbeat(self, owner: Address, heartbeat: Heartbeat) -> None:
        """An owner's heartbeat may end this peer's role as a backup."""
        copy = self.held.get(owner)
        named = self.address in heartbeat.backups or self.address in heartbeat.new_backups
        if not named:
            self.surface.members.state_of(owner).dismiss(
                heartbeat.stamp_us, self.host.now_us, self.timers.suspect_after_us
            )
        if copy is None:
            return
        if heartbeat.version < copy.version:
            if copy.is_denied(self.host.now_us, self.timers.suspect_after_us):
                del self.held[owner]
        elif named and heartbeat.stamp_us >= copy.stamp_us:
            # An older heartbeat does not list what the owner has received since.
            copy.apply_heartbeat(heartbeat, self.address in heartbeat.backups)
        elif not named and heartbeat.stamp_us > copy.stamp_us:
            del self.held[owner]

    def restore_copy_of(self, owner: IceSurface) -> None:
        """Hold a complete copy of an owner's items from the beginning (assembled surface)."""
        copy = BackupCopy(-1, tuple(owner.extents), owner.backups, owner.heartbeats.around(), -1)
        copy.put(0, owner.store.pack(owner.tract))
        self.held[owner.address] = copy

    def holdings(self) -> tuple[object, ...]:
        """The copies as values that can be encoded."""
        return tuple(
            [
                (each.claims, each.backups, each.around, tuple([i for _, i in each.items.values()]))
                for each in self.held.values()
            ]
        )

    def expire(self) -> None:
        """Drop copies of owners that are silent for `copy_ttl_us`, whose extents others must have
        taken over. Purge deleted items after `dead_after_us`: earlier, a late older write would
        restore them.
        """
        silence_us = self.surface.members.silence_us
        for owner in [each for each in self.held if silence_us(each) > self.timers.copy_ttl_us]:
            del self.held[owner]
        if self.host.now_us - self._purged_us > self.timers.dead_after_us:
            self._purged_us = self.host.now_us
            for each in self.held.values():
                each.purge_deleted()


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
