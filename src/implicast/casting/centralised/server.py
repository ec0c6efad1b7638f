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
from implicast.casting.roster import Entry, Roster
from implicast.casting.routes import Hop, Nowhere, Routes, Selection
from implicast.casting.service import Check, Known, Outdated, Publish, Register, Stored, Sweep
from implicast.casting.telling import Notify, Word
from implicast.peer.asking import Asker
from implicast.peer.contract import Address, Contact, Life, Message, Name, Peer, handles
from implicast.peer.site import Site

SWEEPS_PER_LEASE = 8


class InHand(Message):
    """A cast or an event that is being told to these members."""

    notify: Notify | None
    matched: Happened | None
    members: tuple[Contact, ...]


class KeptServer(Message):
    """All that a server answers from."""

    life: Life
    members: tuple[Entry, ...]
    subscriptions: tuple[Worded, ...]
    casts: tuple[InHand, ...]


class Server(Peer, parts={"asker": Asker, "routes": Routes, "subscriptions": SubscriptionServer}):
    """One machine for all."""

    __slots__ = ("asker", "life", "roster", "routes", "subscriptions")
    role = "server"

    def __init__(self, site: Site) -> None:
        address, host, kept = site.address, site.host, site.kept or KeptServer(site.life, (), (), ())
        super().__init__(address, host)
        self.life = site.life
        lease_us = int(float(site.parameters["lease_s"]) * 1e6)
        self.roster = Roster(lease_us)
        self.asker = Asker(address, host)
        self.routes = Routes(address, host, self.asker, site.assured, Nowhere(), self._select)
        self.subscriptions = SubscriptionServer(address, host, self._heard, kept.subscriptions)
        for entry in kept.members:
            self.roster.keep(entry, host.now_us)
        for taken in kept.casts:
            word = taken.notify or taken.matched
            assert word is not None, "what is taken is a cast or an event"
            self.routes.resume(word, taken.members)
        if site.assured and not site.resting:
            host.after(lease_us // SWEEPS_PER_LEASE, Sweep())

    def kept(self) -> KeptServer:
        worded = [each for own in self.subscriptions.worded.values() for each in own.values()]
        taken = tuple(_taken(*each) for each in self.routes.taken.values())
        return KeptServer(self.life, tuple(self.roster.entries.values()), tuple(worded), taken)

    def holdings(self) -> Any:
        described = [(entry.contact, entry.description) for entry in self.roster.entries.values()]
        return [*described, *self.subscriptions.holdings()]

    # --- members

    @handles(Register)
    def on_register(self, sender: Address, register: Register) -> None:
        name, known = register.name, self.roster.version(register.name)
        if register.version < known:
            self.host.send(sender, Outdated(known))
        elif register.version and self.roster.has_room(name):
            if register.version > known or self.roster.entries[name].contact.address != sender:
                self.roster.keep(Entry(Contact(name, sender), register.version, register.description), self.host.now_us)
            self._heard(name)
            self.host.send(sender, Stored(register.version))

    @handles(Check)
    def on_check(self, sender: Address, check: Check) -> None:
        known = self.roster.version(check.name)
        subscriptions = self.subscriptions.count(check.name)
        if known == check.version and (known or subscriptions):
            self._heard(check.name)
        self.host.send(sender, Known(known, subscriptions))

    def _heard(self, name: Name) -> None:
        self.roster.leases.renew(name, self.host.now_us)

    @handles(Sweep)
    def on_sweep(self, alarm: Sweep) -> None:
        """Forget members that have not renewed their lease."""
        self.host.after(self.roster.leases.lease_us // SWEEPS_PER_LEASE, Sweep())
        for name in self.roster.leases.lapsed(self.host.now_us):
            self.roster.forget(name)
            self.subscriptions.forget(name)

    # --- casts and events

    @handles(Publish)
    def on_publish(self, sender: Address, publish: Publish) -> None:
        self.routes.carry(sender, None, publish)

    @handles(Announce)
    def on_announce(self, sender: Address, announce: Announce) -> None:
        self.routes.carry(sender, None, announce)

    def _select(self, hop: Hop) -> Selection:
        if isinstance(hop, Announce):
            matched = Happened(hop.cast, hop.description, hop.payload)
            return matched, self.subscriptions.matching(hop.description)
        return Notify(hop.cast, hop.target, hop.payload), self.roster.select(hop.target)


def _taken(word: Word, members: Sequence[Contact]) -> InHand:
    notify = word if isinstance(word, Notify) else None
    matched = word if isinstance(word, Happened) else None
    return InHand(notify, matched, tuple(members))
