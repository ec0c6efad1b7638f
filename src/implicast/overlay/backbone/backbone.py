"""Filters of a broker: one Bloom filter for each neighbour, of the tags registered beyond it, in
generations.

Thesis section 6.1 and Listing 2: the tags of a registration flood the tree, and each broker adds
them to the filter of the neighbour they came from. Four things are added.

*Coverage.* A broker knows when all others route by its tags (`edges.py`).

*No repetition.* A broker announces a tag once, when the first of its own clients holds it (thesis
section 6.3.1 names the saving); tags from a neighbour it passes on to the others. It does not
consult its filters to suppress known tags: filters have false positives, and a neighbour that was
not told of a tag would never forward to it.

*Generations.* A filter can neither grow nor forget. A broker with an outgrown filter, or whose
clients have lost many tags, asks the root of the tree for a new generation. Each broker starts from
its own clients' tags, and sends each neighbour one complete filter as soon as it has those of all
its other neighbours. Until all have arrived, casts follow the old filters or the new ones, so that
none is missed. No broker stores the tags of other brokers.

*Views.* For each new tree (`views.py`) the filters are rebuilt, and casts flood the tree meanwhile:
filters save messages but never decide a delivery. Generations and serials of a view begin at the
view's own number. A message of another view is not answered, and its sender repeats it in the next
view.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from implicast.language.target import Target
from implicast.overlay.backbone.edges import CoverageAck, Edges, TagUpdate
from implicast.overlay.backbone.fields import CAPACITY_MAX, EPOCH_SHIFT, Capacity, Numbered
from implicast.overlay.backbone.round_trips import RttProbe, RttReply, RttReport, RttRequest
from implicast.overlay.backbone.table import ROOM_LEAST, FilterTable
from implicast.overlay.backbone.views import RECOVERY_US, BrokerPing, BrokerPong, View
from implicast.peer.contract import Address, Host, Message, Part, handles
from implicast.peer.fields import Payload
from implicast.peer.lease import OWED_US
from implicast.peer.requests import Requests

GROWTH = 1.5
"""Capacity of a new generation relative to the present number of tags; more arrive during its
construction.
"""


class GenerationRequest(Message):
    """Asks the root for a new generation, because the filters of this one are outgrown or largely
    out of date.
    """

    wire = 0x0305
    generation: Numbered


class NewGeneration(Message):
    """A new generation of filters with this capacity begins; the receiver builds its own."""

    wire = 0x0302
    serial: Numbered
    generation: Numbered
    capacity: Capacity


class WholeFilter(Message):
    """The complete filter of the sender's side of the edge, in the new generation."""

    wire = 0x0303
    serial: Numbered
    generation: Numbered
    capacity: Capacity
    filter: Payload


@dataclass(frozen=True, slots=True)
class WholeFilters:
    """The filters of one broker when all updates have been propagated."""

    growths: int
    """Number of generations after the first."""
    capacity: int
    """Capacity of each filter in tags."""
    fields: Mapping[Address, bytes]
    """By source, its filter."""


class Backbone(Part, parts={"edges": Edges}):
    """Filters of one broker. `tags` returns its own clients' tags; `covered` is called with each
    token whose tags all brokers route by.
    """

    is_alone = False
    __slots__ = ("_lost", "edges", "epoch", "error", "neighbours", "next", "root", "table", "tags")

    def __init__(
        self,
        address: Address,
        host: Host,
        requests: Requests,
        room: int,
        error: float,
        tags: Callable[[], Iterable[str]],
        covered: Callable[[Any], None],
    ) -> None:
        super().__init__(address, host)
        self.error, self.tags = error, tags
        self.edges = Edges(address, host, requests, lambda: self._newest().generation, covered)
        self.epoch = 0
        """Number of the view that is followed; 0: none yet."""
        self.root = address
        self._lost: dict[Address, int] = {}
        """Brokers that fell out of the tree or restarted, and until when clients may be missing."""
        self.neighbours: tuple[Address, ...] = ()
        self.table = self._new_table(0, room)
        self.next: FilterTable | None = None
        """The generation under construction."""

    def restore(self, view: View, filters: WholeFilters | None = None) -> None:
        """Begin with the first view of an assembled backbone. `filters`: those of the tags that are
        registered; None: nothing is registered, so that empty filters are complete.
        """
        self._adopt(view)
        if filters is not None:
            generation = self.table.generation + filters.growths
            self.table = self._new_table(generation, filters.capacity)
            for source, field in filters.fields.items():
                self.table.replace(source, field)
            if filters.growths:
                self.table.compress()

    def _adopt(self, view: View) -> None:
        """Follow a view with empty filters."""
        self.epoch, self.root, self.neighbours = view.epoch, view.root, view.neighbours
        self.edges.restart(view.epoch, view.neighbours)
        self.table, self.next = self._new_table(view.epoch << EPOCH_SHIFT, view.room), None

    def follow(self, view: View) -> None:
        """Adopt a new tree: drop all pending updates, and rebuild the filters from each broker's
        own clients.
        """
        self._adopt(view)
        now_us, before = self.host.now_us, self._lost
        self._lost = dict.fromkeys(view.recovering, now_us + RECOVERY_US)
        self._lost |= {each: before.get(each, now_us + OWED_US) for each in view.lost}
        self._begin_generation(self.table.generation + 1, view.room, self.address)

    def announce_tags(self, tags: Iterable[str], token: Any) -> None:
        """Own clients hold these tags for the first time. `covered(token)` is called when all
        brokers route by them.
        """
        self._add_tags(self.address, tuple(tags))
        self.edges.ack_when_covered(self.address, token)

    def lost_brokers(self) -> int:
        """Brokers that fell out of the tree or restarted lately: some of their clients may not have
        registered again.
        """
        return sum(until_us > self.host.now_us for until_us in self._lost.values())

    def leads(self, neighbour: Address, target: Target) -> bool:
        """True if a cast must be forwarded to this neighbour."""
        passes = self.table.filters[neighbour].passes(target)
        if passes or self.next is None:
            return passes
        is_unknown = (
            self.table.generation == self.epoch << EPOCH_SHIFT
            and neighbour not in self.next.complete
        )
        return is_unknown or self.next.filters[neighbour].passes(target)

    def request_generation(self) -> None:
        """A filter is outgrown, or many own tags are gone: ask the root for a new generation."""
        if self.root == self.address:
            self.on_generation_request(self.address, GenerationRequest(self.table.generation))
        else:
            self.host.send(self.root, GenerationRequest(self.table.generation))

    def holdings(self) -> Any:
        """The filters in encoded form."""
        tables = [self.table] if self.next is None else [self.table, self.next]
        return [
            (source, each.to_bytes()) for table in tables for source, each in table.filters.items()
        ]

    # --- tag updates

    @handles(TagUpdate)
    def on_tag_update(self, sender: Address, update: TagUpdate) -> None:
        if (
            not self.edges.is_current(sender, update.generation)
            or update.generation > self._newest().generation
        ):
            return  # of another view, or ahead of the message that begins its generation
        if self.edges.record(sender, update.serial):  # else the tags were forwarded before
            self._add_tags(sender, update.tags)
        self.edges.ack_when_covered(sender, update.serial)

    def _add_tags(self, source: Address, tags: tuple[str, ...]) -> None:
        """Add tags of one source to its filters, and forward them to the other neighbours."""
        self.table.put(source, tags)
        if self.next is not None:
            self.next.put(source, tags)
        self.edges.queue_tags(source, tags)
        self._check_growth()

    # --- generations

    def _new_table(self, generation: int, capacity: int) -> FilterTable:
        return FilterTable((self.address, *self.neighbours), generation, capacity, self.error)

    def _newest(self) -> FilterTable:
        return self.table if self.next is None else self.next

    def _check_growth(self) -> None:
        """Ask for a new generation if a filter is outgrown."""
        if self.next is None and self.table.capacity < CAPACITY_MAX and self.table.take_outgrown():
            self.request_generation()

    @handles(GenerationRequest)
    def on_generation_request(self, sender: Address, request: GenerationRequest) -> None:
        if (
            self.root == self.address
            and self.next is None
            and request.generation == self.table.generation
        ):
            room = min(CAPACITY_MAX, max(ROOM_LEAST, ceil(self.table.estimate() * GROWTH)))
            self._begin_generation(self.table.generation + 1, room, self.address)

    def _begin_generation(self, generation: int, capacity: int, sender: Address) -> None:
        """Begin a generation with the own clients' tags, and announce it to the neighbours."""
        self.edges.flush()  # under a generation that the neighbours know
        self.next = self._new_table(generation, capacity)
        self.next.put(self.address, self.tags())
        for neighbour in self.neighbours:
            if not self._send_whole_filter(neighbour) and neighbour != sender:
                self.edges.send(neighbour, NewGeneration, generation, capacity)
        self._switch_if_complete()

    def _send_whole_filter(self, neighbour: Address) -> bool:
        """Send a neighbour the complete filter of this side, if the complete filters of all other
        neighbours are here.
        """
        table = self.next
        assert table is not None, "no generation is under construction"
        if not all(other in table.complete for other in self.neighbours if other != neighbour):
            return False
        self.edges.flush()  # pending tags go first: waiters rely on the order
        self.edges.send(
            neighbour, WholeFilter, table.generation, table.capacity, table.union_except(neighbour)
        )
        return True

    @handles(NewGeneration)
    def on_new_generation(self, sender: Address, begun: NewGeneration) -> None:
        if self._join_generation(sender, begun.generation, begun.capacity):
            self.edges.ack_when_covered(sender, begun.serial)

    @handles(WholeFilter)
    def on_whole_filter(self, sender: Address, whole: WholeFilter) -> None:
        if not self._join_generation(sender, whole.generation, whole.capacity):
            return
        table = self.next
        if (
            table is not None
            and table.generation == whole.generation
            and sender not in table.complete
        ):
            if not table.replace(sender, whole.filter):
                return
            for neighbour in self.neighbours:
                # The filter for the sender does not depend on the sender's, and was sent before.
                if neighbour != sender:
                    self._send_whole_filter(neighbour)
            self._switch_if_complete()
        self.edges.ack_when_covered(sender, whole.serial)

    def _join_generation(self, sender: Address, generation: int, capacity: int) -> bool:
        """Begin this generation if it is the next one. False: of another view or too early; the
        sender repeats it.
        """
        if not self.edges.is_current(sender, generation):
            return False
        if generation > self._newest().generation:
            if self.next is not None:
                return False
            self._begin_generation(generation, capacity, sender)
        return True

    def _switch_if_complete(self) -> None:
        """Switch to the new generation when all complete filters are here."""
        if self.next is not None and len(self.next.complete) == len(self.neighbours):
            self.table, self.next = self.next, None
            self.table.compress()
            self._check_growth()


class NoBackbone:
    """Stands for the backbone at a front end that is the only one."""

    is_alone = True
    epoch = 0
    neighbours: tuple[Address, ...] = ()

    def lost_brokers(self) -> int:
        return 0


KINDS = (
    TagUpdate,
    NewGeneration,
    WholeFilter,
    CoverageAck,
    GenerationRequest,
    BrokerPing,
    BrokerPong,
    View,
    RttProbe,
    RttReply,
    RttRequest,
    RttReport,
)
