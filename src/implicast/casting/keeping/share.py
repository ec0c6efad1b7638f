"""What one node keeps of all lists, and where it stands: which keys it answers for, and of whom it keeps copies."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from implicast.casting.keeping.deeds import Deeds
from implicast.casting.keeping.messages import Row
from implicast.casting.keeping.rows import NO_ROOM, KeptRows
from implicast.language.target import Scalar
from implicast.overlay.chord import Chord
from implicast.peer.contract import Contact, Host, Name, Part
from implicast.peer.memory import Recent

ROWS_PER_MESSAGE = 500
"""Entries in one message."""
ABSENT_MAX = 1024
"""Peers remembered as dead."""

KeyOf = Callable[[str, Scalar], int]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class KeepingSettings:
    """In microseconds. Zeros without receipts, as in the papers: one keeper, nothing repeated, no standing upkeep."""

    copies: int
    """Right neighbours that have what a node keeps. A list is lost when a node and all of these die at once."""
    sync_us: int
    """Period of comparing copies; 0: only after changes of the neighbourhood."""
    lease_us: int
    """An entry that its owner did not renew for so long is forgotten; owners renew twice as often. 0: never, and what
    is not answered is not asked again."""
    values_max: int = 1
    """Values of the widest range that anybody may ask for."""


class Share:
    """Rows, how far to the left they are complete (`floor_key`), and whose rows are not taken at present."""

    __slots__ = (
        "absent",
        "chord",
        "contact",
        "deeds",
        "floor_key",
        "host",
        "is_going",
        "is_ready",
        "key_of",
        "own",
        "rows",
        "settings",
    )

    def __init__(
        self,
        contact: Contact,
        host: Host,
        chord: Chord,
        key_of: KeyOf,
        settings: KeepingSettings,
        deeds: Deeds,
    ) -> None:
        self.contact, self.host, self.chord, self.key_of = contact, host, chord, key_of
        self.settings, self.deeds = settings, deeds
        self.rows = KeptRows(bool(settings.copies))
        self.own = chord.table.own
        """The own key: the same in every life."""
        self.floor_key = self.own
        """It has everything of (floor, own]; the whole circle when they are equal."""
        self.is_ready = self.is_going = False
        """Whether this node has what it answers for; whether it wants to leave."""
        self.absent: Recent[Name, int] = Recent(ABSENT_MAX)
        """Peers that are taken for dead, and until when nothing of them is taken."""

    # Where this node stands

    def low(self) -> int:
        """It answers for (low, own]."""
        return (self.own - self.chord.table.span) & self.chord.table.mask

    def copies_low(self) -> int:
        """It keeps copies down to here: of so many left neighbours. Of one at least: it may be about to leave."""
        lefts, copies = self.chord.ring.lefts, max(1, self.settings.copies)
        return self.chord.table.key_of(lefts[copies]) if len(lefts) > copies else self.own

    def is_further(self, low: int, other: int) -> bool:
        """Whether (low, own] is more than (other, own]."""
        mask = self.chord.table.mask
        return (self.own - low - 1) & mask > (self.own - other - 1) & mask

    def close(self) -> None:
        """A life begins, or has ended: nothing is had for certain."""
        self.is_ready, self.floor_key = False, self.own

    def go(self, is_going: bool) -> None:
        self.is_going = is_going

    def open(self, floor_key: int) -> None:
        """From here on to the own key everything is there."""
        self.is_ready, self.floor_key = True, floor_key

    def retract(self) -> None:
        """Copies from further away do not come here any more: what is dropped is not had, whoever vouched for it."""
        if self.is_further(self.floor_key, beyond := self.copies_low()):
            self.floor_key = beyond

    # Rows

    def take(self, rows: Iterable[Row]) -> int:
        """Keep these, unless newer words are known: the largest stamp of those. `NO_ROOM` if some cannot be kept."""
        now_us, absent = self.host.now_us, self.absent
        if absent:
            rows = [row for row in rows if row.owner.name not in absent or not row.in_force]
        known = [self.rows.take(row, now_us) for row in rows] or [0]
        return NO_ROOM if NO_ROOM in known else max(known)

    def held(self) -> Iterator[Row]:
        """Everything that is kept here."""
        return (entry.row for entry in self.rows.entries())

    def parts(self, low: int, high: int) -> Iterator[tuple[int, int, tuple[Row, ...]]]:
        """All rows of the keys (low, high], as many as one message carries at a time."""
        return in_parts([entry.row for entry in self.rows.within(low, high)], ROWS_PER_MESSAGE)


def in_parts(items: Sequence[Item], most: int) -> Iterator[tuple[int, int, tuple[Item, ...]]]:
    """So many at a time: which part, of how many, and what is in it. Nothing is one empty part."""
    parts = max(1, -(-len(items) // most))
    for part in range(parts):
        yield part, parts, tuple(items[part * most : (part + 1) * most])


class Shareholder(Part):
    """A part of a node that works on the node's share."""

    __slots__ = ("_chord", "_ring", "_share")

    def __init__(self, share: Share) -> None:
        super().__init__(share.contact.address, share.host)
        self._share, self._chord, self._ring = share, share.chord, share.chord.ring
