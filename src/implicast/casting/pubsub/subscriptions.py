"""One peer's own subscriptions, stored in the lists of all values that they admit.

Each term of a target is a subscription in the paper's sense, with its own id; the terms together
have the number that the application knows. An update moves only the difference between the old and
the new ranges, unless the number of constrained attributes changes, which is part of the id.
Sections 3.1.1 and 3.1.2.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from implicast.casting.pubsub.messages import DurablePubSub, DurableSubscription, DurableTerm
from implicast.casting.pubsub.value_mapping import SUBSCRIBERS, TAG, Span, ValueMapping
from implicast.casting.replicated_lists.entries import PRESENT, OwnEntry
from implicast.casting.replicated_lists.own_entries import OwnEntries
from implicast.language.target import Description, Target, Term
from implicast.overlay.chord import Chord
from implicast.peer.contract import Message
from implicast.peer.subscriber import Subscribed, Unsubscribed
from implicast.space.steps import overlap


class SubscribedTerm(NamedTuple):
    """One term of a subscription: its id, its ranges of values, and its entries in lists."""

    sub_id: int
    term: Term
    spans: list[Span]
    own_entries: list[OwnEntry]

    def durable_state(self) -> DurableTerm:
        serials = tuple(own_entry.serial for own_entry in self.own_entries)
        return DurableTerm(self.sub_id, self.term, serials)


class Subscription(NamedTuple):
    """A subscription of the application; `version` counts its updates."""

    version: int
    entries: list[SubscribedTerm]


class Subscriptions:
    """All subscriptions of one peer."""

    __slots__ = (
        "_chord",
        "_deliver",
        "_free",
        "_last_number",
        "_last_sub",
        "_layout",
        "_mapping",
        "_own_entries",
        "by_number",
        "by_sub_number",
    )

    def __init__(
        self,
        own_entries: OwnEntries,
        mapping: ValueMapping,
        chord: Chord,
        deliver: Callable[[Message], None],
    ) -> None:
        """`deliver(event)` tells the application what is complete."""
        self._own_entries, self._chord, self._deliver = own_entries, chord, deliver
        self._mapping, self._layout = mapping, mapping.layout
        self.by_number: dict[int, Subscription] = {}
        self.by_sub_number: dict[int, SubscribedTerm] = {}
        self._last_number = self._last_sub = 0
        self._free: list[int] = []

    def state(self) -> tuple[int, int, tuple[DurableSubscription, ...]]:
        """Return the last numbers and all subscriptions for durable state."""
        saved = tuple(
            DurableSubscription(number, one.version, tuple(e.durable_state() for e in one.entries))
            for number, one in self.by_number.items()
        )
        return self._last_number, self._last_sub, saved

    def restore(self, state: DurablePubSub) -> None:
        """Restore the subscriptions of an earlier incarnation."""
        self._last_number, self._last_sub = state.last_number, state.last_sub
        known = self._own_entries.table.by_serial
        for one in state.subscriptions:
            entries = []
            for e in one.entries:
                own_entries = [known[serial] for serial in e.own_entries]
                spans = self._mapping.spans(e.term)
                entries.append(SubscribedTerm(e.sub_id, e.term, spans, own_entries))
            self.by_number[one.number] = Subscription(one.version, entries)
            self.by_sub_number |= {self._layout.number(entry.sub_id): entry for entry in entries}

    def put_again(self) -> None:
        """Put the restored entries again after joining: those that are neither confirmed nor being
        put.
        """
        restored = [one for one in self.own_entries() if not one.confirmed and not one.missing]
        self._own_entries.put_again([(one, (one.low, one.high)) for one in restored])

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def put(self, number: int, target: Target) -> None:
        """Change the stored ranges from those of the present subscription, if there is one, to
        those of `target`.
        """
        version, before = self.by_number.get(number, (0, []))
        former = {shape(entry.spans): entry for entry in reversed(before)}
        put: list[OwnEntry] = []
        entries: list[SubscribedTerm] = []
        for term in target.terms:
            spans = self._mapping.spans(term)
            same = former.pop(shape(spans), None)
            entry, own_entries = (
                self._issue(term, spans) if same is None else self._move(same, term, spans)
            )
            entries.append(entry)
            put += own_entries
        stays = {entry.sub_id for entry in entries}
        for entry in before:
            put += self._take_out(entry) if entry.sub_id not in stays else []
        self.by_number[number] = Subscription(version + 1, entries)
        self._own_entries.put(put, partial(self._on_put, number, version + 1))

    def _on_put(self, number: int, version: int) -> None:
        if number in self.by_number:
            self._deliver(Subscribed(number, version))

    def end(self, number: int) -> None:
        subscription = self.by_number.pop(number, None)
        if subscription is not None:
            removals = [one for entry in subscription.entries for one in self._take_out(entry)]
            self._own_entries.put(removals, partial(self._deliver, Unsubscribed(number)))

    def own_entries(self) -> list[OwnEntry]:
        """Return the own entries of all subscriptions."""
        terms = [entry for one in self.by_number.values() for entry in one.entries]
        return [own_entry for entry in terms for own_entry in entry.own_entries]

    def forget_all(self) -> None:
        self.by_number, self.by_sub_number = {}, {}

    def admit(self, numbers: Iterable[int], event: Description) -> bool:
        """Whether an event satisfies one of the terms with these numbers, as they are now."""
        entries = [self.by_sub_number[number] for number in numbers if number in self.by_sub_number]
        return any(entry.term.selects(event) for entry in entries)

    def _issue(self, term: Term, spans: list[Span]) -> tuple[SubscribedTerm, list[OwnEntry]]:
        """Create a term under a new id."""
        if self._last_sub < self._layout.numbers_max:
            number, self._last_sub = self._last_sub, self._last_sub + 1
        else:
            number = self._free.pop(0)
        sub_id = self._layout.pack(self._chord.table.own, number, len(spans))
        own_entries = self._pieces(sub_id, spans)
        entry = self.by_sub_number[number] = SubscribedTerm(sub_id, term, spans, own_entries)
        return entry, own_entries

    def _pieces(self, sub_id: int, spans: Iterable[Span]) -> list[OwnEntry]:
        nodes, new_entry = self._chord.nodes_estimate(), self._own_entries.table.new_entry
        ranges = (each for span in spans for each in self._mapping.ranges(SUBSCRIBERS, span, nodes))
        return [new_entry((each, sub_id, PRESENT)) for each in ranges]

    def _move(
        self, entry: SubscribedTerm, term: Term, spans: list[Span]
    ) -> tuple[SubscribedTerm, list[OwnEntry]]:
        """Put the values that are new, remove those that are gone; the others stay in place."""
        new = [span for old, now in zip(entry.spans, spans, strict=True) for span in now.minus(old)]
        additions = self._pieces(entry.sub_id, new)
        wanted = {span.attribute: span for span in spans if span.attribute != TAG}
        staying, removals = [], []
        for one in entry.own_entries:
            span = wanted.get(one.attribute)
            if span is None or overlap((one.low, one.high), (span.low, span.high)) is not None:
                staying.append(one)
            if span is not None:
                removals += self._own_entries.table.narrow(one, span.low, span.high)
        moved = SubscribedTerm(entry.sub_id, term, spans, [*staying, *additions])
        self.by_sub_number[self._layout.number(entry.sub_id)] = moved
        return moved, [*additions, *removals]

    def _take_out(self, entry: SubscribedTerm) -> list[OwnEntry]:
        """Return the removals of a term. Its number goes to the end of the free list, so that it is
        not reused while late messages about it may arrive.
        """
        number = self._layout.number(entry.sub_id)
        del self.by_sub_number[number]
        self._free.append(number)
        return list(map(self._own_entries.table.removal, entry.own_entries))


def shape(spans: Iterable[Span]) -> tuple[tuple[str, object], ...]:
    """Return what must be equal for an update to move only the difference: the attributes, and the
    tags.
    """
    return tuple((span.attribute, span.low if span.attribute == TAG else None) for span in spans)
