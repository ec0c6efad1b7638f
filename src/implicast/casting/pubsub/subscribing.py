"""The consumer's side of publish/subscribe: subscriptions are stored in the lists of all values they admit.

Each term of a target is a subscription of its own in the paper's sense, with its own id; together they have the number
the application knows. Updating moves only the difference between the old ranges and the new, unless the number
of constrained attributes changes, which is part of the id. Sections 3.1.1 and 3.1.2.
"""

from collections import deque
from dataclasses import dataclass, field

from implicast.casting.pubsub.laying import SUBSCRIBERS, Laying
from implicast.casting.pubsub.messages import Spread
from implicast.casting.pubsub.placing import TAG, Span, spans_of
from implicast.language.target import Target, Term
from implicast.peer.contract import Address, handles
from implicast.peer.events import Refused
from implicast.peer.subscriber import Subscribed, Unsubscribed


@dataclass(slots=True)
class Entry:
    """One term of a subscription, under its own id."""

    sub_id: int
    term: Term
    spans: list[Span]

    def shape(self) -> tuple[tuple[str, object], ...]:
        """What must be equal for an update to move the difference only: the attributes, and which tags."""
        return tuple((span.attribute, span.low if span.attribute == TAG else None) for span in self.spans)


@dataclass(slots=True)
class Subscription:
    """What the application subscribed to, and how often it has reworded it."""

    target: Target
    version: int = 1
    entries: list[Entry] = field(default_factory=list)


class Subscribing(Laying):
    """Keeps the metadata of its own subscriptions; keeps lists for others."""

    __slots__ = ("_free", "_last_number", "_last_sub", "by_sub_number", "subscriptions")

    def start_subscribing(self) -> None:
        self.subscriptions: dict[int, Subscription] = {}
        self.by_sub_number: dict[int, Entry] = {}
        self._last_number = self._last_sub = 0
        self._free: deque[int] = deque()

    # Verbs

    def subscribe(self, target: Target) -> int:
        self._last_number += 1
        number = self._last_number
        if not self._is_refused("subscribe", target):
            self.subscriptions[number] = Subscription(target)
            self._restate(number, target)
        return number

    def update(self, number: int, target: Target) -> None:
        if number in self.subscriptions and not self._is_refused("update", target):
            self.subscriptions[number].version += 1
            self._restate(number, target)

    def unsubscribe(self, number: int) -> None:
        subscription = self.subscriptions.pop(number, None)
        if subscription is not None:
            removals = [request for entry in subscription.entries for request in self._removals(entry, entry.spans)]
            for entry in subscription.entries:
                self._release(entry)
            self.lay(("unsubscribe", number), removals)

    def _is_refused(self, verb: str, target: Target) -> bool:
        reason = self.arrangement.refusal(target, len(self.by_sub_number))
        if reason is not None:
            self.host.deliver(Refused(verb, reason))
        return reason is not None

    # Wording

    def _restate(self, number: int, target: Target) -> None:
        """Bring the lists from what the subscription said to what it says now."""
        subscription = self.subscriptions[number]
        former = {entry.shape(): entry for entry in reversed(subscription.entries)}
        requests: list[Spread] = []
        entries: list[Entry] = []
        for term in target.terms:
            entry = self._entry(term)
            kept = former.pop(entry.shape(), None)
            if kept is None:
                requests += self._additions(self._issue(entry), entry.spans)
                entries.append(entry)
            else:
                requests += self._difference(kept, entry.spans)
                kept.term, kept.spans = term, entry.spans
                entries.append(kept)
        for entry in subscription.entries:
            if not any(entry is kept for kept in entries):
                requests += self._removals(entry, entry.spans)
                self._release(entry)
        subscription.target, subscription.entries = target, entries
        self.lay(("subscribe", number, subscription.version), requests)

    def _entry(self, term: Term) -> Entry:
        return Entry(-1, term, spans_of(term, self.arrangement.schema))

    def _issue(self, entry: Entry) -> Entry:
        """Give a new entry its id."""
        if self._last_sub < self.arrangement.layout.numbers_max:
            number, self._last_sub = self._last_sub, self._last_sub + 1
        else:
            number = self._free.popleft()
        entry.sub_id = self.arrangement.layout.pack(self.chord.table.own, number, len(entry.spans))
        self.by_sub_number[number] = entry
        return entry

    def _release(self, entry: Entry) -> None:
        """A number that is free again goes to the end of the line, so that late news of its former bearer is past."""
        number = self.arrangement.layout.number(entry.sub_id)
        del self.by_sub_number[number]
        self._free.append(number)

    def _difference(self, entry: Entry, spans: list[Span]) -> list[Spread]:
        requests: list[Spread] = []
        for old, new in zip(entry.spans, spans, strict=True):
            requests += self._additions(entry, new.minus(old)) + self._removals(entry, old.minus(new))
        return requests

    def _additions(self, entry: Entry, spans: list[Span]) -> list[Spread]:
        return self._spreads(entry, spans, remove=False)

    def _removals(self, entry: Entry, spans: list[Span]) -> list[Spread]:
        return self._spreads(entry, spans, remove=True)

    def _spreads(self, entry: Entry, spans: list[Span], remove: bool) -> list[Spread]:
        hashing = self.arrangement.hashing
        requests = []
        for span in spans:
            walks = self.walks(span)
            for piece in hashing.pieces(span):
                key, serial = hashing.key(piece.attribute, piece.low), self.next_request()
                requests.append(
                    Spread(key, piece.attribute, piece.low, piece.high, entry.sub_id, serial, remove, self.address,
                           serial, walks, False)
                )  # fmt: skip
        return requests

    # Lists for others

    @handles(Spread)
    def on_spread(self, sender: Address, spread: Spread) -> None:
        if not self.comes_by(sender, spread):
            return
        own = self.own_values(spread)
        for key, value in own:
            self._keep(key, (SUBSCRIBERS, spread.attribute, value), spread)
        last = own[-1][1]
        if last == spread.high:
            self.acknowledge(spread.origin, spread.serial)
            return
        assert isinstance(last, int), "only ranges of numbers go on"
        key = self.arrangement.hashing.key(spread.attribute, last + 1)
        onward = Spread(key, spread.attribute, last + 1, spread.high, spread.sub_id, spread.version, spread.remove,
                        spread.origin, spread.serial, spread.walks, spread.walks)  # fmt: skip
        self.on_spread(self.address, onward)

    def _keep(self, key: int, slot: object, spread: Spread) -> None:
        """The newest word counts: a request that was overtaken must not undo what overtook it."""
        known = self.shelves.get(slot).get(spread.sub_id, 0)
        if known > spread.version:
            return
        if spread.remove:
            self.shelves.drop(slot, spread.sub_id)
        else:
            self.shelves.put(key, slot, spread.sub_id, spread.version)

    def laid(self, group: tuple[str, int, int]) -> None:
        if group[0] == "unsubscribe":
            self.host.deliver(Unsubscribed(group[1]))
        elif group[0] == "subscribe":
            self.host.deliver(Subscribed(group[1], group[2]))
