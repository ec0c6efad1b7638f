"""Memory that cannot grow without end."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")


class Recent(dict[Key, Kept], Generic[Key, Kept]):
    """A table of at most `bound` entries: the one that was put in first goes when there is one too many.

    `put` moves an entry to the young end; plain `table[key] = value` of a key that is there leaves it where it was.
    """

    __slots__ = ("bound",)

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def __setitem__(self, key: Key, value: Kept) -> None:
        super().__setitem__(key, value)
        if len(self) > self.bound:
            del self[next(iter(self))]

    def put(self, key: Key, value: Kept) -> None:
        """Note this as the youngest."""
        self.pop(key, None)
        self[key] = value

    def once(self, key: Key, value: Kept) -> bool:
        """Note this if it is not there; was it new?"""
        if key in self:
            return False
        self[key] = value
        return True

    def oldest(self) -> Iterator[Key]:
        return iter(self)
