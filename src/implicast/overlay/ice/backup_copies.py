"""Backup side of replication: the complete copies of other owners' items that this peer holds.

An owner numbers its writes with a serial; whatever their order of arrival, the larger serial wins.
A copy ends when its owner's heartbeat no longer names this peer, and a late repeat of the snapshot
does not restore it.
"""

from collections.abc import Iterable

from implicast.overlay.ice.backup_copy import (
    BackupCopy,
    BackupDelta,
    BackupSnapshot,
    DeltaAck,
    NoBackupCopy,
    SnapshotAck,
)
from implicast.overlay.ice.item_store import Item, check_items
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import Heartbeat, Neighbour, OwnershipClaim
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.state import CopyState
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address
from implicast.peer.errors import RemoteError
from implicast.space.tract import Tract


class BackupCopies:
    """Holds backup copies for other owners."""

    __slots__ = (
        "_address",
        "_can_decode",
        "_host",
        "_members",
        "_ownership",
        "_purged_us",
        "_timers",
        "held",
    )

    def __init__(self, site: SurfaceSite, ownership: Ownership, members: Members) -> None:
        self._address, self._host, self._timers = site.address, site.host, site.settings.timers
        self._can_decode, self._ownership, self._members = (
            site.store.can_decode,
            ownership,
            members,
        )
        self.held: dict[Address, BackupCopy] = {}
        """Copies, by owner."""
        self._purged_us = self._host.now_us

    def on_snapshot(self, sender: Address, snapshot: BackupSnapshot) -> None:
        if snapshot.part >= snapshot.parts:
            raise RemoteError(f"snapshot part {snapshot.part} must be below {snapshot.parts}")
        check_items(snapshot.items)
        members = self._members
        state = members.state_of(sender)
        members.heard_from(sender)
        copy = self.held.get(sender)
        if copy is None or copy.number < snapshot.number:
            full = copy is None and len(self.held) >= self._timers.copies_max
            if full or state.is_dismissed(
                snapshot.stamp_us, self._host.now_us, self._timers.suspect_after_us
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
            copy.put(snapshot.serial, filter(self._can_decode, snapshot.items))
        stamp_us = self.ack_stamp(sender, snapshot.stamp_us, snapshot.version)
        self._host.send(sender, SnapshotAck(snapshot.number, snapshot.part, stamp_us))

    def on_delta(self, sender: Address, delta: BackupDelta) -> None:
        self._members.heard_from(sender)
        copy = self.held.get(sender)
        if copy is None:
            self._host.send(sender, NoBackupCopy(delta.number))
            return
        check_items(delta.items)
        copy.apply_delta(delta, filter(self._can_decode, delta.items))
        self._host.send(
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
        claim_map = self._ownership.claim_map
        better = [
            each
            for claim in copy.claims
            for each in claim_map.better_than(claim)
            if each.owner != owner
        ]
        contradicted = better or copy.version != version
        return (
            0
            if contradicted or self._members.state_of(owner).withhold_until_us > self._host.now_us
            else stamp_us
        )

    def on_owner_heartbeat(self, owner: Address, heartbeat: Heartbeat) -> None:
        """An owner's heartbeat may end this peer's role as a backup."""
        copy = self.held.get(owner)
        named = self._address in heartbeat.backups or self._address in heartbeat.new_backups
        if not named:
            self._members.state_of(owner).dismiss(
                heartbeat.stamp_us, self._host.now_us, self._timers.suspect_after_us
            )
        if copy is None:
            return
        if heartbeat.version < copy.version:
            if copy.is_denied(self._host.now_us, self._timers.suspect_after_us):
                del self.held[owner]
        elif named and heartbeat.stamp_us >= copy.stamp_us:
            # An older heartbeat does not list what the owner has received since.
            copy.apply_heartbeat(heartbeat, self._address in heartbeat.backups)
        elif not named and heartbeat.stamp_us > copy.stamp_us:
            del self.held[owner]

    def restore(self, copies: Iterable[CopyState]) -> None:
        """Hold these complete copies from the beginning."""
        for each in copies:
            copy = BackupCopy(-1, each.claims, each.backups, each.around, -1)
            copy.put(0, each.items)
            self.held[each.owner] = copy

    def state(self) -> tuple[CopyState, ...]:
        """The complete copies."""
        return tuple(
            CopyState(
                owner,
                each.claims,
                each.backups,
                each.around,
                tuple(i for _, i in each.items.values()),
            )
            for owner, each in self.held.items()
            if not each.awaited
        )

    def drop(self, owner: Address) -> BackupCopy | None:
        """End the copy of an owner's items, if there is one, and return it."""
        return self.held.pop(owner, None)

    def add_extent(self, claim: OwnershipClaim, items: Iterable[Item], stamp_us: int) -> None:
        """The owner received this extent in a handoff at that time."""
        if claim.owner in self.held:
            self.held[claim.owner].add_extent(claim, items, stamp_us)

    def begin(self, owner: Address, around: tuple[Neighbour, ...], stamp_us: int) -> None:
        """Hold a copy of a new owner's items unless there is one. What it receives now is all that
        it has.
        """
        self.held.setdefault(owner, BackupCopy(-1, (), (self._address,), around, stamp_us))

    def has_silent_owner(self, silence_us: int) -> bool:
        """True if an owner has been silent for longer than this, and may be dead."""
        return any(self._members.silence_us(owner) > silence_us for owner in self.held)

    def items_of_others(self, owner: Address, tract: Tract) -> tuple[Item, ...]:
        """Items in a tract, from the copies of all owners but this one."""
        others = (copy for each, copy in self.held.items() if each != owner)
        return tuple(item for copy in others for item in copy.within(tract))

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
        silence_us = self._members.silence_us
        for owner in [each for each in self.held if silence_us(each) > self._timers.copy_ttl_us]:
            del self.held[owner]
        if self._host.now_us - self._purged_us > self._timers.dead_after_us:
            self._purged_us = self._host.now_us
            for each in self.held.values():
                each.purge_deleted()
