"""What a broker has said to each neighbour, and who waits until everybody beyond knows it.

A registration is complete when no broker can fail to route to it. A broker that hears news from one side passes them
on to its other sides and answers `Routed` when those have answered; what a neighbour has been told before but has not
covered yet is waited for as well. Messages may be lost, repeated or overtaken: unanswered ones are sent again, and all
are safe to hear twice.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from implicast.overlay.backbone.messages import EPOCH_SHIFT, TAGS_MAX, Routed, Speak, Tell
from implicast.peer.asking import Asker, Patience
from implicast.peer.contract import Address, Host, Message, Part, handles

NEWS = "news"
PATIENCE = Patience(3_000_000, times=1 << 30)
"""With a neighbour that covers nothing: until the next view, however long that takes."""
GATHER_US = 20_000
"""A broker that has just told its neighbours something gathers what comes next for this long. With 41 brokers and a
thousand registrations a second, 4096 of them take 35,500 messages instead of 326,600."""
WAITERS_MAX = 65_536
"""Messages of neighbours that wait to be covered; more are not answered, and come again."""


Waiter = tuple[Address, Any]
"""A source, and the token with which it is told when all that is under way to other neighbours has been covered."""


@dataclass(slots=True)
class Edge:
    """What is to be said to one neighbour, what is under way to it, and who waits for it."""

    newest: int
    heard: int
    """All of the neighbour's messages up to this number have been heard, ..."""
    early: set[int] = field(default_factory=set)
    """... and these beyond."""
    unsaid: dict[str, None] = field(default_factory=dict)
    under_way: dict[int, None] = field(default_factory=dict)
    waiters: deque[tuple[int, Waiter]] = field(default_factory=deque)

    def hear(self, serial: int) -> bool:
        """Take note of a message; at most `WAITERS_MAX` beyond one that has not come. Was it new?"""
        if serial <= self.heard or serial in self.early:
            return False
        if len(self.early) < WAITERS_MAX:
            self.early.add(serial)
        while self.heard + 1 in self.early:
            self.heard += 1
            self.early.discard(self.heard)
        return True

    def next_serial(self) -> int:
        self.newest += 1
        self.under_way[self.newest] = None
        return self.newest

    def needed(self) -> int:
        """The newest message that all news so far are in, also those still unsaid; 0 when all is covered."""
        if self.unsaid:
            return self.newest + 1
        return self.newest if self.under_way else 0

    def covered(self, serial: int) -> list[Waiter]:
        """The neighbour has covered this message; the waiters that need nothing more from it."""
        self.under_way.pop(serial, None)
        oldest = next(iter(self.under_way), self.newest + 1)
        released = []
        while self.waiters and self.waiters[0][0] < oldest:
            released.append(self.waiters.popleft()[1])
        return released


class Edges(Part):
    """A broker's edges. `generation` gives its newest; `covered(token)` hears what was said here and is covered."""

    __slots__ = ("_asker", "_covered", "_edges", "_epoch", "_gathering", "_generation", "_waiting")

    def __init__(
        self,
        address: Address,
        host: Host,
        asker: Asker,
        generation: Callable[[], int],
        covered: Callable[[Any], None],
    ) -> None:
        super().__init__(address, host)
        self._asker, self._generation, self._covered = asker, generation, covered
        self._epoch = 0
        self._edges: dict[Address, Edge] = {}
        self._waiting: dict[Waiter, int] = {}
        """For how many neighbours each still waits."""
        self._gathering = False
        asker.topic(NEWS, PATIENCE)

    def begin(self, epoch: int, neighbours: Iterable[Address]) -> None:
        """There is a new tree: what was said in the one before counts no more."""
        for key in self._asker.topics(NEWS):
            self._asker.drop(NEWS, key)
        self._epoch = epoch
        self._edges = {
            neighbour: Edge(epoch << EPOCH_SHIFT, epoch << EPOCH_SHIFT) for neighbour in neighbours
        }
        self._waiting.clear()

    def among_us(self, sender: Address, number: int) -> bool:
        """Does a message with this generation or serial come from a neighbour in the present view?"""
        return number >> EPOCH_SHIFT == self._epoch and sender in self._edges

    def hear(self, neighbour: Address, serial: int) -> bool:
        """Take note of a neighbour's message; was it new?"""
        return self._edges[neighbour].hear(serial)

    def note(self, source: Address, tags: Iterable[str]) -> None:
        """These tags are to be said to all neighbours but their source: at once if nothing was in the last moments."""
        for neighbour, edge in self._edges.items():
            if neighbour != source:
                edge.unsaid.update(dict.fromkeys(tags))
        if not self._gathering:
            self.speak()

    def speak(self) -> None:
        """Tell all neighbours what is unsaid; what comes in the next moments is gathered."""
        for neighbour, edge in self._edges.items():
            tags = tuple(edge.unsaid)
            edge.unsaid.clear()
            for first in range(0, len(tags), TAGS_MAX):
                self.send(neighbour, Tell, self._generation(), tags[first : first + TAGS_MAX])
            if tags and not self._gathering:
                self._gathering = True
                self.host.after(GATHER_US, Speak())

    @handles(Speak)
    def on_speak(self, alarm: Speak) -> None:
        self._gathering = False
        self.speak()

    def send(self, neighbour: Address, kind: Callable[..., Message], *said: Any) -> None:
        """Say this under the next serial until it is covered."""
        serial = self._edges[neighbour].next_serial()
        self._asker.ask(NEWS, (neighbour, serial), neighbour, kind(serial, *said))

    def wait(self, source: Address, token: Any) -> None:
        """Answer the source when all that is under way to the others has been covered."""
        if source != self.address:
            self._edges[source].hear(token)
        if (source, token) in self._waiting or (
            len(self._waiting) >= WAITERS_MAX and source != self.address
        ):
            return
        waiter, left = (source, token), 0
        for neighbour, edge in self._edges.items():
            if neighbour != source and (needed := edge.needed()):
                edge.waiters.append((needed, waiter))
                left += 1
        if left:
            self._waiting[waiter] = left
        else:
            self._release(waiter)

    def _release(self, waiter: Waiter) -> None:
        source, token = waiter
        if source == self.address:
            self._covered(token)
        else:
            self.host.send(source, Routed(token))

    @handles(Routed)
    def on_covered(self, sender: Address, covered: Routed) -> None:
        if not self.among_us(sender, covered.serial):
            return
        self._asker.answered(NEWS, (sender, covered.serial))
        for waiter in self._edges[sender].covered(covered.serial):
            self._waiting[waiter] -= 1
            if not self._waiting[waiter]:
                del self._waiting[waiter]
                self._release(waiter)
