"""The members that a station serves: where each is, which version of its description is known, and what that says."""

from implicast.language.index import Index
from implicast.language.target import Description, Target
from implicast.peer.contract import Address, Contact, Message, Name, Version
from implicast.peer.lease import Leases

MEMBERS_MAX = 1 << 20
"""Members of one station; further ones are not answered."""
NAMES_MAX = 16
"""Names that register from one address: members that began again without their disks have new ones. The name that was
put in first is forgotten when there are more."""


class Entry(Message):
    """One version of a member's description; `None`: withdrawn."""

    contact: Contact
    version: Version
    description: Description | None


class Roster:
    """Entries by name, an index over what they say, and when each member was last heard."""

    __slots__ = ("_at", "entries", "index", "leases")

    def __init__(self, lease_us: int) -> None:
        self.entries: dict[Name, Entry] = {}
        self.index: Index[Name] = Index()
        self.leases: Leases[Name] = Leases(lease_us)
        self._at: dict[Address, tuple[Name, ...]] = {}

    def version(self, name: Name) -> Version:
        """The newest that is known of a member; 0: none."""
        entry = self.entries.get(name)
        return entry.version if entry is not None else 0

    def has_room(self, name: Name) -> bool:
        return name in self.entries or len(self.entries) < MEMBERS_MAX

    def keep(self, entry: Entry, now_us: int) -> Description | None:
        """Keep this, in the place of what was known of the member; what that was."""
        name = entry.contact.name
        before = self.forget(name)
        self.entries[name] = entry
        self.leases.renew(name, now_us)
        if entry.description is not None:
            self.index.add(name, entry.description)
        names = self._at[entry.contact.address] = (*self._at.get(entry.contact.address, ()), name)
        if len(names) > NAMES_MAX:
            self.forget(names[0])
        return before

    def forget(self, name: Name) -> Description | None:
        """What the member was described as, if it was."""
        entry = self.entries.pop(name, None)
        if entry is None:
            return None
        address = entry.contact.address
        self._at[address] = tuple(each for each in self._at[address] if each != name)
        if not self._at[address]:
            del self._at[address]
        self.leases.end(name)
        return self.index.remove(name)

    def select(self, target: Target) -> list[Contact]:
        entries = self.entries
        return [entries[name].contact for name in self.index.select(target)]
