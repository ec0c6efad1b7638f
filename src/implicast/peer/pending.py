"""Requests that await an answer.

Requests of equal patience expire in the order in which they were made, so one deque and one armed alarm serve all
of them and the agenda stays small. An alarm cannot be cancelled: one that rings for a request already answered
finds nothing due and is harmless.
"""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from implicast.peer.contract import Host, Message

Key = TypeVar("Key", bound=Hashable)
Request = TypeVar("Request")

_NOTHING = (None,)

REQUESTS_MAX = 65_536
"""Requests that may await an answer at once, where the owner gives no bound of its own; more are refused."""


class Pending(Generic[Key, Request]):
    """What was asked under which key, until it is answered or `patience_us` has passed.

    The owner handles `alarm` by calling `due()`, which returns the requests that have expired and arms the alarm
    again while anything is left. At most `bound` requests are kept; `ask` refuses beyond that.
    """

    __slots__ = ("_alarm", "_armed", "_bound", "_expiry", "_host", "_open", "_patience_us")

    def __init__(self, host: Host, alarm: Message, patience_us: int, bound: int = REQUESTS_MAX) -> None:
        self._host, self._alarm, self._patience_us, self._bound = host, alarm, patience_us, bound
        self._open: dict[Key, tuple[int, Request]] = {}
        self._expiry: deque[tuple[int, Key]] = deque()
        self._armed = False

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: Key) -> bool:
        return key in self._open

    def awaited(self) -> list[Key]:
        """All that is awaited, in the order of asking."""
        return list(self._open)

    def get(self, key: Key) -> Request | None:
        entry = self._open.get(key)
        return entry[1] if entry else None

    def ask(self, key: Key, request: Request) -> bool:
        """Await an answer under this key, anew if it was awaited before. False when the table is full."""
        waiting, expiry = self._open, self._expiry
        if len(waiting) >= self._bound and key not in waiting:
            return False
        deadline_us = self._host.now_us + self._patience_us
        waiting[key] = (deadline_us, request)
        expiry.append((deadline_us, key))
        first_us, first = expiry[0]
        if not self._armed or waiting.get(first, _NOTHING)[0] != first_us:  # as a rule the first is still awaited
            self._arm()
        return True

    def answer(self, key: Key) -> Request | None:
        """The request that this answers, or None if nobody awaits it (any more)."""
        entry = self._open.pop(key, None)
        return entry[1] if entry else None

    def due(self) -> list[tuple[Key, Request]]:
        """Requests whose patience has run out; they are awaited no more. Call when the alarm rings."""
        self._armed = False
        expired = []
        while self._expiry and self._expiry[0][0] <= self._host.now_us:
            deadline_us, key = self._expiry.popleft()
            entry = self._open.get(key)
            if entry is not None and entry[0] == deadline_us:
                del self._open[key]
                expired.append((key, entry[1]))
        self._arm()
        return expired

    def _arm(self) -> None:
        while self._expiry and self._open.get(self._expiry[0][1], (None,))[0] != self._expiry[0][0]:
            self._expiry.popleft()
        if self._expiry and not self._armed:
            self._armed = True
            self._host.after(max(0, self._expiry[0][0] - self._host.now_us), self._alarm)
