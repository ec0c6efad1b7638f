"""Lists that a publisher fetches from many nodes, each in one or more parts, until all have come."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

LIST_ITEMS = 4_096
"""Entries per message of a list: whole registrations stay below a megabyte."""

Name = TypeVar("Name", bound=Hashable)


def in_parts(entries: Sequence[Any]) -> list[Sequence[Any]]:
    """A list cut to what one message may carry; one part at least, for an empty answer is an answer."""
    return [entries[start : start + LIST_ITEMS] for start in range(0, len(entries), LIST_ITEMS)] or [()]


class Gathering(Generic[Name]):
    """The lists of one cast. `lists` holds None for those that are still missing."""

    __slots__ = ("_parts", "attempts", "lists")

    def __init__(self, names: Iterable[Name]) -> None:
        self.lists: dict[Name, list[Any] | None] = dict.fromkeys(names)
        self.attempts = 1
        self._parts: dict[Name, dict[int, Sequence[Any]]] = {}

    def missing(self) -> list[Name]:
        return [name for name, found in self.lists.items() if found is None]

    def take(self, name: Name, part: int, parts: int, found: Sequence[Any]) -> bool:
        """Note a part of a list; True when this was the last thing missing."""
        if name not in self.lists or self.lists[name] is not None:
            return False
        so_far = self._parts.setdefault(name, {})
        so_far[part] = found
        if len(so_far) < parts:
            return False
        self.lists[name] = [entry for _, each in sorted(so_far.items()) for entry in each]
        del self._parts[name]
        return not self.missing()
