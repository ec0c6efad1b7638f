"""State that the parts of a holder share: stored entries, owned key range, and range of copies."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from implicast.casting.replicated_lists.entry_proofs import EntryProofs
from implicast.casting.replicated_lists.entry_table import NO_ROOM, EntryTable
from implicast.casting.replicated_lists.messages import ListEntry, LostRanges
from implicast.language.target import Scalar
from implicast.overlay.chord import Chord
from implicast.peer.contract import Contact, Host, Name, Part
from implicast.peer.memory import Recent
from implicast.space.ring import up_to

ENTRIES_PER_MESSAGE = 500
"""Entries in one message."""
LOST_RANGES_MAX = 64
"""Lost ranges that are remembered; the oldest is forgotten first."""
PUT_AGAIN_US = 60_000_000
"""Time in which the owners of lost entries hear of the loss and put them again."""
ABSENT_MAX = 1024
"""Owners remembered as crashed."""

KeyOf = Callable[[str, Scalar], int]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ReplicatedListSettings:
    """Settings in microseconds. All zero without receipts, as in the papers: one holder, no
    retries, no periodic upkeep.
    """

    copies: int
    """Successors that store copies of a holder's entries. A list is lost only if the holder and all
    of these crash together.
    """
    sync_us: int
    """Period of anti-entropy; 0: only after a change of neighbours."""
    lease_us: int
    """An entry that its owner has not renewed for this long expires; owners renew twice per lease.
    0: entries never expire, and nothing is retried.
    """
    values_max: int = 1
    """Largest number of values in one range request."""


class HolderState:
    """The stored entries; the key from which they are complete (`floor_key`); the owners whose
    entries are refused at present.
    """

    __slots__ = (
        "absent",
        "chord",
        "contact",
        "entries",
        "floor_key",
        "host",
        "is_leaving",
        "is_ready",
        "key_of",
        "lost_ranges",
        "own",
        "proofs",
        "settings",
    )

    def __init__(
        self,
        contact: Contact,
        host: Host,
        chord: Chord,
        key_of: KeyOf,
        settings: ReplicatedListSettings,
        proofs: EntryProofs,
    ) -> None:
        self.contact, self.host, self.chord, self.key_of = contact, host, chord, key_of
        self.settings, self.proofs = settings, proofs
        self.entries = EntryTable(bool(settings.copies))
        self.own = chord.table.own
        """This node's own key: the same in every incarnation."""
        self.floor_key = self.own
        """The node stores every entry of (floor_key, own]; of the whole ring if the two are equal.
        """
        self.is_ready = self.is_leaving = False
        """`is_ready`: the node has received the entries that it owns. `is_leaving`: it is handing
        them off.
        """
        self.lost_ranges: Recent[tuple[int, int], int] = Recent(LOST_RANGES_MAX)
        """Key ranges (low, high] whose entries were lost with all copies, and when."""
        self.absent: Recent[Name, int] = Recent(ABSENT_MAX)
        """Owners considered crashed, and until when their entries are refused."""

    # Owned range and range of copies

    def low(self) -> int:
        """Return the lower end of the owned range (low, own]."""
        return (self.own - self.chord.table.span) & self.chord.table.mask

    def copies_low(self) -> int:
        """Return the lower end of the range of which this node holds copies: that of `copies`
        predecessors. At least one, since the predecessor may be leaving and push its range.
        """
        lefts, copies = self.chord.ring.lefts, max(1, self.settings.copies)
        return self.chord.table.key_of(lefts[copies]) if len(lefts) > copies else self.own

    def is_further(self, low: int, other: int) -> bool:
        """Whether (low, own] is larger than (other, own]."""
        mask = self.chord.table.mask
        return (self.own - low - 1) & mask > (self.own - other - 1) & mask

    def reset(self) -> None:
        """Mark the stored entries as incomplete: on joining and after leaving."""
        self.is_ready, self.floor_key = False, self.own

    def set_leaving(self, is_leaving: bool) -> None:
        self.is_leaving = is_leaving

    def set_complete_from(self, floor_key: int) -> None:
        """Mark the stored entries as complete from `floor_key` to the own key."""
        self.is_ready, self.floor_key = True, floor_key

    def note_lost(self, low: int, high: int, age_us: int = 0) -> None:
        """The entries of (low, high] were lost, until their owners put them again."""
        self.lost_ranges.put((low, high), self.host.now_us - age_us)

    def may_lack(self, key: int) -> bool:
        """Whether entries at this key may be missing here: they were lost and the owners have had no
        time to put them again, or they may be on another ring.
        """
        silent = self.chord.ring.liveness.silent
        if silent.are_uncertain():
            silent.probe()
            return True
        return any(up_to(low, key, high) for low, high in self._recently_lost())

    def lost_in(self, low: int, high: int) -> LostRanges:
        """Return the ranges that overlap (low, high] and were lost so lately that the owners may not
        have put their entries again.
        """
        return tuple(
            (first, last, self.host.now_us - self.lost_ranges[first, last])
            for first, last in self._recently_lost()
            if up_to(first, high, last) or up_to(low, last, high)
        )

    def _recently_lost(self) -> list[tuple[int, int]]:
        over_us = self.host.now_us - PUT_AGAIN_US
        return [lost for lost, since_us in self.lost_ranges.items() if since_us > over_us]

    def limit_to_copies(self) -> None:
        """Raise `floor_key` to the lower end of the range of copies: the node does not
        receive updates of entries below it.
        """
        self.limit_to(self.copies_low())

    def limit_to(self, low: int) -> None:
        """Raise `floor_key` to `low`, if it is below that."""
        if self.is_further(self.floor_key, low):
            self.floor_key = low

    # Entries

    def store(self, entries: Iterable[ListEntry]) -> int:
        """Store entries unless newer versions are known. Return the largest known newer stamp, 0 if
        there is none, or `NO_ROOM`. Entries of owners considered crashed are skipped, removals are
        not.
        """
        now_us, absent = self.host.now_us, self.absent
        if absent:
            entries = [
                entry for entry in entries if entry.owner.name not in absent or not entry.in_force
            ]
        known = [self.entries.store(entry, now_us) for entry in entries] or [0]
        return NO_ROOM if NO_ROOM in known else max(known)

    def all_entries(self) -> Iterator[ListEntry]:
        """All entries stored here."""
        return (held.entry for held in self.entries.all_held())

    def parts(self, low: int, high: int) -> Iterator[tuple[int, int, tuple[ListEntry, ...]]]:
        """Return the entries of the keys (low, high] in parts of one message each."""
        return in_parts(
            [held.entry for held in self.entries.within(low, high)], ENTRIES_PER_MESSAGE
        )


def in_parts(items: Sequence[Item], most: int) -> Iterator[tuple[int, int, tuple[Item, ...]]]:
    """Split into parts of at most `most` items; yield part number, number of parts, items. No items
    yield one empty part.
    """
    parts = max(1, -(-len(items) // most))
    for part in range(parts):
        yield part, parts, tuple(items[part * most : (part + 1) * most])


class HolderPart(Part):
    """A component of a node that works on its holder state."""

    __slots__ = ("_chord", "_ring", "_state")

    def __init__(self, state: HolderState) -> None:
        super().__init__(state.contact.address, state.host)
        self._state, self._chord, self._ring = state, state.chord, state.chord.ring
