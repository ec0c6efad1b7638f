"""Entries on their way to their homes: kept where a registry is open, passed up where it is closed.

Thesis section 8.1.1 and Listings 10 and 11. With receipts an entry is confirmed when it counts: when every heir has a
copy, and the place is still ours. Confirmations come down the way the entries went up, so that it is the peers that a
cast will pass that confirm: straight from the top they could confirm an entry above a registry that has been opened in
the meantime.

Inside one peer an entry climbs at once through all notches whose homes are ours. Entries and confirmations that go on
from one peer are collected for a moment and travel together (section 8.3.1).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from implicast.casting.spice.homes import home, homes, turn_of
from implicast.casting.spice.items import Key, all_proved
from implicast.casting.spice.messages import (
    TOGETHER_MAX,
    Entry,
    Kept,
    StoreAt,
    StoredAt,
    StoredLater,
)
from implicast.casting.spice.registry import Held
from implicast.casting.spice.share import Spice, SpicePart
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, Message, Name, handles
from implicast.peer.memory import Recent
from implicast.space.morton import BITS
from implicast.space.tract import EMPTY, Tract, contains, union, unite

OWN, RISING = 0, 1
"""Tokens of a consumer's own registration, and of records that a closed registry sends up; later ones name errands."""
LIFE_SHIFT, LIFE_MASK = 24, 0xFFFF
CLIMBS_MAX = 65_536
"""Entries that went up from one peer and are to be confirmed down; further ones are not taken, and asked for again."""
DOORS_MAX = 8_192
"""Holders above that are remembered, to go straight to them when a record is renewed; the oldest is forgotten."""
FRESH_MAX = 8_192
"""Entries that wait for the next batch; further ones are not confirmed, and asked for again."""
SHUT_MAX = 256
"""Ends of closed intervals remembered for one notch of a registry; who knows no more asks on the way."""

Answer = tuple[Address, int, int]
"""Whom to confirm to, the token of its errand, and the notch it asked for."""


class Flush(Message):
    """Rings when what was collected goes on together."""


@dataclass(slots=True)
class Climb:
    """An entry that went up from here on behalf of others."""

    entry: Entry
    answers: tuple[Answer, ...]
    token: int = 0
    """Of the first message in which it went; what answers an earlier one is about an earlier climb."""

    def join(self, entry: Entry, answer: Answer) -> None:
        """The same record comes by again."""
        if entry.version > self.entry.version:
            self.entry = entry
        if answer not in self.answers:
            self.answers = (*self.answers, answer)

    def leave(self, token: int) -> Entry:
        self.token = self.token or token
        return self.entry


class Stores(SpicePart):
    """A peer's part in storing the records of others."""

    __slots__ = (
        "_confirmed",
        "_flushing",
        "_fresh",
        "_outbox",
        "_shut",
        "above",
        "climbs",
        "tokens",
    )

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self.tokens = RISING + (
            (spice.incarnation & LIFE_MASK) << LIFE_SHIFT if self.settings.assured else 0
        )
        """Those of different lives differ: what answers an earlier life is not taken for an answer to this one."""
        self.climbs: dict[tuple[Key, Name], Climb] = {}
        self._outbox: dict[Key, dict[Name, Climb]] = {}
        self._confirmed: dict[tuple[Answer, str, int], dict[Name, Kept]] = {}
        """Confirmations that wait to go together (without receipts)."""
        self._fresh: list[tuple[Key, Name, int, Answer]] = []
        """Kept and not yet backed up: registry, consumer, version, and who waits for it."""
        self.above: Recent[tuple[Key, Name], Address] = Recent(DOORS_MAX)
        """Who confirmed a record that we passed up, by where it went and whose it is."""
        self._shut: dict[Key, Tract] = {}
        """What others have said to be closed for good, at notches above ours (without receipts)."""
        self._flushing = False

    def token(self) -> int:
        """A name for one errand of ours."""
        self.tokens += 1
        return self.tokens

    # --- arriving

    @handles(StoreAt)
    def on_store(self, sender: Address, store: StoreAt) -> None:
        if store.notch > self.settings.last_notch:
            return  # no surface has it, and nothing has a home there
        if len(store.entries) > 1 and not self.settings.assured:
            self._sort(store)
        elif (
            self.settings.assured
            and not (store.way.number or store.notch)
            and self.surface.answers(store.root)
        ):
            self._accept(
                store, store.entries
            )  # straight from a consumer that knows us as the owner
        else:
            self.spice.on_routed(sender, store)

    def arrived(self, part: Tract, store: StoreAt) -> None:
        root, notch, entries = store.root, store.notch, store.entries
        if notch or len(entries) > 1:
            places = homes(root, notch, [each.spot for each in entries], self.settings.dimensions)
            entries = tuple(
                [
                    each
                    for each, at in zip(entries, places, strict=True)
                    if bisect_right(part, at) & 1
                ]
            )
        self._accept(store, entries)

    def _accept(self, store: StoreAt, entries: Sequence[Entry]) -> None:
        if self.settings.is_place(store.tag, store.root, store.notch):
            entries = all_proved(self.spice.words, store.tag, entries)
            if not self.spice.copies.fans_out(store, entries):
                self.take(
                    store.tag,
                    store.root,
                    store.notch,
                    entries,
                    (store.reply, store.token, store.notch),
                )

    def _sort(self, store: StoreAt) -> None:
        """Listing 11 with homes, where hops are not confirmed: each peer gets what is at home there, each branch
        carries what is at home beyond it. Every record goes its own best way, and those with the same next hop travel
        together: branch factor 0, merged."""
        places = homes(
            store.root, store.notch, [each.spot for each in store.entries], self.settings.dimensions
        )
        ours, others = self.surface.routes.sort_by_hop(places, store.entries)
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

    def _way(self, root: int, notch: int, entries: Sequence[Entry]) -> Way:
        places = homes(root, notch, [each.spot for each in entries], self.settings.dimensions)
        return Way(
            union([(each, each + 1) for each in places])
            if len(places) != 1
            else (places[0], places[0] + 1)
        )

    def take(
        self, tag: str, root: int, notch: int, entries: Sequence[Entry], answer: Answer
    ) -> None:
        """Keep entries here, or pass them up, from this notch on."""
        registry = self.spice.shelf.registries.get((tag, root, notch))
        if not notch and (registry is None or not registry.closed) and self.surface.answers(root):
            self._keep(
                (tag, root, 0), entries, answer
            )  # all are at home here: half the cost of looking for each
            return
        places: dict[tuple[int, bool], list[Entry]] = {}
        for entry in entries:
            places.setdefault(self.climb(tag, root, notch, entry.spot), []).append(entry)
        rising = [each for (top, _), some in places.items() if top for each in some]
        if rising and self.settings.rarest and not notch:
            self.spice.shelf.registry((tag, root, 0)).pass_by(
                sum(_gain(tag, each) for each in rising)
            )
        for (top, stays), some in sorted(places.items(), key=lambda place: not place[0][1]):
            (self._keep if stays else self._send_up)((tag, root, top), some, answer)

    def climb(self, tag: str, root: int, notch: int, spot: int) -> tuple[int, bool]:
        """Where an entry belongs, from a notch on: kept here at that notch, or passed to it because it is not ours."""
        registries, shut, dimensions = (
            self.spice.shelf.registries,
            self._shut,
            self.settings.dimensions,
        )
        ground, turned = (
            self.surface.ground if not self.surface.is_doubtful else EMPTY,
            spot ^ turn_of(root),
        )
        while True:
            shift = notch * dimensions
            at = (
                root >> shift << shift | turned >> BITS - shift
            )  # `home`, of many notches: two thirds of the cost
            if bisect_right(ground, at) & 1:
                registry = registries.get((tag, root, notch))
                if (
                    registry is None
                    or not bisect_right(registry.closed, at) & 1
                    or contains(registry.gathering, at)
                ):
                    return notch, True
            elif not shut or not contains(shut.get((tag, root, notch), EMPTY), at):
                return notch, False
            notch = notch + 1 if notch else self.settings.first_notch

    # --- going up

    def _send_up(self, key: Key, entries: Sequence[Entry], answer: Answer) -> None:
        outbox = self._outbox.setdefault(key, {})
        for entry in entries:
            name = entry.member.name
            climb = self.climbs.get((key, name))
            if climb is not None:
                climb.join(entry, answer)
            elif len(self.climbs) < CLIMBS_MAX:
                climb = self.climbs[key, name] = Climb(entry, (answer,))
            else:
                continue
            outbox[name] = climb
        self._flush_later()

    def _flush_later(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.host.after(self.settings.collect_us, Flush())

    @handles(Flush)
    def on_flush(self, alarm: Flush) -> None:
        self._flushing = False
        outbox, self._outbox = self._outbox, {}
        for key, climbs in outbox.items():
            waiting = list(climbs.values())
            for start in range(0, len(waiting), TOGETHER_MAX):
                token = self.token()
                entries = tuple(each.leave(token) for each in waiting[start : start + TOGETHER_MAX])
                # Taken out until it confirms again: if it is silent, the next one goes by way of the surface.
                door = (
                    self.above.pop((key, entries[0].member.name), None)
                    if len(entries) == 1
                    else None
                )
                self.send_store(key, entries, token, door)
        if self._fresh:
            self._back_up()
        self._confirm_together()

    def send_store(
        self, key: Key, entries: tuple[Entry, ...], token: int, door: Address | None = None
    ) -> None:
        """On our own behalf, to the entries' homes at a notch; `door`: by way of the peer that had it there last."""
        together = len(entries) > 1 and not self.settings.assured
        way = Way((key[1], key[1] + 1)) if together else self._way(*key[1:], entries)
        store = StoreAt(way, *key, entries, self.address, token)
        if together:
            self._sort(store)
        elif door is not None:
            self.host.send(door, store)
        else:
            self.surface.send(store)

    # --- keeping

    def _keep(self, key: Key, entries: Sequence[Entry], answer: Answer) -> None:
        """Keep entries; what heirs do not have yet is confirmed when they have."""
        held = [self.spice.shelf.keep(key, each) for each in entries]
        safe = [(each.entry.member.name, each.entry.version, key[2]) for each in held if each.safe]
        if len(safe) < len(held):
            self._flush_later()
            waiting = [
                (key, each.entry.member.name, each.entry.version, answer)
                for each in held
                if not each.safe
            ]
            self._fresh += waiting[: max(0, FRESH_MAX - len(self._fresh))]
        self._show(key, entries, held)
        if safe:
            self.confirm(answer, key, safe)

    def _show(self, key: Key, entries: Sequence[Entry], held: Sequence[Held]) -> None:
        """To those whom it concerns that these entries came, and what is held of their consumers now."""
        self.spice.containers.kept(key, self.spice.shelf.registry(key), held)
        for entry, kept in zip(entries, held, strict=True) if self.spice.words.signed else ():
            # Where words are signed an owner believes in its later life only when it sees its own word.
            if kept.entry.version > entry.version and entry.member.address != self.address:
                self.host.send(entry.member.address, StoredLater(key[0], kept.entry))

    def _back_up(self) -> None:
        fresh, self._fresh = self._fresh, []
        held = {(key, name): self.spice.shelf.held(key, name) for key, name, _, _ in fresh}
        items = (each.as_item(key) for (key, _), each in held.items() if each is not None)
        gone = self.spice.shelf.take_forgotten()
        self.surface.batch((*gone, *items), partial(self._counts, fresh))

    def _counts(self, fresh: list[tuple[Key, Name, int, Answer]]) -> None:
        """All heirs have these: confirm what is still here and ours."""
        confirmed: dict[tuple[Answer, Key], list[Kept]] = {}
        for key, consumer, version, answer in fresh:
            held = self.spice.shelf.held(key, consumer)
            if held is None or held.entry.version < version or not self.surface.answers(held.home):
                continue
            if held.entry.version == version:
                held.secure()
            confirmed.setdefault((answer, key), []).append((consumer, version, key[2]))
        for (answer, key), kept in confirmed.items():
            self.confirm(answer, key, kept)

    # --- confirming

    def confirm(self, answer: Answer, key: Key, kept: Sequence[Kept]) -> None:
        reply, token, asked = answer
        if reply == self.address:
            self.spice.on_stored(self.address, StoredAt(key[0], key[1], asked, token, tuple(kept)))
        elif self.settings.assured or token == OWN:
            self.host.send(reply, StoredAt(key[0], key[1], asked, token, tuple(kept)))
        else:
            self._confirmed.setdefault((answer, *key[:2]), {}).update(
                {each[0]: each for each in kept}
            )
            self._flush_later()

    def _confirm_together(self) -> None:
        confirmed, self._confirmed = self._confirmed, {}
        for ((reply, token, notch), tag, root), kept in confirmed.items():
            registry, each = (
                self.spice.shelf.registries.get((tag, root, notch)),
                list(kept.values()),
            )
            shut = (
                registry.closed
                if registry is not None and notch and len(registry.closed) <= SHUT_MAX
                else EMPTY
            )
            for start in range(0, len(each), TOGETHER_MAX):
                stored = StoredAt(
                    tag, root, notch, token, tuple(each[start : start + TOGETHER_MAX]), shut
                )
                self.host.send(reply, stored)

    def stored(self, sender: Address, stored: StoredAt) -> None:
        """The next notch has entries that went up from here: tell those who wait for them."""
        key = (stored.tag, stored.root, stored.notch)
        if stored.shut and not self.settings.assured:
            known = unite(self._shut.get(key, EMPTY), stored.shut)
            if len(known) <= SHUT_MAX:
                self._shut[key] = known
        answers: dict[Answer, list[Kept]] = {}
        for kept in stored.kept:
            climb = self.climbs.get((key, kept[0]))
            if (
                climb is None
                or kept[1] < climb.entry.version
                or not climb.token
                or stored.token < climb.token
            ):
                continue
            del self.climbs[key, kept[0]]
            if self.settings.assured and sender != self.address:
                self.above.put((key, kept[0]), sender)
            for answer in climb.answers:
                if self._is_confirmed(key, climb.entry, answer):
                    answers.setdefault(answer, []).append(kept)
        for answer, all_kept in answers.items():
            self.confirm(answer, key, all_kept)

    def _is_confirmed(self, key: Key, entry: Entry, answer: Answer) -> bool:
        """Would a cast that passes us still go where the entry is? If we have been opened meanwhile, it is taken."""
        if not self.settings.assured:
            return True
        tag, root, notch = key
        asked = answer[2]
        if not self.surface.answers(home(root, asked, entry.spot, self.settings.dimensions)):
            return False
        if self.climb(tag, root, asked, entry.spot) == (notch, False):
            return True
        self.take(tag, root, asked, [entry], answer)
        return False


def _gain(tag: str, entry: Entry) -> int:
    """Is this one more under its tag, one less, or only news?"""
    if entry.description is None:
        return -1
    return int(entry.before is None or tag not in entry.before.tags)
