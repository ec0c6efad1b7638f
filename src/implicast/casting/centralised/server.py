"""The server of CENTRALISED: keeps all descriptions and subscriptions, and resolves all casts.

It answers a cast from an inverted index, never by scanning. With receipts it answers only what it has written down
(`kept`), tells every member until it confirms, and forgets a member that has been silent for a lease. A server that
comes back has all descriptions, all subscriptions and all unfinished casts, and tells those again; members drop what
they have heard.

What one server cannot give: while it is away nothing is delivered or registered, and if its disk is lost all is lost.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from implicast.casting.central_subscriptions import (
    Announce,
    Happened,
    Subscribe,
    SubscriptionKept,
    Worded,
)
from implicast.casting.complaints import KeptDocket
from implicast.casting.roster import Enrolled, Roster
from implicast.casting.routes import Nowhere, Routes
from implicast.casting.service import Publish, Stored
from implicast.casting.telling import Notify, Word
from implicast.language.standing import StandingTargets
from implicast.language.target import Description
from implicast.peer.asking import Asker
from implicast.peer.changes import Changed, Changes
from implicast.peer.contract import (
    Address,
    Contact,
    Incarnation,
    Message,
    Name,
    Part,
    Peer,
    handles,
)
from implicast.peer.site import Site
from implicast.peer.words import Envelopes, opener

SUBSCRIPTIONS_MAX = 1_024
"""Subscriptions of one member; further ones are not answered."""
SUBSCRIBERS_MAX = 1 << 20
"""Members that subscribe at one server; while there are so many, no further subscription is answered."""


class InHand(Message):
    """A cast or an event that is being told to these members."""

    notify: Notify | None
    matched: Happened | None
    members: tuple[Contact, ...]


class KeptServer(Message):
    """All that a server answers from."""

    incarnation: Incarnation
    members: tuple[Enrolled, ...]
    subscriptions: tuple[Worded, ...]
    casts: tuple[InHand, ...]
    docket: KeptDocket = ()


class SubscriptionServer(Part):
    """Everybody's subscriptions, at the server; `heard` is told of every member that says something."""

    __slots__ = ("_heard", "_standing", "_words", "changed", "worded")

    def __init__(self, site: Site, heard: Callable[[Name], None], kept: Iterable[Worded]) -> None:
        super().__init__(site.address, site.host)
        self._heard, self._words = heard, site.words
        self._standing: StandingTargets[tuple[Name, int]] = StandingTargets()
        self.worded: dict[Name, dict[int, Worded]] = {}
        self.changed: Changed[Name] = Changed()
        for each in kept:
            self._keep(each)

    def _keep(self, worded: Worded) -> None:
        name = worded.contact.name
        self._heard(name)
        self.changed.note(name)
        self.worded.setdefault(name, {})[worded.subscription] = worded
        key = (name, worded.subscription)
        if worded.target is None:
            self._standing.remove(key)
        else:
            self._standing.put(key, worded.target)

    @handles(Subscribe)
    def on_subscribe(self, sender: Address, said: Subscribe) -> None:
        if said.target is not None and not all(
            term.has or term.where for term in said.target.terms
        ):
            return  # it would have to be tried on every event
        if not self._words.vouches(said):
            return
        own = self.worded.get(said.name, {})
        known = own.get(said.subscription)
        if known is None and (len(own) >= SUBSCRIPTIONS_MAX or len(self.worded) >= SUBSCRIBERS_MAX):
            return
        if known is None or (said.incarnation, said.version) >= (known.incarnation, known.version):
            contact = Contact(said.name, sender)
            evidence = self._words.evidence(said)
            known = Worded(
                contact, said.incarnation, said.subscription, said.version, said.target, evidence
            )
            self._keep(known)
        elif known.said is not None and known.incarnation > said.incarnation:
            self.host.send(sender, known.said)
        self.host.send(
            sender, SubscriptionKept(known.incarnation, said.subscription, known.version)
        )

    def forget(self, name: Name) -> None:
        """The member's lease is over."""
        self.changed.note(name)
        for number in self.worded.pop(name, {}):
            self._standing.remove((name, number))

    def count(self, name: Name) -> int:
        """How many subscriptions of a member stand."""
        return sum(each.target is not None for each in self.worded.get(name, {}).values())

    def matching(self, description: Description) -> list[Contact]:
        found = self._standing.matching(description)
        return list(dict.fromkeys(self.worded[name][number].contact for name, number in found))

    def holdings(self) -> Any:
        return [(*key, target) for key, target in self._standing.items()]


PARTS = {
    "asker": Asker,
    "roster": Roster,
    "routes": Routes,
    "subscriptions": SubscriptionServer,
    "envelopes": Envelopes,
}


class Server(Peer, parts=PARTS):
    """One machine for all."""

    __slots__ = ("asker", "envelopes", "incarnation", "roster", "routes", "subscriptions")
    role = "server"

    def __init__(self, site: Site) -> None:
        super().__init__(site.address, site.host)
        self.incarnation, kept = (
            site.incarnation,
            site.kept or KeptServer(site.incarnation, (), (), ()),
        )
        self.envelopes = opener(self, site.words)
        self.roster = Roster(
            site,
            int(float(site.parameters["lease_s"]) * 1e6),
            self._stored,
            lambda name, before: self.subscriptions.forget(name),
            lambda name: self.subscriptions.count(name),
        )
        self.asker = Asker(site.address, site.host)
        self.subscriptions = SubscriptionServer(site, self.roster.heard, kept.subscriptions)
        self.routes = Routes(site, self.asker, self.roster, Nowhere(), self.subscriptions.matching)
        for entry in kept.members:
            self.roster.keep(entry)
        for taken in kept.casts:
            word = taken.notify or taken.matched
            assert word is not None, "what is taken is a cast or an event"
            self.routes.resume(word, taken.members)

    def kept(self) -> KeptServer:
        members, docket = tuple(self.roster.entries.values()), self.routes.docket.kept()
        subscriptions = tuple(
            each for own in self.subscriptions.worded.values() for each in own.values()
        )
        casts = tuple(_taken(*each) for each in self.routes.taken.values())
        return KeptServer(self.incarnation, members, subscriptions, casts, docket)

    def changes(self) -> Changes:
        """One row for each member, for each member's subscriptions, and for each cast in hand."""
        roster, worded, routes = self.roster, self.subscriptions, self.routes
        whole = not roster.changed.asked
        rows = {
            "members": roster.changed.rows(roster.entries, lambda entry: (entry,)),
            "subscriptions": worded.changed.rows(worded.worded, lambda own: tuple(own.values())),
            "casts": routes.changed.rows(routes.taken, lambda taken: (_taken(*taken),)),
        }
        return Changes(KeptServer(self.incarnation, (), (), (), routes.docket.kept()), rows, whole)

    def holdings(self) -> Any:
        return [*self.roster.holdings(), *self.subscriptions.holdings()]

    def _stored(self, entry: Enrolled, new: bool, before: Description | None) -> None:
        self.host.send(entry.contact.address, Stored(entry.version))

    # --- casts and events

    @handles(Publish, Announce)
    def on_publish(self, sender: Address, publish: Publish | Announce) -> None:
        self.routes.carry(sender, True, publish)


def _taken(word: Word, members: Sequence[Contact]) -> InHand:
    notify = word if isinstance(word, Notify) else None
    matched = word if isinstance(word, Happened) else None
    return InHand(notify, matched, tuple(members))
