"""A member in a kind world: it keeps lists of tags for others, and fetches, selects and notifies for its own casts."""

from collections.abc import Iterable
from typing import Any

from implicast.casting.designs import Plan
from implicast.casting.dht.messages import (
    Drop,
    Fetch,
    FetchLate,
    Kept,
    KeptLate,
    Listed,
    Notify,
    Referred,
    Registration,
    Store,
)
from implicast.casting.gather import Gathering, in_parts
from implicast.casting.ring_member import RingMember
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.events import Refused, Registered, Withdrawn
from implicast.peer.pending import Pending
from implicast.space.ring import hashed

PATIENCE_US = 4_000_000
"""Patience with a routed request before it is sent again."""
FETCHES_MAX = 8
"""Attempts to fetch the lists of a cast; then it is given up."""


Lists = dict[str, list[Any] | None]
"""The list of each tag that was asked for, once it has come: references or whole registrations."""


class Publication(Gathering[str]):
    """A cast whose lists are being fetched."""

    __slots__ = ("payload", "target")

    def __init__(self, target: Target, payload: bytes, tags: Iterable[str]) -> None:
        super().__init__(tags)
        self.target, self.payload = target, payload


class Dht(RingMember):
    """A member that keeps, for the tags hashed to it, who has them."""

    __slots__ = ("late", "naive", "placed", "unkept")

    def __init__(self, plan: Plan, address: int, naive: bool) -> None:
        rows = list[tuple[int, str, Address, Registration]]
        super().__init__(address, plan.host(address), plan.seed, plan.parameters, rows)
        self.naive = naive
        self.placed: dict[str, None] = {}
        self.unkept: Pending[str, Message] = Pending(self.host, KeptLate(), PATIENCE_US)
        self.late: Pending[CastId, Publication] = Pending(self.host, FetchLate(), PATIENCE_US)

    # Registering

    def register(self, description: Description) -> None:
        self.description = description
        version = self.next_version()
        whole = Registration(self.address, version, () if self.naive else description.tags)
        self._place({tag: Store(hashed(tag), tag, whole) for tag in description.tags})

    def withdraw(self) -> None:
        self.description = None
        self.next_version()
        self._place({})

    def _place(self, stores: dict[str, Store]) -> None:
        """Store at all tags of the new version, drop at all that only earlier ones had."""
        wanted: dict[str, Message] = dict(stores)
        for tag in self.placed:
            if tag not in stores:
                wanted[tag] = Drop(hashed(tag), tag, self.address, self.version)
        self.placed |= dict.fromkeys(stores)
        for tag, message in wanted.items():
            self.unkept.ask(tag, message)
        for message in wanted.values():
            self._set_out(message)
        if not wanted:
            self._complete()

    def _set_out(self, message: Message) -> None:
        """A routed request begins its way here, as if it had just come."""
        self.receive(self.address, message)

    @handles(Store)
    def on_store(self, sender: Address, store: Store) -> None:
        if not self.shelves.admit(store.key, sender, store):
            return
        new = store.registration
        known: Registration | None = self.shelves.get(store.tag).get(new.owner)
        if known is None or known.version < new.version:
            self.shelves.put(store.key, store.tag, new.owner, new)
        self._acknowledge(new.owner, Kept(store.tag, new.version))

    @handles(Drop)
    def on_drop(self, sender: Address, drop: Drop) -> None:
        if not self.shelves.admit(drop.key, sender, drop):
            return
        known: Registration | None = self.shelves.get(drop.tag).get(drop.owner)
        if known is not None and known.version < drop.version:
            self.shelves.drop(drop.tag, drop.owner)
        self._acknowledge(drop.owner, Kept(drop.tag, drop.version))

    def _acknowledge(self, owner: Address, kept: Kept) -> None:
        if owner == self.address:
            self.on_kept(owner, kept)
        else:
            self.host.send(owner, kept)

    @handles(Kept)
    def on_kept(self, sender: Address, kept: Kept) -> None:
        if kept.version != self.version:
            return
        request = self.unkept.answer(kept.tag)
        if isinstance(request, Drop):
            self.placed.pop(kept.tag, None)
        if request is not None and not len(self.unkept):
            self._complete()

    def _complete(self) -> None:
        done = Registered if self.description is not None else Withdrawn
        self.host.deliver(done(self.version))

    @handles(KeptLate)
    def on_kept_late(self, alarm: KeptLate) -> None:
        overdue = self.unkept.due()
        for tag, message in overdue:
            self.unkept.ask(tag, message)
        for _, message in overdue:
            self._set_out(message)

    # Casting

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        if any(term.where or not term.has for term in target.terms):
            self.host.deliver(Refused("cast", "a term needs a tag, and tags are all that this design speaks of"))
            return cast
        gathering = Publication(target, payload, self._tags_to_fetch(target))
        self.late.ask(cast, gathering)
        for tag in gathering.missing():
            self._set_out(Fetch(hashed(tag), tag, cast, self.address))
        return cast

    def _tags_to_fetch(self, target: Target) -> dict[str, None]:
        if self.naive:  # the excluded ones too: they are subtracted
            return {tag: None for term in target.terms for tag in (*term.has, *term.lacks)}
        return {term.has[0]: None for term in target.terms}  # "any single tag in the term can be looked up"

    @handles(Fetch)
    def on_fetch(self, sender: Address, fetch: Fetch) -> None:
        if not self.shelves.admit(fetch.key, sender, fetch):
            return
        parts = in_parts(list(self.shelves.get(fetch.tag).values()))
        for number, part in enumerate(parts):
            answer: Listed | Referred
            if self.naive:
                answer = Referred(fetch.cast, fetch.tag, number, len(parts), tuple(each.owner for each in part))
            else:
                answer = Listed(fetch.cast, fetch.tag, number, len(parts), tuple(part))
            if fetch.origin == self.address:
                self._gather(answer)
            else:
                self.host.send(fetch.origin, answer)

    @handles(Listed)
    def on_listed(self, sender: Address, listed: Listed) -> None:
        self._gather(listed)

    @handles(Referred)
    def on_referred(self, sender: Address, referred: Referred) -> None:
        self._gather(referred)

    def _gather(self, answer: Listed | Referred) -> None:
        gathering = self.late.get(answer.cast)
        if gathering is not None and gathering.take(answer.tag, answer.part, answer.parts, answer.found):
            self.late.answer(answer.cast)
            self._notify_all(answer.cast, gathering)

    @handles(FetchLate)
    def on_fetch_late(self, alarm: FetchLate) -> None:
        for cast, gathering in self.late.due():
            if gathering.attempts < FETCHES_MAX:
                gathering.attempts += 1
                self.late.ask(cast, gathering)
                for tag in gathering.missing():
                    self._set_out(Fetch(hashed(tag), tag, cast, self.address))

    def _notify_all(self, cast: CastId, gathering: Publication) -> None:
        select = intersected if self.naive else filtered
        consumers = set().union(*(select(term, gathering.lists) for term in gathering.target.terms))
        notify = Notify(cast, gathering.target, gathering.payload)
        for consumer in sorted(consumers):
            if consumer == self.address:
                self.on_notify(consumer, notify)
            else:
                self.host.send(consumer, notify)

    @handles(Notify)
    def on_notify(self, sender: Address, notify: Notify) -> None:
        self.inbox.take(notify.cast, notify.target, notify.payload)


def intersected(term: Term, lists: Lists) -> set[Address]:
    """Those whose reference is in the list of every wanted tag and of no excluded one."""
    found: list[set[Address]] = [set(lists[tag] or ()) for tag in term.has]
    excluded: list[set[Address]] = [set(lists[tag] or ()) for tag in term.lacks]
    return found[0].intersection(*found[1:]).difference(*excluded)


def filtered(term: Term, lists: Lists) -> set[Address]:
    """Those registrations in the list of the term's first tag that the whole term selects."""
    found: list[Registration] = lists[term.has[0]] or []
    others = term.has[1:]
    if len(others) == 1 and not term.lacks:  # the common case at half the price of the general one
        other = others[0]
        return {each.owner for each in found if other in each.tags}
    return {
        each.owner
        for each in found
        if all(tag in each.tags for tag in others) and not any(tag in each.tags for tag in term.lacks)
    }
