"""A place in search of its neighbours. Pure of messages.

It follows ring upkeep D.1: ask all of the provisional table, the k nearest known on each side, and the 2 nearest on
each side of every single answer, until nobody is left to ask. The union of all answers is believed: a liar can only
name certified nodes, so every further honest witness only adds truth; and following each answer to its own end keeps
colluders nearby from crowding out the witnesses that an honest introducer named.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from implicast.overlay.skip_graph.lists import Lists
from implicast.peer.identity import Certificate

PURSUED = 2
"""How many on each side of the newcomer are asked of every single answer."""
ASKED_MAX = 2_048
"""An end to searching, whatever others answer: many times the 100 that a join needs."""


_NOTHING = object()


class Quest:
    """Whom a place has asked, whom it is going to ask, and whose answer it awaits."""

    __slots__ = ("_key", "_queue", "asked", "waiting")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.asked: dict[bytes, Certificate] = {}
        self._queue: dict[bytes, Certificate] = {}
        self.waiting: dict[bytes, None] = {}  # whose answer is awaited

    def begin(self) -> None:
        """Everybody is to be asked anew."""
        self.asked = {}

    def want(self, nodes: Iterable[Certificate]) -> None:
        """These are to be asked, unless they were."""
        for node in nodes:
            if node.key not in self.asked and node.key != self._key:
                self._queue[node.key] = node

    def follow(self, named: Sequence[Certificate]) -> None:
        """Pursue one witness's answer to its own end."""
        if any(node.key not in self.asked for node in named):
            self.want(nearest(self._key, named, PURSUED))

    def next(self, lists: Lists) -> Certificate | None:
        """Whom to ask next; None when there is nobody. When the queue runs dry the provisional table is looked at."""
        if not self._queue and not self.waiting and len(self.asked) < ASKED_MAX:
            self.want(lists.wide.contacts())
            self.want(nearest(self._key, list(lists.known.values()), lists.k))
        if not self._queue:
            return None
        node = self._queue.pop(next(iter(self._queue)))
        self.asked[node.key] = node
        return node

    def unask(self, whom: Iterable[bytes]) -> None:
        """What they may have been asked counts no more: should they come back, they are to be asked anew."""
        for key in whom:
            self._queue.pop(key, None)
            self.asked.pop(key, None)

    def skip(self, whom: bytes) -> None:
        """It need not be asked."""
        self._queue.pop(whom, None)

    def await_answer(self, whom: bytes) -> None:
        self.waiting[whom] = None

    def answered(self, whom: bytes) -> bool:
        """Nothing is awaited of it any more. Whether something was."""
        return self.waiting.pop(whom, _NOTHING) is not _NOTHING


def nearest(key: bytes, nodes: Sequence[Certificate], count: int) -> list[Certificate]:
    """The `count` of them nearest to a key on each side, clockwise; not the one that has it."""
    by_key = {node.key: node for node in nodes}
    by_key.pop(key, None)
    ring = sorted(by_key)
    if len(ring) <= 2 * count:
        return [by_key[each] for each in ring]
    at = bisect_left(ring, key)
    return [by_key[ring[(at + step) % len(ring)]] for step in range(-count, count)]
