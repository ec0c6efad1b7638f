"""A member of the publish/subscribe designs: lists (`keeping/`) of subscriptions, and of peers, by value.

An event fetches the lists of its values; an id matches when it occurs in as many of them as it has constrained
attributes. Entries say where their owner lives, and it is told directly: the paper's way through the node of the id
(section 3.2) would lead to somebody else when it has died. The owner looks once more whether the event satisfies the
subscription, which also settles events that were under way while it was changed; it tells its application once per
event, however many of its ids match.

The other direction is not in the paper: a peer's description is kept in the list of each of its values. For each term a
cast collects the lists of the constraint that admits the fewest values, filters them by the whole target, and tells the
selected.
"""

from itertools import chain
from typing import Any

import msgspec

from implicast.casting.inbox import Outcome
from implicast.casting.keeping import Fetch, Piece, RingMember
from implicast.casting.keeping.member import KeptRing
from implicast.casting.keeping.messages import Slot
from implicast.casting.keeping.pieces import Range, reader
from implicast.casting.pubsub.arrangement import (
    PEERS,
    SUBSCRIBERS,
    TAG,
    Arrangement,
    Span,
    matching,
)
from implicast.casting.pubsub.messages import KeptPubSub, Matched
from implicast.casting.pubsub.subscriptions import Subscriptions
from implicast.casting.telling import Got, Notify
from implicast.language.target import Description, Scalar, Target, Value
from implicast.peer.contract import Address, CastId, Contact, Name, handles
from implicast.peer.events import Refused
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscribed, Subscriber, Unsubscribed
from implicast.space.ring import hashed

profile_of = reader(tuple[int, Description], None)
"""Version and description as listed."""


class PubSub(RingMember, Subscriber):
    """A member that subscribes, publishes, describes itself and casts."""

    __slots__ = ("_network", "arrangement", "subscriptions")

    def __init__(self, site: Site, arrangement: Arrangement) -> None:
        self.arrangement, self._network = arrangement, site.network
        super().__init__(site)
        self.subscriptions = Subscriptions(self.layings, arrangement, self.chord)
        if isinstance(site.kept, KeptPubSub):
            self.subscriptions.restore(site.kept, self.layings.pieces)

    def key_of(self, attribute: str, value: Scalar) -> int:
        return self.arrangement.key(attribute, value)

    def leave(self) -> None:
        super().leave()
        self.subscriptions.forget_all()

    def all_laid(self) -> list[Piece]:
        laid = super().all_laid()
        return laid if self.share.settings.lease_us else [*laid, *self.subscriptions.pieces()]

    def _ranges(self, shelf: str, span: Span) -> list[Range]:
        return self.arrangement.ranges(shelf, span, self.chord.nodes_estimate())

    # Peers hold values, casts hold predicates

    def entries(self, description: Description) -> list[Piece]:
        packed = msgspec.msgpack.encode((self.version, description))
        names = self.arrangement.names(description)
        return [
            self.layings.piece((PEERS, name, value, value, False), 0, packed)
            for name, value in names
        ]

    def described(self, slot: Slot, packed: bytes) -> Description | None:
        """A peer's description, and the value under which it is listed; a subscription says nothing of its owner."""
        shelf, attribute, value = slot
        if shelf != PEERS or not packed:
            return None
        profile = profile_of(packed)
        said = profile[1] if profile is not None else Description()
        own = said.value(attribute)
        if own is not None and own != value and self.arrangement.place(attribute, own) == value:
            return said  # listed under the cell of its value
        if attribute == TAG:
            return Description((*said.tags, str(value)), said.values)
        return Description(said.tags, (*said.values, Value(attribute, value)))

    def is_number_of(self, owner: Name, number: int) -> bool:
        """Ids begin with the place of their owner on the ring."""
        return not number or self.arrangement.layout.node(number) == hashed(
            "peer", self._network, owner
        )

    def question(self, target: Target, payload: bytes) -> Fetch | str:
        values_max = self.arrangement.values_max
        chosen = [
            min(spans, key=len) for term in target.terms if (spans := self.arrangement.spans(term))
        ]
        if len(chosen) < len(target.terms) or sum(map(len, chosen)) > values_max:
            return f"every term needs a tag or a predicate, and all together at most {values_max} values (values_max)"
        return Fetch(
            (target, payload), [each for span in chosen for each in self._ranges(PEERS, span)]
        )

    def found(self, cast: CastId, question: Fetch) -> None:
        told, payload = question.about
        if isinstance(told, Description):
            self._found_subscriptions(cast, question, told, payload)
            return
        newest: dict[Name, tuple[int, Description, Contact]] = {}
        for owner, _, packed in chain.from_iterable(question.lists):
            profile, known = profile_of(packed), newest.get(owner.name)
            if profile is not None and (known is None or known[0] < profile[0]):
                newest[owner.name] = *profile, owner
        selected = {name: owner for name, (_, one, owner) in newest.items() if told.selects(one)}
        self.tell(Notify(cast, told, payload), selected)

    def sizes(self, target: Target) -> list[list[list[Range]]]:
        terms = [self.arrangement.spans(term) for term in target.terms]
        rarest = [[span for span in spans if len(span) == min(map(len, spans))] for spans in terms]
        return [[self._ranges(PEERS, span) for span in spans] for spans in rarest]

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

    def laid(self, group: Any) -> None:
        verb = group[0] if isinstance(group, tuple) else ""
        if verb == "unsubscribe":
            self.host.deliver(Unsubscribed(group[1]))
        elif verb != "subscribe":
            super().laid(group)
        elif group[1] in self.subscriptions.by_number:
            self.host.deliver(Subscribed(group[1], group[2]))

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        names = self.arrangement.names(description)
        ranges = [(SUBSCRIBERS, attribute, value, value, False) for attribute, value in names]
        if ranges:
            sealed = self.words.seal(cast, description, payload)
            self.questions.ask(cast, Fetch((description, sealed), ranges), "publish")
        return cast

    def _found_subscriptions(
        self, cast: CastId, question: Fetch, event: Description, payload: bytes
    ) -> None:
        """An id matches when it occurs in as many lists as it has constrained attributes."""
        layout = self.arrangement.layout
        where = {sub_id: owner for owner, sub_id, _ in chain.from_iterable(question.lists)}
        owners: dict[Contact, list[int]] = {}
        for sub_id in matching(
            ([sub_id for _, sub_id, _ in found] for found in question.lists), layout.attributes
        ):
            owners.setdefault(where[sub_id], []).append(layout.number(sub_id))
        told = {
            owner: Matched(cast, tuple(numbers), event, payload)
            for owner, numbers in owners.items()
        }
        here = told.pop(self.contact, None)
        others = [
            (owner, message) for owner, message in told.items() if owner.address != self.address
        ]
        self.teller.tell_each(cast, others, self._take(here) if here is not None else None)

    @handles(Matched)
    def on_matched(self, sender: Address, matched: Matched) -> None:
        outcome = self._take(matched)
        if self.assured:
            self.host.send(sender, self.words.say(Got(matched.cast, self.name, outcome)))

    def _take(self, matched: Matched) -> Outcome:
        """Tell the application, once per event."""
        fits = self.subscriptions.admit(matched.numbers, matched.description)
        return self.hearing.inbox.admit(matched.cast, matched.description, matched.payload, fits)

    # Coming back

    def kept(self) -> KeptRing:
        ring = super().kept()
        return KeptPubSub(ring.member, ring.laid, ring.neighbours, *self.subscriptions.kept())

    def came(self) -> None:
        """What an earlier life asked for is laid again: it may have lapsed meanwhile."""
        super().came()
        self.subscriptions.lay_again()
