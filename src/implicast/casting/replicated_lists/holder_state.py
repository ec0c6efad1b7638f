"""What the parts of a holder share: stored entries, owned key range, range of copies; and how a
request goes from holder to holder along a range of values.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from msgspec.structs import replace

from implicast.casting.replicated_lists.entries import KeyOf, ListEntry, Scalar
from implicast.casting.replicated_lists.entry_proofs import EntryProofs
from implicast.casting.replicated_lists.settings import ReplicatedListSettings
from implicast.overlay.chord import Chord
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, Contact, Host, Name, Part
from implicast.peer.memory import Recent
from implicast.peer.replica_table import NO_ROOM, ReplicaTable
from implicast.space.ring import up_to

LOST_RANGES_MAX = 64
"""Lost ranges that are remembered; the oldest is forgotten first."""
PUT_AGAIN_US = 60_000_000
"""Time in which the owners of lost entries hear of the loss and put them again."""
ABSENT_MAX = 1024
"""Owners remembered as crashed."""

Request = TypeVar("Request", bound=Any)
"""A message for the values low..high of an attribute, with the fields of `PutEntry` that say how it
goes from holder to holder.
"""


class HolderState:
    """The stored entries; the key from which they are complete (`floor_key`); ranges whose entries
    were lost; owners whose entries are refused at present.
    """

    __slots__ = (
        "_lost_ranges",
        "absent",
        "chord",
        "contact",
        "entries",
        "floor_key",
        "host",
        "is_leaving",
        "is_ready",
        "key_of",
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
        self.entries: ReplicaTable[ListEntry] = ReplicaTable(bool(settings.copies))
        self.own = chord.table.own
        """This node's own key: the same in every incarnation."""
        self.floor_key = self.own
        """The node stores every entry of (floor_key, own]; of the whole ring if the two are equal.
        """
        self.is_ready = self.is_leaving = False
        """`is_ready`: the node has received the entries that it owns. `is_leaving`: it is handing
        them off.
        """
        self._lost_ranges: Recent[tuple[int, int], int] = Recent(LOST_RANGES_MAX)
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

    def limit_to(self, low: int) -> None:
        """Raise `floor_key` to `low`, if it is below that: the node does not receive updates of
        entries below it.
        """
        if self.is_further(self.floor_key, low):
            self.floor_key = low

    # Losses

    def note_lost(self, low: int, high: int, age_us: int = 0) -> None:
        """The entries of (low, high] were lost, until their owners put them again."""
        self._lost_ranges.put((low, high), self.host.now_us - age_us)

    def may_lack(self, keys: Iterable[int]) -> bool:
        """Whether entries at these keys may be missing here: they were lost and the owners have had
        no time to put them again, or they may be on another ring.
        """
        silent = self.chord.ring.liveness.silent
        if silent.are_uncertain():
            silent.probe()
            return True
        lost = self.recently_lost() if self._lost_ranges else ()
        return any(up_to(low, key, high) for key in keys for low, high, _ in lost)

    def recently_lost(self) -> list[tuple[int, int, int]]:
        """Return the ranges that were lost so lately that the owners may not have put their entries
        again, each with the time since then.
        """
        now_us = self.host.now_us
        return [
            (low, high, now_us - since_us)
            for (low, high), since_us in self._lost_ranges.items()
            if since_us > now_us - PUT_AGAIN_US
        ]

    # Entries

    def store(self, entries: Iterable[ListEntry]) -> int:
        """Store entries unless newer versions are known. Return the largest known newer stamp, 0 if
        there is none, or `NO_ROOM`. Entries of owners considered crashed are skipped, removals are
        not.
        """
        now_us, absent, newest = self.host.now_us, self.absent, 0
        for entry in entries:
            if not absent or entry.owner.name not in absent or not entry.in_force:
                known = self.entries.store(entry, now_us)
                newest = NO_ROOM if NO_ROOM in (known, newest) else max(known, newest)
        return newest

    def all_entries(self) -> Iterator[ListEntry]:
        """All entries stored here."""
        return (held.entry for held in self.entries.all_held())

    # Absent owners

    def forget_owner(self, owner: Contact, absent_us: int) -> list[ListEntry]:
        """An owner is considered crashed: drop its entries, and refuse them for `absent_us`. Return
        what was dropped.
        """
        now_us, theirs = self.host.now_us, self.entries.of_owner(owner)
        self.absent[owner.name] = now_us + absent_us
        self.entries.drop(theirs)
        self.entries.note_silent(theirs, now_us)
        return theirs

    def accept_owner(self, name: Name) -> None:
        """An owner is alive: its entries are stored again."""
        self.absent.pop(name, None)

    def end_absences(self) -> None:
        """Accept the owners again whose entries were refused for long enough."""
        now_us = self.host.now_us
        for name in [each for each, until_us in self.absent.items() if until_us <= now_us]:
            del self.absent[name]


class HolderPart(Part):
    """A component of a node that works on its holder state."""

    __slots__ = ("_chord", "_ring", "_state")

    def __init__(self, state: HolderState) -> None:
        super().__init__(state.contact.address, state.host)
        self._state, self._chord, self._ring = state, state.chord, state.chord.ring

    def owned_parts(self, request: Request) -> Iterator[tuple[Request, list[tuple[int, Scalar]]]]:
        """Yield a request whose first value this node owns, with the leading values that it owns
        and their keys; again with the next such values of the range. Send the rest on.
        """
        low, high = request.low, request.high
        while own := self._own_values(request.attribute, low, high):
            yield request, own
            low = own[-1][1]
            if not isinstance(low, int) or not isinstance(high, int) or low >= high:
                return
            low += 1
            key = self._state.key_of(request.attribute, low)
            request = replace(request, key=key, low=low, walking=request.walks)
            if self.goes_on(self.address, request):
                return

    def goes_on(self, sender: Address, request: Any) -> bool:
        """Whether a request was sent on, as this node does not own its first value. One that walks
        along successors is dropped by routing after one turn round the ring.
        """
        key, ring = request.key, self._ring
        if not request.walking:
            return self._chord.forward(key, request, sender)
        if ring.state != IN or self._chord.owns(key) or ring.right == ring.me:
            return self._chord.forward(key, request)
        if not self._chord.has_passed(key, request):
            ring.send_right(request)
        return True

    def _own_values(self, attribute: str, low: Scalar, high: Scalar) -> list[tuple[int, Scalar]]:
        """Return the leading values of a range that this node owns, with their keys; empty for an
        invalid range.
        """
        key_of = self._state.key_of
        if isinstance(low, str) or isinstance(high, str):
            return [(key_of(attribute, low), low)] if low == high else []
        own: list[tuple[int, Scalar]] = []
        for value in range(low, high + 1 if high - low < self._state.settings.values_max else low):
            key = key_of(attribute, value)
            if own and not self._chord.owns(key):
                break
            own.append((key, value))
        return own
