"""The publisher's side of publish/subscribe: fetch the lists of the event's values, count, deliver through the owners.

An id matches when it occurs in as many lists as it has constrained attributes (its c3). The node c1 that owns the
subscription looks once more whether the event satisfies it, which also settles events that were under way while the
subscription was changed; it tells its application once per event, however many of its ids match. Section 3.2, Figure 5.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from implicast.casting.gather import Gathering, in_parts
from implicast.casting.pubsub.laying import PATIENCE_US, SUBSCRIBERS
from implicast.casting.pubsub.messages import FetchIds, FetchLate, Ids, Inform
from implicast.casting.pubsub.placing import TAG
from implicast.casting.pubsub.subscribing import Subscribing
from implicast.language.target import Description, Scalar
from implicast.peer.contract import Address, CastId, handles
from implicast.peer.events import Notice
from implicast.peer.pending import Pending

FETCHES_MAX = 8
"""Attempts to fetch the lists of a publication; then it is given up."""

ValueName = tuple[str, Scalar]
"""An attribute with one of its values."""


class Publication(Gathering[ValueName]):
    """An event whose lists are being fetched."""

    __slots__ = ("description", "payload")

    def __init__(self, description: Description, payload: bytes, names: Iterable[ValueName]) -> None:
        super().__init__(names)
        self.description, self.payload = description, payload


class Publishing(Subscribing):
    """Matches events with subscriptions by counting."""

    __slots__ = ("_publications",)

    def start_publishing(self) -> None:
        self._publications: Pending[CastId, Publication] = Pending(self.host, FetchLate(), PATIENCE_US)

    def publish(self, description: Description, payload: bytes) -> CastId:
        cast = self.next_cast()
        publication = Publication(description, payload, names_of(description))
        if publication.lists:
            self._publications.ask(cast, publication)
            self._fetch(cast, publication)
        return cast

    def _fetch(self, cast: CastId, publication: Publication) -> None:
        hashing = self.arrangement.hashing
        for attribute, value in publication.missing():
            fetch = FetchIds(hashing.key(attribute, value), attribute, value, cast, self.address)
            self.on_fetch_ids(self.address, fetch)

    @handles(FetchIds)
    def on_fetch_ids(self, sender: Address, fetch: FetchIds) -> None:
        if not self.shelves.admit(fetch.key, sender, fetch):
            return
        parts = in_parts(sorted(self.shelves.get((SUBSCRIBERS, fetch.attribute, fetch.value))))
        for number, part in enumerate(parts):
            answer = Ids(fetch.cast, fetch.attribute, fetch.value, number, len(parts), tuple(part))
            if fetch.origin == self.address:
                self.on_ids(self.address, answer)
            else:
                self.host.send(fetch.origin, answer)

    @handles(Ids)
    def on_ids(self, sender: Address, ids: Ids) -> None:
        publication = self._publications.get(ids.cast)
        if publication is None or not publication.take((ids.attribute, ids.value), ids.part, ids.parts, ids.ids):
            return
        self._publications.answer(ids.cast)
        layout = self.arrangement.layout
        owners: dict[int, list[int]] = {}
        for sub_id in matching(publication.lists.values(), layout.attributes):
            owners.setdefault(layout.node(sub_id), []).append(layout.number(sub_id))
        for node, numbers in owners.items():
            inform = Inform(node, ids.cast, tuple(numbers), publication.description, publication.payload)
            self.on_inform(self.address, inform)

    @handles(FetchLate)
    def on_fetch_late(self, alarm: FetchLate) -> None:
        for cast, publication in self._publications.due():
            if publication.attempts < FETCHES_MAX:
                publication.attempts += 1
                self._publications.ask(cast, publication)
                self._fetch(cast, publication)

    @handles(Inform)
    def on_inform(self, sender: Address, inform: Inform) -> None:
        if inform.key != self.chord.table.own:
            self.chord.pass_on(inform.key, inform, sender)  # or it has arrived where its owner used to be, and ends
            return
        entries = [entry for number in inform.numbers if (entry := self.by_sub_number.get(number)) is not None]
        if any(entry.term.selects(inform.description) for entry in entries):
            if self.seen.first(inform.cast):
                self.host.deliver(Notice(inform.cast, inform.payload))
        elif self.links.right.key == inform.key and self.links.right != self.links.me:
            self.host.send(self.links.right.address, inform)  # two nodes with one id: it is the other's


def names_of(description: Description) -> list[ValueName]:
    """In which lists an event looks."""
    return [(TAG, tag) for tag in description.tags] + [(each.attribute, each.value) for each in description.values]


def matching(lists: Iterable[list[int] | None], attributes_of: Callable[[int], int]) -> list[int]:
    """The ids that occur in as many lists as they have constrained attributes, sorted."""
    counted = Counter(sub_id for each in lists for sub_id in each or ())
    return sorted(sub_id for sub_id, count in counted.items() if count == attributes_of(sub_id))
