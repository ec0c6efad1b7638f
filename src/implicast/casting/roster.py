"""The members that a station serves: where each is, which version of its description is known, and what that says.

A station that hears a version older than what it knows says so, and never that it is stored. Descriptions are on lease:
members remind the station of themselves, and one that does not for a lease is forgotten.
"""

from collections.abc import Callable, Iterable
from typing import Any

from implicast.casting.service import Check, Known, LeaseSweep, Outdated, Register
from implicast.language.index import Index
from implicast.language.target import Description, Target
from implicast.peer.changes import Changed
from implicast.peer.contract import Address, Contact, Message, Name, Part, Version, handles
from implicast.peer.lease import Leases
from implicast.peer.site import Site
from implicast.peer.words import Said

MEMBERS_MAX = 1 << 20
"""Members of one station; further ones are not answered."""
NAMES_MAX = 16
"""Names that register from one address: members that began again without their disks have new ones. The name that was
put in first is forgotten when there are more."""
SWEEPS_PER_LEASE = 8


class Enrolled(Message):
    """One version of a member's description; `None`: withdrawn."""

    contact: Contact
    version: Version
    description: Description | None
    said: Said | None = None
    """As its owner signed it, where words are signed."""


OnStored = Callable[[Enrolled, bool, Description | None], None]
"""Told of what a member said: whether it is new, and in the place of what."""
OnForgotten = Callable[[Name, Description | None], None]


class Roster(Part):
    """Entries by name, an index over what they say, and when each member was last heard."""

    __slots__ = (
        "_at",
        "_forgotten",
        "_stored",
        "_subscriptions",
        "_words",
        "changed",
        "entries",
        "index",
        "leases",
    )

    def __init__(
        self,
        site: Site,
        lease_us: int,
        stored: OnStored,
        forgotten: OnForgotten,
        subscriptions: Callable[[Name], int] = lambda name: 0,
    ) -> None:
        """`subscriptions`: how many of a member the station knows."""
        super().__init__(site.address, site.host)
        self._stored, self._forgotten, self._subscriptions = stored, forgotten, subscriptions
        self._words = site.words
        self.entries: dict[Name, Enrolled] = {}
        self.changed: Changed[Name] = Changed()
        self.index: Index[Name] = Index()
        self.leases: Leases[Name] = Leases(lease_us)
        self._at: dict[Address, tuple[Name, ...]] = {}
        if site.watched:
            self.host.after(lease_us // SWEEPS_PER_LEASE, LeaseSweep())

    def select(self, target: Target) -> list[Contact]:
        entries = self.entries
        return [entries[name].contact for name in self.index.select(target)]

    def holdings(self) -> Iterable[Any]:
        return [(entry.contact, entry.description) for entry in self.entries.values()]

    def heard(self, name: Name) -> None:
        self.leases.renew(name, self.host.now_us)

    def keep(self, entry: Enrolled) -> Description | None:
        """Keep this, in the place of what was known of the member; what that was."""
        name, address = entry.contact.name, entry.contact.address
        before = self.forget(name)
        self.entries[name] = entry
        self.changed.note(name)
        self.heard(name)
        if entry.description is not None:
            self.index.add(name, entry.description)
        names = self._at[address] = (*self._at.get(address, ()), name)
        if len(names) > NAMES_MAX:
            self._forgotten(names[0], self.forget(names[0]))
        return before

    def forget(self, name: Name) -> Description | None:
        """What the member was described as, if it was."""
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
        if not self._words.vouches(register):
            return
        if known is not None and register.version < known.version:
            self.host.send(sender, known.said or Outdated(known.version))
        elif (
            known is not None
            and register.version == known.version
            and sender == known.contact.address
        ):
            self.heard(name)
            self._stored(known, False, None)
        elif register.version and (known is not None or len(self.entries) < MEMBERS_MAX):
            said = self._words.evidence(register)
            entry = Enrolled(Contact(name, sender), register.version, register.description, said)
            self._stored(entry, True, self.keep(entry))

    @handles(Check)
    def on_check(self, sender: Address, check: Check) -> None:
        entry, subscriptions = self.entries.get(check.name), self._subscriptions(check.name)
        known = entry.version if entry is not None else 0
        is_there = entry is None or not self._words.signed or entry.contact.address == sender
        if known == check.version and (known or subscriptions) and is_there:
            self.heard(check.name)
        if entry is not None and entry.said is not None and known > check.version:
            self.host.send(sender, entry.said)
        self.host.send(sender, Known(known, subscriptions))

    @handles(LeaseSweep)
    def on_sweep(self, alarm: LeaseSweep) -> None:
        """Forget members that have not renewed their lease."""
        self.host.after(self.leases.lease_us // SWEEPS_PER_LEASE, LeaseSweep())
        for name in self.leases.lapsed(self.host.now_us):
            self._forgotten(name, self.forget(name))
