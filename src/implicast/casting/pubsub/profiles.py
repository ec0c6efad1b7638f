"""The other direction on the same lists: peers hold values, casts hold predicates.

A peer's description is kept in the list of each of its values (and tags): one value per attribute, so describing
oneself is cheap. A cast pays for its ranges instead: for each term it collects the lists of the constraint that
admits the fewest values, filters them by the whole target, and tells the selected. Not in the paper, which has
subscriptions only; it is its Figure 5 with the sides exchanged, and whole registrations as in the DHT design.
"""

from implicast.casting.gather import Gathering, in_parts
from implicast.casting.pubsub.laying import PATIENCE_US, PEERS
from implicast.casting.pubsub.messages import Collect, Collected, CollectLate, Place, Profile, Tell
from implicast.casting.pubsub.placing import Span, spans_of
from implicast.casting.pubsub.publishing import FETCHES_MAX, Publishing, names_of
from implicast.language.target import Description, Scalar, Target
from implicast.peer.contract import Address, CastId, handles
from implicast.peer.events import Refused, Registered, Withdrawn
from implicast.peer.pending import Pending


class Census(Gathering[tuple[int, Scalar]]):
    """A cast whose lists are being collected: one for each value of each range."""

    __slots__ = ("payload", "pieces", "target", "until_us")

    def __init__(self, target: Target, payload: bytes, pieces: list[Span]) -> None:
        super().__init__((number, value) for number, piece in enumerate(pieces) for value in piece.values())
        self.target, self.payload, self.pieces = target, payload, pieces
        self.until_us = 0
        """Before this it is too early to ask again."""

    def selected(self) -> list[Address]:
        """Those whose newest description the target selects, sorted."""
        newest: dict[Address, Profile] = {}
        for profiles in self.lists.values():
            for profile in profiles or ():
                known = newest.get(profile.owner)
                if known is None or known.version < profile.version:
                    newest[profile.owner] = profile
        return sorted(owner for owner, profile in newest.items() if self.target.selects(profile.description))


class Profiles(Publishing):
    """Describes itself, and casts to descriptions."""

    __slots__ = ("_censuses", "_placed")

    def start_describing(self) -> None:
        self._placed: dict[tuple[str, Scalar], None] = {}
        self._censuses: Pending[CastId, Census] = Pending(self.host, CollectLate(), PATIENCE_US)

    # Describing

    def register(self, description: Description) -> None:
        self._describe(description)

    def withdraw(self) -> None:
        self._describe(None)

    def _describe(self, description: Description | None) -> None:
        self.description = description
        version, hashing = self.next_version(), self.arrangement.hashing
        names = names_of(description) if description is not None else []
        former = [name for name in self._placed if name not in names]
        self._placed = dict.fromkeys(names)
        requests = [
            Place(hashing.key(*name), *name, self.address, version, told, self.next_request())
            for told, group in ((description, names), (None, former))
            for name in group
        ]
        self.lay(("describe", version, 0), requests)

    @handles(Place)
    def on_place(self, sender: Address, place: Place) -> None:
        if not self.shelves.admit(place.key, sender, place):
            return
        slot = (PEERS, place.attribute, place.value)
        known: Profile | None = self.shelves.get(slot).get(place.owner)
        if known is None or known.version < place.version:
            if place.description is None:
                self.shelves.drop(slot, place.owner)
            else:
                profile = Profile(place.owner, place.version, place.description)
                self.shelves.put(place.key, slot, place.owner, profile)
        self.acknowledge(place.owner, place.serial)

    def laid(self, group: tuple[str, int, int]) -> None:
        if group[0] != "describe":
            super().laid(group)
        elif group[1] == self.version:
            done = Registered if self.description is not None else Withdrawn
            self.host.deliver(done(self.version))

    # Casting

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        chosen = [min(spans, key=len) for term in target.terms if (spans := spans_of(term, self.arrangement.schema))]
        values = sum(map(len, chosen))
        if len(chosen) < len(target.terms) or values > self.arrangement.values_max:
            limit = f"at most {self.arrangement.values_max} values (values_max)"
            self.host.deliver(Refused("cast", f"every term needs a tag or a predicate, and all together {limit}"))
            return cast
        census = Census(target, payload, chosen)
        self._censuses.ask(cast, census)
        self._collect(cast, census)
        return cast

    def _collect(self, cast: CastId, census: Census) -> None:
        hashing = self.arrangement.hashing
        missing = set(census.missing())
        census.until_us = self.host.now_us + max(self.patience_us(span) for span in census.pieces)
        for number, span in enumerate(census.pieces):
            walks = self.walks(span)
            for piece in hashing.pieces(span):
                if any((number, value) in missing for value in piece.values()):
                    key = hashing.key(piece.attribute, piece.low)
                    ends = (piece.attribute, piece.low, piece.high)
                    self.on_collect(self.address, Collect(key, number, *ends, cast, self.address, walks, False))

    @handles(Collect)
    def on_collect(self, sender: Address, collect: Collect) -> None:
        if not self.comes_by(sender, collect):
            return
        own = self.own_values(collect)
        last = own[-1][1]
        found = [
            profile for _, value in own for profile in self.shelves.get((PEERS, collect.attribute, value)).values()
        ]
        parts = in_parts(found)
        for number, part in enumerate(parts):
            answer = Collected(collect.cast, collect.piece, collect.low, last, number, len(parts), tuple(part))
            if collect.origin == self.address:
                self.on_collected(self.address, answer)
            else:
                self.host.send(collect.origin, answer)
        if last != collect.high:
            assert isinstance(last, int), "only ranges of numbers go on"
            key = self.arrangement.hashing.key(collect.attribute, last + 1)
            rest = (collect.attribute, last + 1, collect.high, collect.cast, collect.origin)
            self.on_collect(self.address, Collect(key, collect.piece, *rest, collect.walks, collect.walks))

    @handles(Collected)
    def on_collected(self, sender: Address, collected: Collected) -> None:
        census = self._censuses.get(collected.cast)
        if census is None:
            return
        complete = False
        for value in Span("", collected.low, collected.high).values():
            profiles = collected.profiles if value == collected.low else ()
            complete |= census.take((collected.piece, value), collected.part, collected.parts, profiles)
        if complete:
            self._censuses.answer(collected.cast)
            self._tell_all(collected.cast, census)

    def _tell_all(self, cast: CastId, census: Census) -> None:
        tell = Tell(cast, census.target, census.payload)
        for consumer in census.selected():
            if consumer == self.address:
                self.on_tell(consumer, tell)
            else:
                self.host.send(consumer, tell)

    @handles(CollectLate)
    def on_collect_late(self, alarm: CollectLate) -> None:
        for cast, census in self._censuses.due():
            if self.host.now_us < census.until_us:
                self._censuses.ask(cast, census)
            elif census.attempts < FETCHES_MAX:
                census.attempts += 1
                self._censuses.ask(cast, census)
                self._collect(cast, census)

    @handles(Tell)
    def on_tell(self, sender: Address, tell: Tell) -> None:
        self.inbox.take(tell.cast, tell.target, tell.payload)
