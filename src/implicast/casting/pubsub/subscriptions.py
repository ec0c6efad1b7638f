"""One peer's own subscriptions: stored in the lists of all values they admit.

Each term of a target is a subscription of its own in the paper's sense, with its own id; together they have the number
the application knows. Updating moves only the difference between the old ranges and the new, unless the constrained
attributes change, whose number is part of the id. Sections 3.1.1 and 3.1.2.
"""

from collections.abc import Iterable
from typing import NamedTuple

from implicast.casting.keeping.layings import Layings
from implicast.casting.keeping.pieces import HERE, Piece, overlap
from implicast.casting.pubsub.arrangement import SUBSCRIBERS, TAG, Arrangement, Span
from implicast.casting.pubsub.messages import KeptEntry, KeptPubSub, KeptSubscription
from implicast.language.target import Description, Target, Term
from implicast.overlay.chord import Chord


class FiledTerm(NamedTuple):
    """One term of a subscription, under its own id, with what is laid for it."""

    sub_id: int
    term: Term
    spans: list[Span]
    pieces: list[Piece]


class Subscription(NamedTuple):
    """What the application subscribed to, and how often it has reworded it."""

    version: int
    entries: list[FiledTerm]


class Subscriptions:
    """What one peer wants to hear."""

    __slots__ = (
        "_arrangement",
        "_chord",
        "_free",
        "_last_number",
        "_last_sub",
        "_layings",
        "_layout",
        "by_number",
        "by_sub_number",
    )

    def __init__(self, layings: Layings, arrangement: Arrangement, chord: Chord) -> None:
        self._layings, self._arrangement, self._layout, self._chord = (
            layings,
            arrangement,
            arrangement.layout,
            chord,
        )
        self.by_number: dict[int, Subscription] = {}
        self.by_sub_number: dict[int, FiledTerm] = {}
        self._last_number = self._last_sub = 0
        self._free: list[int] = []

    def kept(self) -> tuple[int, int, tuple[KeptSubscription, ...]]:
        """Last numbers, and all subscriptions, as they are written down."""
        kept = []
        for number, one in self.by_number.items():
            entries = (
                KeptEntry(e.sub_id, e.term, tuple(piece.serial for piece in e.pieces))
                for e in one.entries
            )
            kept.append(KeptSubscription(number, one.version, tuple(entries)))
        return self._last_number, self._last_sub, tuple(kept)

    def restore(self, kept: KeptPubSub, pieces: dict[int, Piece]) -> None:
        """An earlier life left this; `pieces` by the serials they had then."""
        self._last_number, self._last_sub = kept.last_number, kept.last_sub
        for one in kept.subscriptions:
            entries = [
                FiledTerm(
                    e.sub_id,
                    e.term,
                    self._arrangement.spans(e.term),
                    [pieces[serial] for serial in e.pieces],
                )
                for e in one.entries
            ]
            self.by_number[one.number] = Subscription(one.version, entries)
            self.by_sub_number |= {self._layout.number(entry.sub_id): entry for entry in entries}

    def lay_again(self) -> None:
        """This peer is back on the ring: what an earlier life laid is laid again, confirmed or not."""
        restored = [piece for piece in self.pieces() if not piece.held and not piece.missing]
        self._layings.lay_again([(piece, (piece.low, piece.high)) for piece in restored])

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def state(self, number: int, target: Target) -> None:
        """Bring the lists from what the subscription said, if anything, to what it says now."""
        version, before = self.by_number.get(number, (0, []))
        former = {shape(entry.spans): entry for entry in reversed(before)}
        laid: list[Piece] = []
        entries: list[FiledTerm] = []
        for term in target.terms:
            spans = self._arrangement.spans(term)
            kept = former.pop(shape(spans), None)
            entry, pieces = (
                self._issue(term, spans) if kept is None else self._move(kept, term, spans)
            )
            entries.append(entry)
            laid += pieces
        stays = {entry.sub_id for entry in entries}
        laid += [
            piece
            for entry in before
            if entry.sub_id not in stays
            for piece in self._take_out(entry)
        ]
        self.by_number[number] = Subscription(version + 1, entries)
        self._layings.lay(("subscribe", number, version + 1), laid)

    def end(self, number: int) -> None:
        subscription = self.by_number.pop(number, None)
        if subscription is not None:
            removals = [piece for entry in subscription.entries for piece in self._take_out(entry)]
            self._layings.lay(("unsubscribe", number, 0), removals)

    def pieces(self) -> list[Piece]:
        """What is laid for all of them."""
        return [
            piece
            for one in self.by_number.values()
            for entry in one.entries
            for piece in entry.pieces
        ]

    def forget_all(self) -> None:
        self.by_number, self.by_sub_number = {}, {}

    def admit(self, numbers: Iterable[int], event: Description) -> bool:
        """Whether an event satisfies one of the subscriptions with these numbers within this node, as they are now."""
        entries = [self.by_sub_number[number] for number in numbers if number in self.by_sub_number]
        return any(entry.term.selects(event) for entry in entries)

    def _issue(self, term: Term, spans: list[Span]) -> tuple[FiledTerm, list[Piece]]:
        """A new entry under a new id."""
        if self._last_sub < self._layout.numbers_max:
            number, self._last_sub = self._last_sub, self._last_sub + 1
        else:
            number = self._free.pop(0)
        sub_id = self._layout.pack(self._chord.table.own, number, len(spans))
        pieces = self._pieces(sub_id, spans)
        entry = self.by_sub_number[number] = FiledTerm(sub_id, term, spans, pieces)
        return entry, pieces

    def _pieces(self, sub_id: int, spans: Iterable[Span]) -> list[Piece]:
        nodes = self._chord.nodes_estimate()
        ranges = (
            each for span in spans for each in self._arrangement.ranges(SUBSCRIBERS, span, nodes)
        )
        return [self._layings.piece(each, sub_id, HERE) for each in ranges]

    def _move(
        self, entry: FiledTerm, term: Term, spans: list[Span]
    ) -> tuple[FiledTerm, list[Piece]]:
        """Lay what is new, take out what is no longer so; the rest stays where it is."""
        new = [span for old, now in zip(entry.spans, spans, strict=True) for span in now.minus(old)]
        additions = self._pieces(entry.sub_id, new)
        wanted = {span.attribute: span for span in spans if span.attribute != TAG}
        kept, removals = [], []
        for piece in entry.pieces:
            span = wanted.get(piece.attribute)
            if span is None or overlap((piece.low, piece.high), (span.low, span.high)) is not None:
                kept.append(piece)
            removals += [] if span is None else self._layings.narrow(piece, span.low, span.high)
        moved = FiledTerm(entry.sub_id, term, spans, [*kept, *additions])
        self.by_sub_number[self._layout.number(entry.sub_id)] = moved
        return moved, [*additions, *removals]

    def _take_out(self, entry: FiledTerm) -> list[Piece]:
        """A number that is free again goes to the end of the line, so that late news of its former bearer is past."""
        number = self._layout.number(entry.sub_id)
        del self.by_sub_number[number]
        self._free.append(number)
        return [self._layings.removal(piece) for piece in entry.pieces]


def shape(spans: Iterable[Span]) -> tuple[tuple[str, object], ...]:
    """What must be equal for an update to move the difference only: the attributes, and which tags."""
    return tuple((span.attribute, span.low if span.attribute == TAG else None) for span in spans)
