"""Storing entries: kept where the registry is open, passed up to the next notch where it is closed.

Thesis section 8.1.1, Listings 10 and 11. With receipts an entry is acknowledged when all backups
have it and the holder still owns its home. Acknowledgements return along the path of the entry, so
that each peer that a cast will pass confirms it. A direct acknowledgement from the top could
confirm an entry above a registry that has been opened meanwhile, which casts would not reach.

Within one peer an entry ascends at once through all notches whose homes are local. Entries and
acknowledgements that leave a peer are collected for `collect_us` and sent together (section 8.3.1).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from implicast.casting.spice.homes import home, rotation_of
from implicast.casting.spice.items import (
    TOGETHER_MAX,
    Answer,
    Entry,
    Key,
    StoredEntry,
    Tag,
)
from implicast.casting.spice.part import SpicePart, Tools
from implicast.casting.spice.registries import Registries
from implicast.casting.spice.registry import Record
from implicast.casting.spice.store_requests import Grouping, StoreAck, StoreRequest, way_to
from implicast.peer.contract import Address, Message, Name, handles
from implicast.peer.memory import Recent
from implicast.space.morton import BITS
from implicast.space.tract import EMPTY, contains

ASCENTS_MAX = 65_536
"""Maximum number of entries passed up and not acknowledged. Further ones are dropped; the requester
repeats them.
"""
LAST_HOLDERS_MAX = 8_192
"""Maximum number of remembered holders above, to which renewals are sent directly. The oldest is
forgotten.
"""
UNBACKED_MAX = 8_192
"""Maximum number of entries that wait for the next backup batch. Further ones are not acknowledged;
the requester repeats them.
"""


class NewerEntry(Message):
    """Tells a consumer that a holder stores a newer entry of it than the one it sent."""

    wire = 0x0A10

    tag: Tag
    entry: Entry


class FlushOutbox(Message):
    """Fires when the collected entries and acknowledgements are to be sent."""


@dataclass(slots=True)
class Ascent:
    """An entry that this peer passed up, and the requesters that wait for it."""

    entry: Entry
    answers: tuple[Answer, ...]
    token: int = 0
    """Token of the first message that carried the entry. An acknowledgement with a smaller token
    belongs to an earlier ascent.
    """

    def join(self, entry: Entry, answer: Answer) -> None:
        """Add a requester; the newer version of the entry replaces the older."""
        if entry.version > self.entry.version:
            self.entry = entry
        if answer not in self.answers:
            self.answers = (*self.answers, answer)

    def start(self, token: int) -> Entry:
        self.token = self.token or token
        return self.entry

    def is_answered(self, version: int, token: int) -> bool:
        """Whether an acknowledgement of this version, with this token, belongs to the ascent."""
        return 0 < self.token <= token and version >= self.entry.version


AboveState = tuple[Key, Name, Address]
"""A record that was passed up: its destination, its consumer, and the holder that acknowledged it.
"""
Kept = Callable[[Key, Sequence[Record]], None]
Acked = Callable[[Address, StoreAck], None]


class Stores(SpicePart):
    """Stores the records of other peers, backs them up and acknowledges them."""

    __slots__ = (
        "_grouping",
        "_on_acked",
        "_on_kept",
        "_outbox",
        "_registries",
        "ascents",
        "flushing",
        "holders_above",
        "unbacked",
    )

    def __init__(
        self,
        tools: Tools,
        registries: Registries,
        grouping: Grouping | None,
        on_kept: Kept,
        on_acked: Acked,
    ) -> None:
        """`grouping`: how requests and acknowledgements share messages; None with receipts.
        `on_kept`: called with records stored here. `on_acked`: called with acknowledgements of this
        peer to itself.
        """
        super().__init__(tools)
        self._registries, self._grouping = registries, grouping
        self._on_kept, self._on_acked = on_kept, on_acked
        self.ascents: dict[tuple[Key, Name], Ascent] = {}
        self._outbox: dict[Key, dict[Name, Ascent]] = {}
        self.unbacked: list[tuple[Key, Name, int, Answer]] = []
        """Stored and not backed up yet: registry, consumer, version and requester."""
        self.holders_above: Recent[tuple[Key, Name], Address] = Recent(
            0 if grouping is not None else LAST_HOLDERS_MAX
        )
        """By destination and consumer: the peer that acknowledged a record passed up from here."""
        self.flushing = False

    # --- storing or passing up

    def store_entries(
        self, tag: str, root: int, notch: int, entries: Sequence[Entry], answer: Answer
    ) -> None:
        """Store the entries here or pass them up, starting at this notch."""
        registry = self._registries.by_key.get((tag, root, notch))
        if not notch and (registry is None or not registry.closed) and self.surface.answers(root):
            self._keep((tag, root, 0), entries, answer)  # all homes are the root
            return
        places: dict[tuple[int, bool], list[Entry]] = {}
        for entry in entries:
            places.setdefault(self.find_notch(tag, root, notch, entry.spot), []).append(entry)
        ascending = [each for (top, _), some in places.items() if top for each in some]
        if ascending and self.settings.rarest and not notch:
            self._registries.registry((tag, root, 0)).add_passed_up(
                sum(gain(tag, each) for each in ascending)
            )
        for (top, stays), some in sorted(places.items(), key=lambda place: not place[0][1]):
            (self._keep if stays else self._send_up)((tag, root, top), some, answer)

    def find_notch(self, tag: str, root: int, notch: int, spot: int) -> tuple[int, bool]:
        """The notch where an entry belongs, starting at `notch`. True: it is stored here; False:
        its home there is at another peer.
        """
        registries, grouping = self._registries.by_key, self._grouping
        dimensions, rotated = self.settings.dimensions, spot ^ rotation_of(root)
        own = self.surface.committed if not self.surface.is_unconfirmed else EMPTY
        while True:
            shift = notch * dimensions
            at = root >> shift << shift | rotated >> BITS - shift  # `home`, inlined for speed
            if bisect_right(own, at) & 1:
                registry = registries.get((tag, root, notch))
                if (
                    registry is None
                    or not bisect_right(registry.closed, at) & 1
                    or contains(registry.gathering, at)
                ):
                    return notch, True
            elif grouping is None or not grouping.is_closed((tag, root, notch), at):
                return notch, False
            notch = notch + 1 if notch else self.settings.first_notch

    # --- passing up

    def _send_up(self, key: Key, entries: Sequence[Entry], answer: Answer) -> None:
        outbox = self._outbox.setdefault(key, {})
        for entry in entries:
            name = entry.member.name
            ascent = self.ascents.get((key, name))
            if ascent is not None:
                ascent.join(entry, answer)
            elif len(self.ascents) < ASCENTS_MAX:
                ascent = self.ascents[key, name] = Ascent(entry, (answer,))
            else:
                continue
            outbox[name] = ascent
        self.schedule_flush()

    def schedule_flush(self) -> None:
        if not self.flushing:
            self.flushing = True
            self.host.after(self.settings.collect_us, FlushOutbox())

    @handles(FlushOutbox)
    def on_flush_outbox(self, alarm: FlushOutbox) -> None:
        self.flushing = False
        outbox, self._outbox = self._outbox, {}
        for key, ascents in outbox.items():
            waiting = list(ascents.values())
            for start in range(0, len(waiting), TOGETHER_MAX):
                token = self.next_token()
                entries = tuple(each.start(token) for each in waiting[start : start + TOGETHER_MAX])
                # Removed until the holder acknowledges again: if it stays silent, the next request
                # goes over the surface.
                holder = None
                if len(entries) == 1:
                    holder = self.holders_above.pop((key, entries[0].member.name), None)
                self.send_store(key, entries, token, holder)
        if self.unbacked:
            self.back_up()
        if self._grouping is not None:
            self._grouping.send_acks()

    def send_store(
        self, key: Key, entries: tuple[Entry, ...], token: int, holder: Address | None = None
    ) -> None:
        """Ask for these entries to be stored at their homes at a notch. `holder`: the last known
        holder, addressed directly.
        """
        way = way_to(*key[1:], entries, self.settings.dimensions)
        store = StoreRequest(way, *key, entries, self.address, token)
        if holder is not None:
            self.host.send(holder, store)
        elif self._grouping is not None and len(entries) > 1:
            self._grouping.divide(store)
        else:
            self.surface.send(store)

    # --- storing

    def _keep(self, key: Key, entries: Sequence[Entry], answer: Answer) -> None:
        """Store entries. Those already backed up are acknowledged at once, the others after the
        backup.
        """
        records = [self._registries.keep(key, each) for each in entries]
        safe = [
            (each.entry.member.name, each.entry.version, key[2]) for each in records if each.safe
        ]
        if len(safe) < len(records):
            self.schedule_flush()
            waiting = [
                (key, each.entry.member.name, each.entry.version, answer)
                for each in records
                if not each.safe
            ]
            self.unbacked += waiting[: max(0, UNBACKED_MAX - len(self.unbacked))]
        self._on_kept(key, records)
        if self.signing.signed:
            self._report_newer(key, entries, records)
        if safe:
            self.confirm(answer, key, safe)

    def _report_newer(self, key: Key, entries: Sequence[Entry], records: Sequence[Record]) -> None:
        """In a signed network a consumer accepts a newer version of itself than the one it sent
        only if it sees its own signed entry.
        """
        for entry, record in zip(entries, records, strict=True):
            if record.entry.version > entry.version and entry.member.address != self.address:
                self.host.send(entry.member.address, NewerEntry(key[0], record.entry))

    def back_up(self) -> None:
        fresh, self.unbacked = self.unbacked, []
        records = {(key, name): self._registries.record_of(key, name) for key, name, _, _ in fresh}
        items = (each.as_item(key) for (key, _), each in records.items() if each is not None)
        gone = self._registries.take_forgotten()
        self.surface.replicate((*gone, *items), partial(self.confirm_backed_up, fresh))

    def confirm_backed_up(self, fresh: list[tuple[Key, Name, int, Answer]]) -> None:
        """All backups have these entries: acknowledge those that are still stored here and owned by
        this peer.
        """
        confirmed: dict[tuple[Answer, Key], list[StoredEntry]] = {}
        for key, consumer, version, answer in fresh:
            record = self._registries.record_of(key, consumer)
            if (
                record is None
                or record.entry.version < version
                or not self.surface.answers(record.home)
            ):
                continue
            if record.entry.version == version:
                record.mark_safe()
            confirmed.setdefault((answer, key), []).append((consumer, version, key[2]))
        for (answer, key), stored in confirmed.items():
            self.confirm(answer, key, stored)

    # --- acknowledging

    def confirm(self, answer: Answer, key: Key, stored: Sequence[StoredEntry]) -> None:
        """Acknowledge entries to the requester."""
        reply, token, asked = answer
        ack = StoreAck(key[0], key[1], asked, token, tuple(stored))
        if reply == self.address:
            self._on_acked(reply, ack)
        elif self._grouping is not None:
            self._grouping.send_ack(reply, ack)
        else:
            self.host.send(reply, ack)

    def on_stored(self, sender: Address, stored: StoreAck) -> None:
        """The next notch has stored entries passed up from here: acknowledge them to the
        requesters.
        """
        key = (stored.tag, stored.root, stored.notch)
        if self._grouping is not None:
            self._grouping.learn_closed(key, stored.closed)
        answers: dict[Answer, list[StoredEntry]] = {}
        for stored_entry in stored.entries:
            ascent = self.ascents.get((key, stored_entry[0]))
            if ascent is None or not ascent.is_answered(stored_entry[1], stored.token):
                continue
            del self.ascents[key, stored_entry[0]]
            if sender != self.address:
                self.holders_above.put((key, stored_entry[0]), sender)
            for answer in ascent.answers:
                if self.is_confirmed(key, ascent.entry, answer):
                    answers.setdefault(answer, []).append(stored_entry)
        for answer, stored_entries in answers.items():
            self.confirm(answer, key, stored_entries)

    def restore(self, above: Iterable[AboveState]) -> None:
        for key, consumer, holder in above:
            self.holders_above.put((key, consumer), holder)

    def is_confirmed(self, key: Key, entry: Entry, answer: Answer) -> bool:
        """Whether a cast that passes this peer still reaches the entry above. If the registry here
        was opened meanwhile, the entry is stored again from the requested notch.
        """
        if self._grouping is not None:
            return True
        (tag, root, notch), asked = key, answer[2]
        if not self.surface.answers(home(root, asked, entry.spot, self.settings.dimensions)):
            return False
        if self.find_notch(tag, root, asked, entry.spot) == (notch, False):
            return True
        self.store_entries(tag, root, asked, [entry], answer)
        return False


def gain(tag: str, entry: Entry) -> int:
    """Change in the number of registrations under the tag: 1 for a new one, -1 for a withdrawal, 0
    for an update.
    """
    if entry.description is None:
        return -1
    return int(entry.before is None or tag not in entry.before.tags)
