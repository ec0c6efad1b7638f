"""Keeps the lists equal to the member's description.

When a description changes, the entries of the new one are put first, and those of the former one
that it lacks are removed `LINGER_US` after the new ones are confirmed. A cast that reads several
lists within this time finds the member in one of them, even if it read one too early and the other
too late for any one description.
"""

from collections.abc import Callable

from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.own_entries import OwnEntries
from implicast.casting.replicated_lists.own_entry import LINGER_US, OwnEntry
from implicast.language.target import Description, Scalar
from implicast.peer.contract import Message, Version, handles

ADDED = "added"
"""First part of the group of entries after which former ones are to be removed."""


class FormerEntriesDue(Message):
    """Fires when the entries of a former description are to be removed."""

    version: Version


class DescribedEntries(HolderPart):
    """The entries of one member's description."""

    __slots__ = ("_all_put", "_entries_for", "_own_entries", "_slots", "_version", "listed_as")

    def __init__(
        self,
        state: HolderState,
        own_entries: OwnEntries,
        entries_for: Callable[[Description], list[OwnEntry]],
        all_put: Callable[[], list[OwnEntry]],
    ) -> None:
        """`entries_for(description)`: the entries to put. `all_put()`: all that are in lists."""
        super().__init__(state)
        self._own_entries, self._entries_for, self._all_put = own_entries, entries_for, all_put
        self.listed_as: Description | None = None
        """The description that the lists state of this member, or will once all puts are
        acknowledged.
        """
        self._slots: set[tuple[str, str, Scalar]] = set()
        """The lists of the present description. Never iterated."""
        self._version: Version = 0

    def put(self, description: Description | None, version: Version) -> None:
        """Put the entries of a description; the group of the last puts is its version."""
        wanted = [] if description is None else self._entries_for(description)
        self._slots = {_slot(own_entry) for own_entry in wanted}
        former = self._all_put()
        self.listed_as, self._version = description, version
        for own_entry in former:
            if not own_entry.number and _slot(own_entry) in self._slots:
                self._own_entries.forget(own_entry)
        others = self._others(former)
        if others and wanted and self._state.settings.lease_us:
            self._own_entries.put((ADDED, version), wanted)
        else:
            self._own_entries.put(version, [*wanted, *map(self._own_entries.removal, others)])

    def _others(self, own_entries: list[OwnEntry]) -> list[OwnEntry]:
        """Those of some entries that the present description lacks."""
        return [each for each in own_entries if not each.number and _slot(each) not in self._slots]

    def on_added(self, version: Version) -> None:
        """The new entries of a version are confirmed."""
        if version == self._version:
            self.host.after(LINGER_US, FormerEntriesDue(version))

    @handles(FormerEntriesDue)
    def on_former_entries_due(self, alarm: FormerEntriesDue) -> None:
        if alarm.version == self._version and self.listed_as is not None:
            others = self._others(self._all_put())
            self._own_entries.put(
                alarm.version, [self._own_entries.removal(each) for each in others]
            )

    def forget(self) -> list[OwnEntry]:
        """The member leaves: return the removals of all its entries."""
        entries, self.listed_as = self._all_put(), None
        return [self._own_entries.removal(own_entry) for own_entry in entries]


def _slot(own_entry: OwnEntry) -> tuple[str, str, Scalar]:
    return own_entry.namespace, own_entry.attribute, own_entry.low
