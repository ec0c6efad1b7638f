"""Publish/subscribe where peers crash: the same lists, kept with copies (`keeping/`), and everything confirmed.

Ids, hashes, counting and the owner's last look are those of a kind world (`subscribing.py`, `publishing.py`,
`profiles.py`). What differs: an entry of a subscription also says where its owner lives, so that publications need not
be routed through nodes that may have died; a range is confirmed stretch by stretch; a reworded range is laid anew as a
whole, and only what it no longer admits is taken out.
"""

from collections import deque
from functools import lru_cache

import msgspec

from implicast.casting.designs import Plan
from implicast.casting.inbox import Seen
from implicast.casting.keeping import LivingMember, Piece, Question
from implicast.casting.keeping.messages import Matched, Row
from implicast.casting.pubsub.laying import PEERS, SUBSCRIBERS, Arrangement
from implicast.casting.pubsub.placing import Span, spans_of
from implicast.casting.pubsub.publishing import matching, names_of
from implicast.casting.pubsub.walking import nodes_estimate, walks
from implicast.language.target import Description, Scalar, Target, Term
from implicast.peer.contract import Address, CastId, handles
from implicast.peer.events import Notice, Refused
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed

DECODED_MAX = 4096
"""Descriptions that are remembered as decoded: those in busy lists come again and again."""
_profile = lru_cache(DECODED_MAX)(msgspec.msgpack.Decoder(tuple[int, Description]).decode)
_address = msgspec.msgpack.Decoder(Address)


class Worded:
    """One subscription as it is now: its wording, and what is laid for each of its terms."""

    __slots__ = ("pieces", "target", "terms", "version")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.version = 0
        self.terms: dict[int, Term] = {}
        """By number within this node, part of the id."""
        self.pieces: list[Piece] = []


class LivingPubSub(LivingMember, Subscriber):
    """A member that subscribes, publishes, describes itself and casts."""

    __slots__ = ("_free", "_last_number", "_last_sub", "arrangement", "seen", "subscriptions", "terms")

    def __init__(self, plan: Plan, address: int, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        super().__init__(address, plan.host(address), plan.seed, plan.parameters)
        self.subscriptions: dict[int, Worded] = {}
        self.terms: dict[int, Term] = {}
        self.seen = Seen()
        self._last_number = self._last_sub = 0
        self._free: deque[int] = deque()

    def key_of(self, attribute: str, value: Scalar) -> int:
        return self.arrangement.hashing.key(attribute, value)

    def owner_of(self, row: Row) -> Address:
        return row.name if row.slot[0] == PEERS else _address.decode(row.packed)

    def leave(self) -> None:
        self.subscriptions, self.terms = {}, {}
        super().leave()

    def is_of_description(self, piece: Piece) -> bool:
        return piece.shelf == PEERS

    def _walks(self, span: Span) -> bool:
        nodes = nodes_estimate(self.chord.table, self.links.lefts)
        return walks(self.arrangement.walk, self.arrangement.hashing, span, nodes)

    def _ranges(self, shelf: str, span: Span) -> list[tuple[str, str, Scalar, Scalar, bool]]:
        walked = self._walks(span)
        pieces = self.arrangement.hashing.pieces(span)
        return [(shelf, piece.attribute, piece.low, piece.high, walked) for piece in pieces]

    # Peers hold values, casts hold predicates

    def entries(self, description: Description) -> list[Piece]:
        assert isinstance(self.address, int), "entries are named by addresses"
        packed = msgspec.msgpack.encode((self.version, description))
        return [
            self.layings.piece(PEERS, attribute, value, value, self.address, packed, False)
            for attribute, value in names_of(description)
        ]

    def question(self, target: Target, payload: bytes) -> Question | str:
        schema, values_max = self.arrangement.schema, self.arrangement.values_max
        chosen = [min(spans, key=len) for term in target.terms if (spans := spans_of(term, schema))]
        if len(chosen) < len(target.terms) or sum(map(len, chosen)) > values_max:
            return f"every term needs a tag or a predicate, and all together at most {values_max} values (values_max)"
        return Question((target, payload), [each for span in chosen for each in self._ranges(PEERS, span)])

    def found(self, cast: CastId, question: Question) -> None:
        told, payload = question.about
        if isinstance(told, Description):
            self._found_subscriptions(cast, question, told, payload)
            return
        newest: dict[Address, tuple[int, Description]] = {}
        for piece in range(len(question.ranges)):
            for owner, packed in question.found(piece):
                profile = _profile(packed)
                if owner not in newest or newest[owner][0] < profile[0]:
                    newest[owner] = profile
        selected = sorted((owner for owner, (_, one) in newest.items() if told.selects(one)), key=repr)
        self.tell_all(cast, told, payload, selected)

    # Subscriptions hold predicates, publications hold values

    def subscribe(self, target: Target) -> int:
        self._last_number += 1
        if not self._is_refused("subscribe", target):
            self.subscriptions[self._last_number] = Worded(target)
            self._reword(self._last_number, target)
        return self._last_number

    def update(self, number: int, target: Target) -> None:
        if number in self.subscriptions and not self._is_refused("update", target):
            self._reword(number, target)

    def unsubscribe(self, number: int) -> None:
        worded = self.subscriptions.pop(number, None)
        if worded is not None:
            self._release(worded)
            self.layings.lay(("unsubscribe", number, 0), [self.layings.removal(piece) for piece in worded.pieces])

    def _is_refused(self, verb: str, target: Target) -> bool:
        reason = self.arrangement.refusal(target, len(self.terms))
        if reason is not None:
            self.host.deliver(Refused(verb, reason))
        return reason is not None

    def _reword(self, number: int, target: Target) -> None:
        """Lay what it says now under new ids, and take out what it said."""
        worded = self.subscriptions[number]
        removals = [self.layings.removal(piece) for piece in worded.pieces]
        self._release(worded)
        worded.target, worded.version = target, worded.version + 1
        worded.pieces = [piece for term in target.terms for piece in self._issue(worded, term)]
        self.layings.lay(("subscribe", number, worded.version), [*worded.pieces, *removals])

    def _issue(self, worded: Worded, term: Term) -> list[Piece]:
        spans, layout = spans_of(term, self.arrangement.schema), self.arrangement.layout
        if self._last_sub < layout.numbers_max:
            number, self._last_sub = self._last_sub, self._last_sub + 1
        else:
            number = self._free.popleft()
        self.terms[number] = worded.terms[number] = term
        sub_id = layout.pack(self.chord.table.own, number, len(spans))
        packed = msgspec.msgpack.encode(self.address)
        return [
            self.layings.piece(shelf, attribute, low, high, sub_id, packed, walked)
            for span in spans
            for shelf, attribute, low, high, walked in self._ranges(SUBSCRIBERS, span)
        ]

    def _release(self, worded: Worded) -> None:
        """A number that is free again goes to the end of the line, so that late news of its former bearer is past."""
        for number in worded.terms:
            del self.terms[number]
            self._free.append(number)
        worded.terms = {}

    def laid(self, group: tuple[str, int, int]) -> None:
        if group[0] == "unsubscribe":
            self.host.deliver(Unsubscribed(group[1]))
        elif group[1] in self.subscriptions:
            self.host.deliver(Subscribed(group[1], group[2]))

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        ranges = [(SUBSCRIBERS, attribute, value, value, False) for attribute, value in names_of(description)]
        if ranges and not self.asking.ask(cast, Question((description, payload), ranges)):
            self.host.deliver(Refused("publish", "too many publications await their lists"))
        return cast

    def _found_subscriptions(self, cast: CastId, question: Question, event: Description, payload: bytes) -> None:
        """An id matches when it occurs in as many lists as it has constrained attributes."""
        layout = self.arrangement.layout
        lists = [question.found(piece) for piece in range(len(question.ranges))]
        where = {name: packed for found in lists for name, packed in found}
        ids = [[name for name, _ in found if isinstance(name, int)] for found in lists]
        owners: dict[Address, list[int]] = {}
        for sub_id in matching(ids, layout.attributes):
            owners.setdefault(_address.decode(where[sub_id]), []).append(layout.number(sub_id))
        told = {owner: Matched(cast, tuple(numbers), event, payload) for owner, numbers in owners.items()}
        here = told.pop(self.address, None)
        if here is not None:
            self._take(here)
        self.asking.tell(cast, told, here is not None)

    @handles(Matched)
    def on_matched(self, sender: Address, matched: Matched) -> None:
        self.hops.confirm(sender, matched.cast)
        self._take(matched)

    def _take(self, matched: Matched) -> None:
        """Look once more whether the event satisfies a subscription; tell the application once per event."""
        terms = [self.terms[number] for number in matched.numbers if number in self.terms]
        if any(term.selects(matched.description) for term in terms) and self.seen.first(matched.cast):
            self.host.deliver(Notice(matched.cast, matched.payload))
