"""What has changed of what a peer keeps, so that its host can write down that alone.

A station keeps a row for each of its members; writing all of them whenever one changes would cost what there is, not
what happened. It notes the keys of rows as they change, and hands out those rows when it is asked. Nothing is noted
before the first question: where nobody writes anything down, as in the world, noting costs nothing.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from implicast.peer.contract import Message

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")
Rows = Mapping[Hashable, tuple[Message, ...]]
"""By key, what is kept under it now; nothing: it is gone."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from the last time."""

    head: Message
    """What is kept (`Peer.kept`) without the fields that have rows."""
    rows: Mapping[str, Rows]
    """By field of what is kept."""
    whole: bool
    """These are all rows that there are: whatever was written before counts no more."""


class Changed(Generic[Key]):
    """The keys under which something has changed."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Key, None] | None = None

    def note(self, key: Key) -> None:
        if self._keys is not None:
            self._keys.pop(
                key, None
            )  # what changed last comes last, as in the tables that it is about
            self._keys[key] = None

    def rows(self, table: Mapping[Key, Kept], row: Callable[[Kept], tuple[Message, ...]]) -> Rows:
        """What the table has under those since the last time, oldest first; the first time under all of its keys."""
        keys, self._keys = list(table if self._keys is None else self._keys), {}
        return {key: row(table[key]) if key in table else () for key in keys}

    @property
    def asked(self) -> bool:
        """Has anybody asked yet?"""
        return self._keys is not None
