"""The server of CENTRALISED: keeps all descriptions and subscriptions, and resolves all casts.

It answers a cast from an inverted index, never by scanning. With receipts it answers only what it has written down
(`kept`), tells every member until it confirms, and forgets a member that has been silent for a lease. A server that
comes back has all descriptions, all subscriptions and all unfinished casts, and tells those again; members drop what
they have heard.

What one server cannot give: while it is away nothing is delivered or registered, and if its disk is lost all is lost.
"""

from collections.abc import Sequence
from typing import Any

from implicast.casting.central_subscriptions import Announce, Happened, SubscriptionServer, Worded
from implicast.casting.complaints import KeptDocket
from implicast.casting.roster import Enrolled, Roster
from implicast.casting.routes import Hop, Nowhere, Routes, Selection
from implicast.casting.service import Publish, Stored
from implicast.casting.telling import Notify, Word
from implicast.language.target import Description
from implicast.peer.asking import Asker
from implicast.peer.changes import Changes, Rows
from implicast.peer.contract import Address, Contact, Life, Message, Peer, handles
from implicast.peer.policy import policy_of
from implicast.peer.site import Site
from implicast.peer.words import Envelopes, opener


class InHand(Message):
    """A cast or an event that is being told to these members."""

    notify: Notify | None
    matched: Happened | None
    members: tuple[Contact, ...]


class KeptServer(Message):
    """All that a server answers from."""

    life: Life
    members: tuple[Enrolled, ...]
    subscriptions: tuple[Worded, ...]
    casts: tuple[InHand, ...]
    docket: KeptDocket = ()


PARTS = {"asker": Asker, "roster": Roster, "routes": Routes, "subscriptions": SubscriptionServer,
         "envelopes": Envelopes}  # fmt: skip


class Server(Peer, parts=PARTS):
    """One machine for all."""

    __slots__ = ("asker", "envelopes", "life", "roster", "routes", "subscriptions")
    role = "server"

    def __init__(self, site: Site) -> None:
        address, host, kept = site.address, site.host, site.kept or KeptServer(site.life, (), (), ())
        super().__init__(address, host)
        self.life = site.life
        lease_us, swept = int(float(site.parameters["lease_s"]) * 1e6), site.assured and not site.resting
        words = site.words
        self.envelopes = opener(address, host, words, self.receive, self.shown)
        self.roster = Roster(
            address, host, lease_us, swept, self._stored, lambda name, before: self.subscriptions.forget(name),
            lambda name: self.subscriptions.count(name), words,
        )  # fmt: skip
        self.asker = Asker(address, host)
        limits = words, policy_of(site.parameters)
        self.routes = Routes(address, host, self.asker, site.assured, Nowhere(), self._select, *limits, kept.docket)
        self.subscriptions = SubscriptionServer(address, host, self.roster.heard, kept.subscriptions, words)
        for entry in kept.members:
            self.roster.keep(entry)
        for taken in kept.casts:
            word = taken.notify or taken.matched
            assert word is not None, "what is taken is a cast or an event"
            self.routes.resume(word, taken.members)

    def shown(self, message: Message) -> None:
        """A server says nothing of itself."""
        self.drop_stray()

    def kept(self) -> KeptServer:
        worded = [each for own in self.subscriptions.worded.values() for each in own.values()]
        taken = tuple(_taken(*each) for each in self.routes.taken.values())
        return KeptServer(self.life, tuple(self.roster.entries.values()), tuple(worded), taken, self.routes.docket)

    def changes(self) -> Changes:
        """One row for each member, for each member's subscriptions, and for each cast in hand."""
        roster, worded, routes = self.roster, self.subscriptions, self.routes
        whole, entries, taken = not roster.changed.asked, roster.entries, routes.taken
        rows: dict[str, Rows] = {
            "members": {name: (entries[name],) if name in entries else () for name in roster.changed.take(entries)},
            "subscriptions": {name: tuple(worded.worded.get(name, {}).values())
                              for name in worded.changed.take(worded.worded)},
            "casts": {cast: (_taken(*taken[cast]),) if cast in taken else () for cast in routes.changed.take(taken)},
        }  # fmt: skip
        return Changes(KeptServer(self.life, (), (), (), routes.docket), rows, whole)

    def holdings(self) -> Any:
        return [*self.roster.holdings(), *self.subscriptions.holdings()]

    def _stored(self, entry: Enrolled, new: bool, before: Description | None) -> None:
        self.host.send(entry.contact.address, Stored(entry.version))

    # --- casts and events

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        self.routes.carry(sender, True, publish)

    @handles(Announce)
    def on_announce(self, sender: Address, announce: Announce) -> None:
        self.routes.carry(sender, True, announce)

    def _select(self, hop: Hop) -> Selection:
        if isinstance(hop, Announce):
            matched = Happened(hop.cast, hop.description, hop.payload)
            return matched, self.subscriptions.matching(hop.description)
        return Notify(hop.cast, hop.target, hop.payload), self.roster.select(hop.target)


def _taken(word: Word, members: Sequence[Contact]) -> InHand:
    notify = word if isinstance(word, Notify) else None
    matched = word if isinstance(word, Happened) else None
    return InHand(notify, matched, tuple(members))
