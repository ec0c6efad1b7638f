"""A member of the publish/subscribe designs: `replicated_lists/` of subscriptions, and of peers, by
value.

An event fetches the lists of its values. A subscription id matches when it occurs in as many lists
as it has constrained attributes. Entries contain the address of their owner, and the publisher
notifies it directly: the paper's route through the node of the id (section 3.2) leads to another
node if that one has crashed. The owner checks once more whether the event satisfies the
subscription, which also settles events that were under way during an update. It notifies its
application once per event, however many of its ids match.

The reverse direction is not in the paper: a peer's description is stored in the list of each of its
values. For each term a cast fetches the lists of the constraint that admits the fewest values,
filters them by the whole target, and notifies the selected peers.
"""

from collections.abc import Sequence
from itertools import chain

import msgspec

from implicast.casting.inbox import Outcome
from implicast.casting.notifier import Notify
from implicast.casting.pubsub.messages import DurablePubSub, Matched
from implicast.casting.pubsub.subscriptions import Subscriptions
from implicast.casting.pubsub.value_mapping import (
    PEERS,
    SUBSCRIBERS,
    TAG,
    Span,
    ValueMapping,
    matching,
)
from implicast.casting.replicated_lists import Fetch, OwnEntry, RingMember
from implicast.casting.replicated_lists.durable import DurableRing
from implicast.casting.replicated_lists.entries import Found, Listing, ListRange, Slot, reader
from implicast.language.target import Description, Scalar, Target, Value
from implicast.peer.contract import Address, CastId, Contact, Name, handles
from implicast.peer.events import Refused
from implicast.peer.site import Site
from implicast.peer.subscriber import Subscriber
from implicast.space.ring import hashed

profile_of = reader(tuple[int, Description], None)
"""Decodes version and description of a listed peer."""


class PubSub(RingMember, Subscriber):
    """A member that subscribes, publishes, registers a description and casts."""

    __slots__ = ("_network", "mapping", "subscriptions")

    def __init__(self, site: Site, mapping: ValueMapping) -> None:
        self.mapping, self._network = mapping, site.network
        super().__init__(site)
        deliver = self.host.deliver
        self.subscriptions = Subscriptions(self.own_entries, mapping, self.chord, deliver)
        if isinstance(site.durable_state, DurablePubSub):
            self.subscriptions.restore(site.durable_state)

    def key_of(self, attribute: str, value: Scalar) -> int:
        return self.mapping.key(attribute, value)

    def leave(self) -> None:
        super().leave()
        self.subscriptions.forget_all()

    def numbered_entries(self) -> list[OwnEntry]:
        return self.subscriptions.own_entries()

    def _ranges(self, namespace: str, span: Span) -> list[ListRange]:
        return self.mapping.ranges(namespace, span, self.chord.nodes_estimate())

    # Peers have values, casts have predicates

    def entries_for(self, description: Description) -> list[Listing]:
        packed = msgspec.msgpack.encode((self.version, description))
        names = self.mapping.names(description)
        return [((PEERS, name, value, value, False), 0, packed) for name, value in names]

    def described(self, slot: Slot, packed: bytes) -> Description | None:
        """Return the description in a peer's entry, with the value under which it is listed. None
        for a subscription, which states nothing about its owner.
        """
        namespace, attribute, value = slot
        if namespace != PEERS or not packed:
            return None
        profile = profile_of(packed)
        description = profile[1] if profile is not None else Description()
        own = description.value(attribute)
        if own is not None and own != value and self.mapping.place(attribute, own) == value:
            return description  # listed under the cell of its value
        if attribute == TAG:
            return Description((*description.tags, str(value)), description.values)
        return Description(description.tags, (*description.values, Value(attribute, value)))

    def is_number_of(self, owner: Name, number: int) -> bool:
        """Whether an id belongs to this owner: ids begin with their owner's ring key."""
        return not number or self.mapping.layout.node(number) == hashed(
            "peer", self._network, owner
        )

    def fetch_for(self, target: Target, payload: bytes) -> Fetch | str:
        values_max = self.mapping.values_max
        chosen = [
            min(spans, key=len) for term in target.terms if (spans := self.mapping.spans(term))
        ]
        if len(chosen) < len(target.terms) or sum(map(len, chosen)) > values_max:
            return (
                "every term needs a tag or a predicate, and all terms together may admit at most "
                f"{values_max} values (values_max)"
            )
        return Fetch(
            (target, payload), [each for span in chosen for each in self._ranges(PEERS, span)]
        )

    def on_lists(self, cast: CastId, fetch: Fetch) -> None:
        content, payload = fetch.about
        if isinstance(content, Description):
            self._found_subscriptions(cast, fetch, content, payload)
            return
        self.notify(Notify(cast, content, payload), self.select(fetch, fetch.lists))

    def select(self, fetch: Fetch, lists: Sequence[Sequence[Found]]) -> dict[Name, Contact]:
        content, _ = fetch.about
        if isinstance(content, Description):
            return {}
        newest: dict[Name, tuple[int, Description, Contact]] = {}
        for owner, _, packed in chain.from_iterable(lists):
            profile, known = profile_of(packed), newest.get(owner.name)
            if profile is not None and (known is None or known[0] < profile[0]):
                newest[owner.name] = *profile, owner
        return {name: owner for name, (_, one, owner) in newest.items() if content.selects(one)}

    def sizes(self, target: Target) -> list[list[list[ListRange]]]:
        terms = [self.mapping.spans(term) for term in target.terms]
        rarest = [[span for span in spans if len(span) == min(map(len, spans))] for spans in terms]
        return [[self._ranges(PEERS, span) for span in spans] for spans in rarest]

    # Subscriptions have predicates, publications have values

    def subscribe(self, target: Target) -> int:
        number = self.subscriptions.next_number()
        self._put("subscribe", number, target)
        return number

    def update(self, number: int, target: Target) -> None:
        if number in self.subscriptions.by_number:
            self._put("update", number, target)

    def _put(self, verb: str, number: int, target: Target) -> None:
        reason = self.mapping.refusal(target, len(self.subscriptions.by_sub_number))
        if reason is None:
            self.subscriptions.put(number, target)
        else:
            self.host.deliver(Refused(verb, reason))

    def unsubscribe(self, number: int) -> None:
        self.subscriptions.end(number)

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        names = self.mapping.names(description)
        ranges = [(SUBSCRIBERS, attribute, value, value, False) for attribute, value in names]
        if ranges:
            sealed = self.seal(cast, description, payload)
            self.reads.start(cast, Fetch((description, sealed), ranges), "publish")
        return cast

    def _found_subscriptions(
        self, cast: CastId, fetch: Fetch, event: Description, payload: bytes
    ) -> None:
        """Notify the owners of matching ids: those in as many lists as they have constrained
        attributes.
        """
        layout = self.mapping.layout
        where = {sub_id: owner for owner, sub_id, _ in chain.from_iterable(fetch.lists)}
        found = ([sub_id for _, sub_id, _ in each] for each in fetch.lists)
        owners: dict[Contact, list[int]] = {}
        for sub_id in matching(found, layout.attributes):
            owners.setdefault(where[sub_id], []).append(layout.number(sub_id))
        messages = [
            (owner, Matched(cast, tuple(numbers), event, payload))
            for owner, numbers in owners.items()
        ]
        here = [self._take(message) for owner, message in messages if owner == self.contact]
        others = [each for each in messages if each[0].address != self.address]
        self.notifier.notify_each(cast, others, here[0] if here else None)

    @handles(Matched)
    def on_matched(self, sender: Address, matched: Matched) -> None:
        self.receiver.acknowledge(sender, matched.cast, self._take(matched))

    def _take(self, matched: Matched) -> Outcome:
        """Deliver the event to the application, once."""
        fits = self.subscriptions.admit(matched.numbers, matched.description)
        return self.receiver.inbox.admit(matched.cast, matched.description, matched.payload, fits)

    # Restart

    def durable_state(self) -> DurableRing:
        ring = super().durable_state()
        return DurablePubSub(
            ring.member, ring.entries, ring.neighbours, *self.subscriptions.state()
        )

    def on_joined(self) -> None:
        """Put the subscriptions of an earlier incarnation again: their leases may have expired."""
        super().on_joined()
        self.subscriptions.put_again()
