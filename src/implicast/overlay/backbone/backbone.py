"""How brokers learn what lies beyond each neighbour, and how they know that everybody has learned it.

Thesis section 6.1 and Listing 2: tags of a registration flood the tree, and each broker puts them into the filter of
the neighbour they came from. Three things are added.

*Coverage.* A registration is complete when no broker can fail to route to it. A broker that hears news from one side
passes them on to its other sides and answers `Covered` when those have answered; what a neighbour has been told before
but has not yet covered is waited for as well. Messages may be lost, repeated or overtaken: unanswered ones are sent
again, and all are safe to hear twice.

*Silence about what is known.* A tag goes to a neighbour only if that neighbour does not have its bits from us yet
(thesis section 6.3.1 names the saving). This is safe although filters err: the bits decide who is routed to, and a
neighbour that has them has passed them on in its turn.

*Generations.* A filter cannot grow and cannot forget. When the tags outgrow it, the broker at the root of the tree
begins a new generation with more room; when many tags have gone, with the same room. Each broker starts from its own
clients' tags and sends each neighbour one whole filter as soon as it has those of all its other neighbours. Until all
have come, casts follow the old filters or the new ones, so none is missed; no broker keeps other brokers' tags.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

from implicast.language.target import Target
from implicast.overlay.backbone.messages import Covered, Renew, Speak, Stale, Summary, Tell, Unheard
from implicast.overlay.backbone.table import Table
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.pending import Pending

PATIENCE_US = 5_000_000
"""How long an answer may take before a message is sent again: several times across any backbone and back."""
GATHER_US = 20_000
"""A broker that has just told its neighbours something gathers what comes next for this long. With 41 brokers and a
thousand registrations a second, 4096 of them take 35,500 messages instead of 326,600."""
GROWTH = 1.5
"""How much more room a new generation has when the old one was outgrown."""


class Waiter:
    """Somebody to be told when all that is under way to other neighbours has been covered."""

    __slots__ = ("left", "source", "token")

    def __init__(self, source: Address, token: Any) -> None:
        self.source, self.token = source, token
        self.left = 0


class Edge:
    """What is to be said to one neighbour, what is under way to it, and who waits for it."""

    __slots__ = ("newest", "under_way", "unsaid", "waiters")

    def __init__(self) -> None:
        self.newest = 0
        self.unsaid: dict[str, None] = {}
        self.under_way: dict[int, None] = {}
        self.waiters: deque[tuple[int, Waiter]] = deque()

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


class Backbone(Part):
    """A broker's share of the backbone. `tags` gives its own clients' tags; `covered` hears what has been covered."""

    __slots__ = (
        "_covered",
        "_edges",
        "_error",
        "_gathering",
        "_tags",
        "_unheard",
        "neighbours",
        "next",
        "root",
        "table",
    )

    def __init__(
        self, address: Address, host: Host, neighbours: tuple[Address, ...], root: Address, capacity: int, error: float,
        tags: Callable[[], Iterable[str]], covered: Callable[[Any], None],
    ) -> None:  # fmt: skip
        super().__init__(address, host)
        self.neighbours, self.root = neighbours, root
        self._error, self._tags, self._covered = error, tags, covered
        self.table = self._new_table(1, capacity)
        self.next: Table | None = None
        """The generation under construction."""
        self._edges = {neighbour: Edge() for neighbour in neighbours}
        self._gathering = False
        self._unheard: Pending[tuple[Address, int], Message] = Pending(host, Unheard(), PATIENCE_US)

    def say(self, tags: Iterable[str], token: Any) -> None:
        """Own clients hold these tags. `covered(token)` follows when every broker routes by them."""
        self._spread(self.address, tuple(tags))
        self._await(self.address, token)

    def leads(self, neighbour: Address, target: Target) -> bool:
        """Should a cast go on to this neighbour?"""
        return self.table.passes(neighbour, target) or (self.next is not None and self.next.passes(neighbour, target))

    def forget(self) -> None:
        """Many own tags have gone: ask for filters without them."""
        if self.root == self.address:
            self.on_stale(self.address, Stale(self.table.generation))
        else:
            self.host.send(self.root, Stale(self.table.generation))

    def holdings(self) -> Any:
        """The filters, as they would be encoded."""
        tables = [self.table] if self.next is None else [self.table, self.next]
        return [(source, table.filter(source).to_bytes()) for table in tables for source in table.sources]

    # --- news

    @handles(Tell)
    def on_tell(self, sender: Address, tell: Tell) -> None:
        if tell.generation > self._newest().generation:
            return  # it has overtaken a `Renew` or `Summary`, and would not get into the filters it is meant for
        self._spread(sender, tell.tags)
        self._await(sender, tell.serial)

    def _spread(self, source: Address, tags: tuple[str, ...]) -> None:
        """Put tags of one source into its filters, and tell each other neighbour those that are news to it."""
        news = self.table.put(source, tags)
        newer = self.next.put(source, tags) if self.next is not None else {}
        for neighbour in self.neighbours:
            if neighbour != source:
                unsaid = self._edges[neighbour].unsaid
                for tag in tags:
                    if _is_news(tag, neighbour, news) or _is_news(tag, neighbour, newer):
                        unsaid[tag] = None
        if not self._gathering:
            self._speak()
        self._grow()

    def _speak(self) -> None:
        """Tell all neighbours what is unsaid; what comes in the next moments is gathered."""
        for neighbour, edge in self._edges.items():
            if edge.unsaid:
                tags, edge.unsaid = tuple(edge.unsaid), {}
                self._send(neighbour, Tell(self._serial(neighbour), self._newest().generation, tags))
                if not self._gathering:
                    self._gathering = True
                    self.host.after(GATHER_US, Speak())

    @handles(Speak)
    def on_speak(self, alarm: Speak) -> None:
        self._gathering = False
        self._speak()

    def _await(self, source: Address, token: Any) -> None:
        """Answer the source when all that is under way to the others has been covered."""
        waiter = Waiter(source, token)
        for neighbour, edge in self._edges.items():
            if neighbour != source and (needed := edge.needed()):
                waiter.left += 1
                edge.waiters.append((needed, waiter))
        if not waiter.left:
            self._release(waiter)

    def _release(self, waiter: Waiter) -> None:
        if waiter.source == self.address:
            self._covered(waiter.token)
        else:
            self.host.send(waiter.source, Covered(waiter.token))

    def _serial(self, neighbour: Address) -> int:
        edge = self._edges[neighbour]
        edge.newest += 1
        edge.under_way[edge.newest] = None
        return edge.newest

    def _send(self, neighbour: Address, message: Tell | Renew | Summary) -> None:
        self._unheard.ask((neighbour, message.serial), message)
        self.host.send(neighbour, message)

    @handles(Covered)
    def on_covered(self, sender: Address, covered: Covered) -> None:
        self._unheard.answer((sender, covered.serial))
        for waiter in self._edges[sender].covered(covered.serial):
            waiter.left -= 1
            if not waiter.left:
                self._release(waiter)

    @handles(Unheard)
    def on_unheard(self, alarm: Unheard) -> None:
        for (neighbour, serial), message in self._unheard.due():
            self._unheard.ask((neighbour, serial), message)
            self.host.send(neighbour, message)

    # --- generations

    def _new_table(self, generation: int, capacity: int) -> Table:
        return Table((self.address, *self.neighbours), generation, capacity, self._error)

    def _newest(self) -> Table:
        return self.table if self.next is None else self.next

    def _grow(self) -> None:
        """At the root, when the tags have outgrown their filters. All tags pass here, so one can judge for all."""
        if self.root == self.address and self.next is None and self.table.distinct > self.table.capacity:
            self._begin(self.table.generation + 1, ceil(self.table.distinct * GROWTH), self.address)

    @handles(Stale)
    def on_stale(self, sender: Address, stale: Stale) -> None:
        if self.root == self.address and self.next is None and stale.generation == self.table.generation:
            self._begin(self.table.generation + 1, self.table.capacity, self.address)

    def _begin(self, generation: int, capacity: int, told_by: Address) -> None:
        """Start a generation from the own clients' tags, and let all others know."""
        self._speak()  # before neighbours must know the generation to understand it
        self.next = self._new_table(generation, capacity)
        self.next.put(self.address, self._tags())
        for neighbour in self.neighbours:
            if not self._summarise(neighbour) and neighbour != told_by:
                self._send(neighbour, Renew(self._serial(neighbour), generation, capacity))
        self._finish()

    def _summarise(self, neighbour: Address) -> bool:
        """Send a neighbour the whole filter of this side, if all other neighbours' whole filters are here."""
        table = self.next
        assert table is not None, "there is a summary only while a generation is under construction"
        if not all(other in table.whole for other in self.neighbours if other != neighbour):
            return False
        self._speak()  # waiters count on the next message to a neighbour to hold what is unsaid
        field = table.beside(neighbour)
        self._send(neighbour, Summary(self._serial(neighbour), table.generation, table.capacity, field))
        return True

    @handles(Renew)
    def on_renew(self, sender: Address, renew: Renew) -> None:
        if self._enter(sender, renew.generation, renew.capacity):
            self._await(sender, renew.serial)

    @handles(Summary)
    def on_summary(self, sender: Address, summary: Summary) -> None:
        if not self._enter(sender, summary.generation, summary.capacity):
            return
        if self.next is not None and self.next.generation == summary.generation and sender not in self.next.whole:
            self.next.replace(sender, summary.filter)
            for neighbour in self.neighbours:
                if neighbour != sender:  # its summary did not depend on its own filter, so it was sent before
                    self._summarise(neighbour)
            self._finish()
        self._await(sender, summary.serial)

    def _enter(self, told_by: Address, generation: int, capacity: int) -> bool:
        """Begin this generation if it is the next one. False when it comes too early: it will be said again."""
        if generation > self._newest().generation:
            if self.next is not None:
                return False
            self._begin(generation, capacity, told_by)
        return True

    def _finish(self) -> None:
        """Go over to the new generation when all whole filters are here."""
        if self.next is not None and len(self.next.whole) == len(self.neighbours):
            self.table, self.next = self.next, None
            self.table.count()
            self._grow()


def _is_news(tag: str, neighbour: Address, news: dict[str, Address | None]) -> bool:
    return tag in news and news[tag] in (None, neighbour)
