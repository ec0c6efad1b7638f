"""A member of the publish/subscribe designs: lists (`keeping/`) of subscriptions, and of peers, by value.

An event fetches the lists of its values; an id matches when it occurs in as many of them as it has constrained
attributes. Entries say where their owner lives, and it is told directly: the paper's way through the node of the id
(section 3.2) would lead to somebody else when it has died. The owner looks once more whether the event satisfies the
subscription, which also settles events that were under way while it was changed; it tells its application once per
event, however many of its ids match.

The other direction, peers with values and casts with predicates, is not in the paper: a peer's description is kept in
the list of each of its values. For each term a cast collects the lists of the constraint that admits the fewest values,
filters them by the whole target, and tells the selected.
"""

from functools import lru_cache

import msgspec

from implicast.casting.designs import Plan
from implicast.casting.inbox import Seen
from implicast.casting.keeping import Piece, Question, RingMember
from implicast.casting.keeping.messages import Matched, Row
from implicast.casting.keeping.questions import Range
from implicast.casting.pubsub.arrangement import PEERS, SUBSCRIBERS, Arrangement, matching, names_of
from implicast.casting.pubsub.placing import Span, spans_of
from implicast.casting.pubsub.subscriptions import Subscriptions
from implicast.language.target import Description, Scalar, Target
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.events import Notice, Refused
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed

DECODED_MAX = 4096
"""Descriptions that are remembered as decoded: those in busy lists come again and again."""
_profile = lru_cache(DECODED_MAX)(msgspec.msgpack.Decoder(tuple[int, Description]).decode)
_address = msgspec.msgpack.Decoder(Address)


class PubSub(RingMember, Subscriber):
    """A member that subscribes, publishes, describes itself and casts."""

    __slots__ = ("arrangement", "seen", "subscriptions")

    def __init__(self, plan: Plan, address: int, arrangement: Arrangement) -> None:
        self.arrangement = arrangement
        super().__init__(address, plan.host(address), plan.seed, plan.parameters)
        packed, node = msgspec.msgpack.encode(self.address), self.chord.table.own
        self.subscriptions = Subscriptions(
            self.layings, arrangement.schema, arrangement.layout, node, packed, self._subscribed_ranges
        )
        self.seen = Seen()

    def key_of(self, attribute: str, value: Scalar) -> int:
        return self.arrangement.hashing.key(attribute, value)

    def owner_of(self, row: Row) -> Address:
        return row.name if row.slot[0] == PEERS else _address.decode(row.packed)

    def leave(self) -> None:
        self.subscriptions.forget_all()
        super().leave()

    def is_of_description(self, piece: Piece) -> bool:
        return piece.shelf == PEERS

    def _ranges(self, shelf: str, span: Span) -> list[Range]:
        return self.arrangement.ranges(shelf, span, self.chord.table, self.links.lefts)

    def _subscribed_ranges(self, span: Span) -> list[Range]:
        return self._ranges(SUBSCRIBERS, span)

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
        number = self.subscriptions.next_number()
        self._state("subscribe", number, target)
        return number

    def update(self, number: int, target: Target) -> None:
        if number in self.subscriptions.by_number:
            self._state("update", number, target)

    def _state(self, verb: str, number: int, target: Target) -> None:
        reason = self.arrangement.refusal(target, len(self.subscriptions.by_sub_number))
        if reason is None:
            self.subscriptions.state(number, target)
        else:
            self.host.deliver(Refused(verb, reason))

    def unsubscribe(self, number: int) -> None:
        self.subscriptions.end(number)

    def laid(self, group: tuple[str, int, int]) -> None:
        if group[0] == "unsubscribe":
            self.host.deliver(Unsubscribed(group[1]))
        elif group[1] in self.subscriptions.by_number:
            self.host.deliver(Subscribed(group[1], group[2]))

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        ranges = [(SUBSCRIBERS, attribute, value, value, False) for attribute, value in names_of(description)]
        if ranges:
            self.ask(cast, Question((description, payload), ranges), "publish")
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
        told: dict[Address, Message] = {
            owner: Matched(cast, tuple(numbers), event, payload) for owner, numbers in owners.items()
        }
        here = told.pop(self.address, None)
        if isinstance(here, Matched):
            self._take(here)
        self.tell(cast, told, here is not None)

    @handles(Matched)
    def on_matched(self, sender: Address, matched: Matched) -> None:
        self.confirm(sender, matched.cast)
        self._take(matched)

    def _take(self, matched: Matched) -> None:
        if self.subscriptions.admit(matched.numbers, matched.description) and self.seen.first(matched.cast):
            self.host.deliver(Notice(matched.cast, matched.payload))
