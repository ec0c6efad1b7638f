"""How brokers learn what lies beyond each neighbour: one Bloom filter for each, in generations.

Thesis section 6.1 and Listing 2: tags of a registration flood the tree, and each broker puts them into the filter of
the neighbour they came from. Four things are added.

*Coverage.* A broker knows when all others route by what it said (`edges.py`).

*Silence about what is known.* A broker tells a tag once, when the first of its own clients holds it (thesis section
6.3.1 names the saving); what comes from a neighbour it passes on to the others. It does not ask its filters whether
they know the tag: they err, each in its own way, and a neighbour that was not told would never be routed to.

*Generations.* A filter cannot grow and cannot forget. A broker one of whose filters is outgrown, or whose clients have
lost many tags, asks the broker at the root of the tree for a new generation. Each broker starts from its own
clients' tags and sends each neighbour one whole filter as soon as it has those of all its other neighbours. Until all
have come, casts follow the old filters or the new ones, so none is missed; no broker keeps other brokers' tags.

*Views.* With each new tree (`views.py`) the filters are built anew, and casts flood meanwhile: filters save messages,
never deliveries. Generations and serials of a view begin at the view's own number; a message of another view is not
answered, and its sender says it again in the view that is to come.
"""

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Any

from implicast.language.target import Target
from implicast.overlay.backbone.edges import Edges
from implicast.overlay.backbone.messages import (
    CAPACITY_MAX,
    EPOCH_SHIFT,
    FiltersAnew,
    Stale,
    Tell,
    View,
    WholeFilter,
)
from implicast.overlay.backbone.table import ROOM_LEAST, FilterTable
from implicast.peer.asking import Asker
from implicast.peer.contract import Address, Host, Part, handles

GROWTH = 1.5
"""Room of a generation under construction against the tags that there are: more come meanwhile."""


class Backbone(Part, parts={"edges": Edges}):
    """A broker's share of the backbone. `tags` gives its own clients' tags; `covered` hears what has been covered."""

    __slots__ = ("edges", "epoch", "error", "neighbours", "next", "root", "table", "tags")

    def __init__(
        self,
        address: Address,
        host: Host,
        asker: Asker,
        room: int,
        error: float,
        tags: Callable[[], Iterable[str]],
        covered: Callable[[Any], None],
    ) -> None:
        super().__init__(address, host)
        self.error, self.tags = error, tags
        self.edges = Edges(address, host, asker, lambda: self._newest().generation, covered)
        self.epoch = 0
        """The number of the view that is followed; 0: none yet."""
        self.root = address
        self.neighbours: tuple[Address, ...] = ()
        self.table = self._new_table(0, room)
        self.next: FilterTable | None = None
        """The generation under construction."""

    def stand(self, view: View) -> None:
        """The first view of a backbone that is there at once: nothing is registered, so empty filters are whole."""
        self.epoch, self.root, self.neighbours = view.epoch, view.root, view.neighbours
        self.edges.begin(view.epoch, view.neighbours)
        self.table, self.next = self._new_table(view.epoch << EPOCH_SHIFT, view.room), None

    def stand_filled(self, growths: int, capacity: int, fields: Mapping[Address, bytes]) -> None:
        """After so many further generations: the filters of all sources, whole."""
        self.table = self._new_table(self.table.generation + growths, capacity)
        for source, field in fields.items():
            self.table.replace(source, field)
        if growths:
            self.table.press()

    def follow(self, view: View) -> None:
        """A new tree: forget what was said to whom, and build filters from what each broker's own clients hold."""
        self.stand(view)
        self._begin(self.table.generation + 1, view.room, self.address)

    def say(self, tags: Iterable[str], token: Any) -> None:
        """Own clients hold these tags, and did not before. `covered(token)` follows when all brokers route by them."""
        self._spread(self.address, tuple(tags))
        self.edges.wait(self.address, token)

    def leads(self, neighbour: Address, target: Target) -> bool:
        """Should a cast go on to this neighbour?"""
        passes = self.table.filters[neighbour].passes(target)
        if passes or self.next is None:
            return passes
        knows_nothing = (
            self.table.generation == self.epoch << EPOCH_SHIFT and neighbour not in self.next.whole
        )
        return knows_nothing or self.next.filters[neighbour].passes(target)

    def forget(self) -> None:
        """Filters are outgrown, or many own tags have gone: ask for new ones."""
        if self.root == self.address:
            self.on_stale(self.address, Stale(self.table.generation))
        else:
            self.host.send(self.root, Stale(self.table.generation))

    def holdings(self) -> Any:
        """The filters, as they would be encoded."""
        tables = [self.table] if self.next is None else [self.table, self.next]
        return [
            (source, each.to_bytes()) for table in tables for source, each in table.filters.items()
        ]

    # --- news

    @handles(Tell)
    def on_tell(self, sender: Address, tell: Tell) -> None:
        if (
            not self.edges.among_us(sender, tell.generation)
            or tell.generation > self._newest().generation
        ):
            return  # of another view; or it has overtaken the message that begins its generation
        if self.edges.hear(sender, tell.serial):  # else what it says went on to the others before
            self._spread(sender, tell.tags)
        self.edges.wait(sender, tell.serial)

    def _spread(self, source: Address, tags: tuple[str, ...]) -> None:
        """Put tags of one source into its filters, and tell the other neighbours."""
        self.table.put(source, tags)
        if self.next is not None:
            self.next.put(source, tags)
        self.edges.note(source, tags)
        self._grow()

    # --- generations

    def _new_table(self, generation: int, capacity: int) -> FilterTable:
        return FilterTable((self.address, *self.neighbours), generation, capacity, self.error)

    def _newest(self) -> FilterTable:
        return self.table if self.next is None else self.next

    def _grow(self) -> None:
        """Ask for a new generation when a filter is outgrown."""
        if self.next is None and self.table.capacity < CAPACITY_MAX and self.table.take_outgrown():
            self.forget()

    @handles(Stale)
    def on_stale(self, sender: Address, stale: Stale) -> None:
        if (
            self.root == self.address
            and self.next is None
            and stale.generation == self.table.generation
        ):
            room = min(CAPACITY_MAX, max(ROOM_LEAST, ceil(self.table.estimate() * GROWTH)))
            self._begin(self.table.generation + 1, room, self.address)

    def _begin(self, generation: int, capacity: int, told_by: Address) -> None:
        """Start a generation from the own clients' tags, and let all others know."""
        self.edges.speak()  # before neighbours must know the generation to understand it
        self.next = self._new_table(generation, capacity)
        self.next.put(self.address, self.tags())
        for neighbour in self.neighbours:
            if not self._summarise(neighbour) and neighbour != told_by:
                self.edges.send(neighbour, FiltersAnew, generation, capacity)
        self._finish()

    def _summarise(self, neighbour: Address) -> bool:
        """Send a neighbour the whole filter of this side, if all other neighbours' whole filters are here."""
        table = self.next
        assert table is not None, "there is a summary only while a generation is under construction"
        if not all(other in table.whole for other in self.neighbours if other != neighbour):
            return False
        self.edges.speak()  # what is unsaid goes first, for waiters count on that
        self.edges.send(
            neighbour, WholeFilter, table.generation, table.capacity, table.beside(neighbour)
        )
        return True

    @handles(FiltersAnew)
    def on_renew(self, sender: Address, renew: FiltersAnew) -> None:
        if self._enter(sender, renew.generation, renew.capacity):
            self.edges.wait(sender, renew.serial)

    @handles(WholeFilter)
    def on_summary(self, sender: Address, summary: WholeFilter) -> None:
        if not self._enter(sender, summary.generation, summary.capacity):
            return
        table = self.next
        if (
            table is not None
            and table.generation == summary.generation
            and sender not in table.whole
        ):
            if not table.replace(sender, summary.filter):
                return
            for neighbour in self.neighbours:
                if (
                    neighbour != sender
                ):  # its summary did not depend on its own filter, so it was sent before
                    self._summarise(neighbour)
            self._finish()
        self.edges.wait(sender, summary.serial)

    def _enter(self, told_by: Address, generation: int, capacity: int) -> bool:
        """Begin this generation if it is the next. False: of another view, or too early; it will be said again."""
        if not self.edges.among_us(told_by, generation):
            return False
        if generation > self._newest().generation:
            if self.next is not None:
                return False
            self._begin(generation, capacity, told_by)
        return True

    def _finish(self) -> None:
        """Go over to the new generation when all whole filters are here."""
        if self.next is not None and len(self.next.whole) == len(self.neighbours):
            self.table, self.next = self.next, None
            self.table.press()
            self._grow()
