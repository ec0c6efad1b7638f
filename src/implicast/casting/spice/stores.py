"""Storing entries: kept where the registry is open, passed up to the next notch where it is closed.

Thesis section 8.1.1, Listings 10 and 11. With receipts an entry is acknowledged when all backups
have it and the holder still owns its home. Acknowledgements return along the path of the entry, so
that each peer that a cast will pass confirms it. A direct acknowledgement from the top could
confirm an entry above a registry that has been opened meanwhile, which casts would not reach.

Within one peer an entry ascends at once through all notches whose homes are local. Entries and
acknowledgements that leave a peer are collected for `collect_us` and sent together (section 8.3.1).
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from implicast.casting.spice.ascent import Answer, Ascent, gain
from implicast.casting.spice.homes import home, homes, rotation_of
from implicast.casting.spice.items import Key, all_proved
from implicast.casting.spice.messages import (
    TOGETHER_MAX,
    Entry,
    NewerEntry,
    StoreAck,
    StoredEntry,
    StoreRequest,
)
from implicast.casting.spice.part import Spice, SpicePart
from implicast.casting.spice.registry import Record
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, Message, Name, handles
from implicast.peer.memory import Recent
from implicast.space.morton import BITS
from implicast.space.tract import EMPTY, Tract, contains, union, unite

OWN, ASCENDING = 0, 1
"""Tokens of a consumer's own registration and of records that a closed registry passes up. Larger
tokens name other requests.
"""
INCARNATION_SHIFT, INCARNATION_MASK = 24, 0xFFFF
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
KNOWN_CLOSED_MAX = 256
"""Maximum number of interval ends remembered as closed for one notch of a registry."""


class FlushOutbox(Message):
    """Fires when the collected entries and acknowledgements are to be sent."""


class Stores(SpicePart):
    """Stores the records of other peers and acknowledges them."""

    __slots__ = (
        "_confirmed",
        "_known_closed",
        "_outbox",
        "ascents",
        "flushing",
        "holders_above",
        "last_token",
        "unbacked",
    )

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self.last_token = ASCENDING + (
            (spice.incarnation & INCARNATION_MASK) << INCARNATION_SHIFT
            if self.settings.assured
            else 0
        )
        """Tokens of different incarnations differ, so that an answer to an earlier incarnation is
        ignored.
        """
        self.ascents: dict[tuple[Key, Name], Ascent] = {}
        self._outbox: dict[Key, dict[Name, Ascent]] = {}
        self._confirmed: dict[tuple[Answer, str, int], dict[Name, StoredEntry]] = {}
        """Acknowledgements to send with the next flush (without receipts)."""
        self.unbacked: list[tuple[Key, Name, int, Answer]] = []
        """Stored and not backed up yet: registry, consumer, version and requester."""
        self.holders_above: Recent[tuple[Key, Name], Address] = Recent(LAST_HOLDERS_MAX)
        """By destination and consumer: the peer that acknowledged a record passed up from here."""
        self._known_closed: dict[Key, Tract] = {}
        """Parts at higher notches that other peers report as closed for good (without receipts)."""
        self.flushing = False

    def next_token(self) -> int:
        """A new token for a request of this peer."""
        self.last_token += 1
        return self.last_token

    # --- arrival

    @handles(StoreRequest)
    def on_store(self, sender: Address, store: StoreRequest) -> None:
        if store.notch > self.settings.last_notch:
            return  # no surface has this notch
        if len(store.entries) > 1 and not self.settings.assured:
            self._split_by_hop(store)
        elif (
            self.settings.assured
            and not (store.way.number or store.notch)
            and self.surface.answers(store.root)
        ):
            self._accept(store, store.entries)  # sent directly by a consumer to the known owner
        else:
            self.spice.on_routed(sender, store)

    def on_arrival(self, part: Tract, store: StoreRequest) -> None:
        root, notch, entries = store.root, store.notch, store.entries
        if notch or len(entries) > 1:
            places = homes(root, notch, [each.spot for each in entries], self.settings.dimensions)
            pairs = zip(entries, places, strict=True)
            entries = tuple([each for each, at in pairs if bisect_right(part, at) & 1])
        self._accept(store, entries)

    def _accept(self, store: StoreRequest, entries: Sequence[Entry]) -> None:
        if self.settings.is_place(store.tag, store.root, store.notch):
            entries = all_proved(self.spice.signing, store.tag, entries)
            if not self.spice.pushes.push_if_replicated(store, entries):
                answer = (store.reply, store.token, store.notch)
                self.store_entries(store.tag, store.root, store.notch, entries, answer)

    def _split_by_hop(self, store: StoreRequest) -> None:
        """Forward a request without receipts (Listing 11 with fixed homes). Each record takes its
        own best route, and records with the same next hop share a message: branch factor 0, merged.
        """
        places = homes(
            store.root, store.notch, [each.spot for each in store.entries], self.settings.dimensions
        )
        ours, others = self.surface.routing.sort_by_hop(places, store.entries)
        if ours:
            self._accept(store, ours)
        for hop, entries in others.items():
            alone = hop is None or len(entries) == 1
            way = self._way(store.root, store.notch, entries) if alone else store.way
            onward = replace(store, way=way, entries=tuple(entries))
            if hop is None:
                self.surface.send(onward)
            else:
                self.host.send(hop, onward)

    def _way(self, root: int, notch: int, entries: Sequence[Entry]) -> RouteHeader:
        places = homes(root, notch, [each.spot for each in entries], self.settings.dimensions)
        return RouteHeader(
            union([(each, each + 1) for each in places])
            if len(places) != 1
            else (places[0], places[0] + 1)
        )

    def store_entries(
        self, tag: str, root: int, notch: int, entries: Sequence[Entry], answer: Answer
    ) -> None:
        """Store the entries here or pass them up, starting at this notch."""
        registry = self.spice.registries.by_key.get((tag, root, notch))
        if not notch and (registry is None or not registry.closed) and self.surface.answers(root):
            self._keep((tag, root, 0), entries, answer)  # all homes are the root
            return
        places: dict[tuple[int, bool], list[Entry]] = {}
        for entry in entries:
            places.setdefault(self.find_notch(tag, root, notch, entry.spot), []).append(entry)
        ascending = [each for (top, _), some in places.items() if top for each in some]
        if ascending and self.settings.rarest and not notch:
            self.spice.registries.registry((tag, root, 0)).add_passed_up(
                sum(gain(tag, each) for each in ascending)
            )
        for (top, stays), some in sorted(places.items(), key=lambda place: not place[0][1]):
            (self._keep if stays else self._send_up)((tag, root, top), some, answer)

    def find_notch(self, tag: str, root: int, notch: int, spot: int) -> tuple[int, bool]:
        """The notch where an entry belongs, starting at `notch`. True: it is stored here; False:
        its home there is at another peer.
        """
        registries, known_closed = self.spice.registries.by_key, self._known_closed
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
            elif not known_closed or not contains(known_closed.get((tag, root, notch), EMPTY), at):
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
        self._schedule_flush()

    def _schedule_flush(self) -> None:
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
        self._confirm_together()

    def send_store(
        self, key: Key, entries: tuple[Entry, ...], token: int, holder: Address | None = None
    ) -> None:
        """Ask for these entries to be stored at their homes at a notch. `holder`: the last known
        holder, addressed directly.
        """
        together = len(entries) > 1 and not self.settings.assured
        way = RouteHeader((key[1], key[1] + 1)) if together else self._way(*key[1:], entries)
        store = StoreRequest(way, *key, entries, self.address, token)
        if together:
            self._split_by_hop(store)
        elif holder is not None:
            self.host.send(holder, store)
        else:
            self.surface.send(store)

    # --- storing

    def _keep(self, key: Key, entries: Sequence[Entry], answer: Answer) -> None:
        """Store entries. Those already backed up are acknowledged at once, the others after the
        backup.
        """
        records = [self.spice.registries.keep(key, each) for each in entries]
        safe = [
            (each.entry.member.name, each.entry.version, key[2]) for each in records if each.safe
        ]
        if len(safe) < len(records):
            self._schedule_flush()
            waiting = [
                (key, each.entry.member.name, each.entry.version, answer)
                for each in records
                if not each.safe
            ]
            self.unbacked += waiting[: max(0, UNBACKED_MAX - len(self.unbacked))]
        self._on_stored_here(key, entries, records)
        if safe:
            self.confirm(answer, key, safe)

    def _on_stored_here(
        self, key: Key, entries: Sequence[Entry], records: Sequence[Record]
    ) -> None:
        """Report stored entries to the other parts, and to a consumer whose stored version is newer
        than the one it sent.
        """
        self.spice.containers.on_records_stored(key, self.spice.registries.registry(key), records)
        for entry, record in (
            zip(entries, records, strict=True) if self.spice.signing.signed else ()
        ):
            # In a signed network a consumer accepts a newer version of itself only if it sees its
            # own signed entry.
            if record.entry.version > entry.version and entry.member.address != self.address:
                self.host.send(entry.member.address, NewerEntry(key[0], record.entry))

    def back_up(self) -> None:
        fresh, self.unbacked = self.unbacked, []
        records = {
            (key, name): self.spice.registries.record_of(key, name) for key, name, _, _ in fresh
        }
        items = (each.as_item(key) for (key, _), each in records.items() if each is not None)
        gone = self.spice.registries.take_forgotten()
        self.surface.replicate((*gone, *items), partial(self.confirm_backed_up, fresh))

    def confirm_backed_up(self, fresh: list[tuple[Key, Name, int, Answer]]) -> None:
        """All backups have these entries: acknowledge those that are still stored here and owned by
        this peer.
        """
        confirmed: dict[tuple[Answer, Key], list[StoredEntry]] = {}
        for key, consumer, version, answer in fresh:
            record = self.spice.registries.record_of(key, consumer)
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
        reply, token, asked = answer
        if reply == self.address:
            self.spice.on_stored(
                self.address, StoreAck(key[0], key[1], asked, token, tuple(stored))
            )
        elif self.settings.assured or token == OWN:
            self.host.send(reply, StoreAck(key[0], key[1], asked, token, tuple(stored)))
        else:
            self._confirmed.setdefault((answer, *key[:2]), {}).update(
                {each[0]: each for each in stored}
            )
            self._schedule_flush()

    def _confirm_together(self) -> None:
        confirmed, self._confirmed = self._confirmed, {}
        for ((reply, token, notch), tag, root), by_consumer in confirmed.items():
            registry, entries = (
                self.spice.registries.by_key.get((tag, root, notch)),
                list(by_consumer.values()),
            )
            closed = (
                registry.closed
                if registry is not None and notch and len(registry.closed) <= KNOWN_CLOSED_MAX
                else EMPTY
            )
            for start in range(0, len(entries), TOGETHER_MAX):
                ack = StoreAck(
                    tag, root, notch, token, tuple(entries[start : start + TOGETHER_MAX]), closed
                )
                self.host.send(reply, ack)

    def on_stored(self, sender: Address, stored: StoreAck) -> None:
        """The next notch has stored entries passed up from here: acknowledge them to the
        requesters.
        """
        key = (stored.tag, stored.root, stored.notch)
        if stored.closed and not self.settings.assured:
            known = unite(self._known_closed.get(key, EMPTY), stored.closed)
            if len(known) <= KNOWN_CLOSED_MAX:
                self._known_closed[key] = known
        answers: dict[Answer, list[StoredEntry]] = {}
        for stored_entry in stored.entries:
            ascent = self.ascents.get((key, stored_entry[0]))
            if (
                ascent is None
                or stored_entry[1] < ascent.entry.version
                or not ascent.token
                or stored.token < ascent.token
            ):
                continue
            del self.ascents[key, stored_entry[0]]
            if self.settings.assured and sender != self.address:
                self.holders_above.put((key, stored_entry[0]), sender)
            for answer in ascent.answers:
                if self._is_confirmed(key, ascent.entry, answer):
                    answers.setdefault(answer, []).append(stored_entry)
        for answer, stored_entries in answers.items():
            self.confirm(answer, key, stored_entries)

    def _is_confirmed(self, key: Key, entry: Entry, answer: Answer) -> bool:
        """Whether a cast that passes this peer still reaches the entry above. If the registry here
        was opened meanwhile, the entry is stored again from the requested notch.
        """
        if not self.settings.assured:
            return True
        tag, root, notch = key
        asked = answer[2]
        if not self.surface.answers(home(root, asked, entry.spot, self.settings.dimensions)):
            return False
        if self.find_notch(tag, root, asked, entry.spot) == (notch, False):
            return True
        self.store_entries(tag, root, asked, [entry], answer)
        return False
