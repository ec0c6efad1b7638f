"""Client registry of a front end: address, newest version and description of each client.

A front end that receives a version older than the one it knows answers with the newer one and never
acknowledges it. Entries are on lease: clients send keep-alives, and an entry without one for a
lease is removed.
"""

from collections.abc import Callable, Iterable
from typing import Any

from implicast.language.index import Index
from implicast.language.target import Description, Target
from implicast.peer.changes import ChangedKeys
from implicast.peer.contract import (
    Address,
    Contact,
    Message,
    Name,
    Part,
    StandingAlarm,
    Version,
    handles,
)
from implicast.peer.fields import Count
from implicast.peer.lease import OWED_US, Leases
from implicast.peer.memory import Recent
from implicast.peer.signing import SignedMessage, signed_by
from implicast.peer.site import Site

MEMBERS_MAX = 1 << 20
"""Clients of one front end; further ones get no answer."""
NAMES_MAX = 16
"""Names registered from one address. A member that restarts without its disk has a new name. The
name registered first is removed when there are more.
"""
SWEEPS_PER_LEASE = 8
SILENT_CLIENTS_MAX = 4_096
"""Clients whose lease has expired and that are still owed casts; the oldest is forgotten first."""


@signed_by("name")
class Register(Message):
    """A client registers its description; None withdraws it."""

    wire = 0x0201
    name: Name
    version: Version
    description: Description | None


class RegisterAck(Message):
    """This version is stored: every later cast will match against it."""

    wire = 0x0202
    version: Version


class RegisterOutdated(Message):
    """The front end knows a later version of this client. The registration was not stored."""

    wire = 0x0203
    version: Version


class KeepAlive(Message):
    """A client renews its lease, and says which version it last registered."""

    wire = 0x0204
    name: Name
    version: Version


class KeepAliveAck(Message):
    """The version of the client that the front end knows (0: none), and the number of its
    subscriptions.
    """

    wire = 0x0205
    version: Version
    subscriptions: Count = 0


class LeaseSweep(StandingAlarm):
    """Fires when a front end should remove clients whose lease has expired."""


class ClientEntry(Message):
    """One version of a client's description; None: withdrawn."""

    contact: Contact
    version: Version
    description: Description | None
    signed: SignedMessage | None = None
    """The registration as its owner signed it, where signing is on."""


OnStored = Callable[[ClientEntry, bool, Description | None], None]
"""Called with an entry when its client registers: whether it is new, and the description it
replaced.
"""
OnForgotten = Callable[[Name, Description | None], None]


class ClientRegistry(Part):
    """Entries by name, an index over their descriptions, and the leases."""

    __slots__ = (
        "_at",
        "_forgotten",
        "_signing",
        "_stored",
        "_subscriptions",
        "changed",
        "entries",
        "index",
        "leases",
        "silent",
    )

    def __init__(
        self,
        site: Site,
        lease_us: int,
        stored: OnStored,
        forgotten: OnForgotten,
        subscriptions: Callable[[Name], int] = lambda name: 0,
    ) -> None:
        """`subscriptions`: number of a client's subscriptions that the front end knows."""
        super().__init__(site.address, site.host)
        self._stored, self._forgotten, self._subscriptions = stored, forgotten, subscriptions
        self._signing = site.signing
        self.entries: dict[Name, ClientEntry] = {}
        self.changed: ChangedKeys[Name] = ChangedKeys()
        self.index: Index[Name] = Index()
        self.leases: Leases[Name] = Leases(lease_us)
        self.silent: Recent[Name, tuple[int, Description]] = Recent(SILENT_CLIENTS_MAX)
        """Clients removed because their lease expired: until when they are owed casts, and their
        description. They may be frozen, cut off, or clients of another front end by now.
        """
        self._at: dict[Address, tuple[Name, ...]] = {}

    def restore(self, entries: Iterable[ClientEntry]) -> None:
        """Begin with these clients. Their leases begin now."""
        for entry in entries:
            self.keep(entry)

    def start_sweeps(self) -> None:
        """Remove clients whose lease expires, from now on."""
        self.host.after(self.leases.lease_us // SWEEPS_PER_LEASE, LeaseSweep())

    def select(self, target: Target) -> list[Contact]:
        entries = self.entries
        return [entries[name].contact for name in self.index.select(target)]

    def may_lack(self, target: Target) -> bool:
        """Whether a target selects a client that was removed for its silence."""
        return any(target.selects(description) for description in self._owed())

    def is_present(self, name: Name) -> bool:
        """Whether a client was heard from lately. Another may be a client of another front end."""
        heard_us = self.leases.heard_us(name)
        return heard_us is not None and self.host.now_us < heard_us + self.leases.lease_us // 3

    def tags(self) -> list[str]:
        """Tags of the clients, and of those removed for their silence that are still owed casts:
        casts to them have to come here, to be counted as uncertain.
        """
        owed = [tag for description in self._owed() for tag in description.tags]
        return sorted({*self.index.tags(), *owed}) if owed else self.index.tags()

    def _owed(self) -> list[Description]:
        """Descriptions of the clients that were removed for their silence within `OWED_US`."""
        if self.silent:
            now_us = self.host.now_us
            self.silent.drop_while(lambda known: known[0] <= now_us)
        return [description for _, description in self.silent.values()]

    def holdings(self) -> Iterable[Any]:
        return [(entry.contact, entry.description) for entry in self.entries.values()]

    def renew(self, name: Name) -> None:
        self.leases.renew(name, self.host.now_us)

    def keep(self, entry: ClientEntry) -> Description | None:
        """Store an entry and renew its lease. Returns the description that it replaces."""
        name, address = entry.contact.name, entry.contact.address
        before = self.forget(name)
        self.silent.pop(name, None)
        self.entries[name] = entry
        self.changed.note(name)
        self.renew(name)
        if entry.description is not None:
            self.index.add(name, entry.description)
        names = self._at[address] = (*self._at.get(address, ()), name)
        if len(names) > NAMES_MAX:
            self._forgotten(names[0], self.forget(names[0]))
        return before

    def forget(self, name: Name) -> Description | None:
        """Remove a client. Returns its description, if it had one."""
        if (entry := self.entries.pop(name, None)) is None:
            return None
        self.changed.note(name)
        address = entry.contact.address
        self._at[address] = tuple(each for each in self._at[address] if each != name)
        if not self._at[address]:
            del self._at[address]
        self.leases.end(name)
        return self.index.remove(name)

    @handles(Register)
    def on_register(self, sender: Address, register: Register) -> None:
        name, known = register.name, self.entries.get(register.name)
        if not self._signing.verifies(register):
            return
        if known is not None and register.version < known.version:
            self.host.send(sender, known.signed or RegisterOutdated(known.version))
        elif (
            known is not None
            and register.version == known.version
            and sender == known.contact.address
        ):
            self.renew(name)
            self._stored(known, False, None)
        elif register.version and (known is not None or len(self.entries) < MEMBERS_MAX):
            signed = self._signing.evidence(register)
            entry = ClientEntry(
                Contact(name, sender), register.version, register.description, signed
            )
            self._stored(entry, True, self.keep(entry))

    @handles(KeepAlive)
    def on_keep_alive(self, sender: Address, check: KeepAlive) -> None:
        entry, subscriptions = self.entries.get(check.name), self._subscriptions(check.name)
        known = entry.version if entry is not None else 0
        is_there = entry is None or not self._signing.signed or entry.contact.address == sender
        if known == check.version and (known or subscriptions) and is_there:
            self.renew(check.name)
        if entry is not None and entry.signed is not None and known > check.version:
            self.host.send(sender, entry.signed)
        self.host.send(sender, KeepAliveAck(known, subscriptions))

    @handles(LeaseSweep)
    def on_sweep(self, alarm: LeaseSweep) -> None:
        """Remove clients whose lease has expired."""
        self.start_sweeps()
        for name in self.leases.lapsed(self.host.now_us):
            before = self.forget(name)
            if before is not None:
                self.silent.put(name, (self.host.now_us + OWED_US, before))
            self._forgotten(name, before)
