"""Change tracking for durable state, so that a host writes only the rows that changed.

A server keeps a row for each of its members. Writing all of them at every change would cost as much
as there is, not as much as happened. The server records the keys of changed rows and returns those
rows when asked. Nothing is recorded before the first request: in the simulator, which never asks,
tracking costs nothing.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from implicast.peer.contract import Message

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Rows = Mapping[Hashable, tuple[Message, ...]]
"""By key, the present rows; an empty tuple means that the key was deleted."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Difference from the previous call."""

    head: Message
    """The durable state (`Peer.durable_state`) with empty values in the fields that have rows."""
    rows: Mapping[str, Rows]
    """By field of the durable state."""
    whole: bool
    """True if the rows are complete: the host replaces everything written before."""


class ChangedKeys(Generic[Key]):
    """Keys of a table that changed since the last request."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[Key, None] | None = None

    def note(self, key: Key) -> None:
        if self._keys is not None:
            self._keys.pop(key, None)  # most recent last, as in the table
            self._keys[key] = None

    def rows(self, table: Mapping[Key, Value], row: Callable[[Value], tuple[Message, ...]]) -> Rows:
        """Rows of the changed keys, oldest change first; of all keys at the first call."""
        keys, self._keys = list(table if self._keys is None else self._keys), {}
        return {key: row(table[key]) if key in table else () for key in keys}

    @property
    def is_tracking(self) -> bool:
        """Whether a host has asked for changes."""
        return self._keys is not None
