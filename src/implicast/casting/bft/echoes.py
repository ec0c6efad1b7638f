"""Neighbours tell each other which casts they have: what all k senders of a place kept back comes from beside it.

A place in range that got a cast tells the nearest places in range on either side a while later, all casts of that while
in one message. Who lacks one asks for it, and is given the publisher's signed part; it counts by that signature, so it
matters nothing who hands it on. What comes this way is delivered and nothing else: the place does not hold it, and does
its duties when a proper copy comes, so that nobody is pre-empted by an early echo. A place is missed only if its k
senders and its three neighbours on each side lie, or were missed too.

Left out: echoes in worlds in which nothing happens, where every step is confirmed at once.
"""

from collections.abc import Callable

from implicast.casting.bft.gate import Gate
from implicast.casting.bft.messages import AskEcho, EchoDue, Echoed, EchoedCast, EchoOfCasts, Source
from implicast.casting.bft.multicast import Arc
from implicast.casting.inbox import Outcome
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import Address, CastId, Part, handles
from implicast.peer.memory import Recent

ECHO_US = 3_000_000
"""Casts of so long are told of together; by then all steps have been taken that are taken at all."""
NEIGHBOURS = 3
"""On either side."""
WIDELY = 16
"""Others in range that are told of a cast that was kept from us, or is ours."""
ECHOED_MAX = 256
"""Casts in one message; `messages.py` refuses more."""
KEPT_MAX = 1_024
"""Casts that can be asked for, that were asked for, or that came this way; the first are forgotten first."""

Query = tuple[int, bytes]


class Echoes(Part):
    """What the places of one member got lately. `deliver(source, arc)` is called where a cast comes this way,
    `flaw(source)` says what is wrong with one, `lacks(cast)` whether one is wanted; without it there are no echoes."""

    __slots__ = (
        "_asked",
        "_deliver",
        "_flaw",
        "_fresh",
        "_gate",
        "_given",
        "_graph",
        "_had",
        "_kept",
        "_lacks",
        "_wide",
        "took",
    )

    def __init__(
        self,
        graph: SkipGraph,
        gate: Gate,
        flaw: Callable[[Source], str | None],
        deliver: Callable[[Source, Arc], Outcome | None],
        lacks: Callable[[CastId], bool] | None,
    ) -> None:
        super().__init__(graph.address, graph.host)
        self._graph, self._gate, self._flaw, self._deliver, self._lacks = (
            graph,
            gate,
            flaw,
            deliver,
            lacks,
        )
        self._fresh: dict[tuple[Query, bytes], Source] = {}  # by multicast and our place
        self._wide: dict[Query, Source] = {}  # of which all are told whom we know in range
        self._kept: Recent[Query, Source] = Recent(KEPT_MAX)
        self._asked: Recent[tuple[Address, Query], None] = Recent(KEPT_MAX)
        self._given: Recent[tuple[Address, Query], None] = Recent(KEPT_MAX)
        self._had: Recent[tuple[Address, Query], None] = Recent(
            KEPT_MAX
        )  # who told us that it has which
        self.took: Recent[CastId, None] = Recent(KEPT_MAX)  # casts that came this way first

    def note(self, source: Source, place: bytes | None = None) -> None:
        """One of our places in range has a cast; or, without a place, it is our own, or was kept from us: where those
        lie who begin, whole parts of a range miss it, and everyone whom we know in range is told."""
        if self._lacks is None or len(self._fresh) + len(self._wide) >= KEPT_MAX:
            return
        if not self._fresh and not self._wide:
            self.host.after(int(ECHO_US * (0.75 + self.host.rng.random() / 2)), EchoDue())
        self._kept[source.name] = source
        if place is None:
            self._wide[source.name] = source
        else:
            self._fresh[source.name, place] = source

    @handles(EchoDue)
    def on_echo_due(self, alarm: EchoDue) -> None:
        found = [
            (source, self._beside(place, source.arc)) for (_, place), source in self._fresh.items()
        ]
        found += [(source, self._known(source.arc)) for source in self._wide.values()]
        self._fresh, self._wide = {}, {}
        told: dict[Address, dict[Query, Source]] = {}
        for source, addresses in found:
            for address in addresses:
                if (
                    address,
                    source.name,
                ) not in self._had:  # who said so itself need not be told: half of all
                    told.setdefault(address, {})[source.name] = source
        for to, sources in told.items():
            casts = [
                Echoed(each.cast, *each.name, each.low, each.high) for each in sources.values()
            ]
            self.host.send(to, EchoOfCasts(tuple(casts[:ECHOED_MAX])))

    def _beside(self, place: bytes, arc: Arc) -> list[Address]:
        """The nearest in range on either side, other members than ourselves."""
        if place not in self._graph.places.held:
            return []
        level, found = self._graph.places.held[place].table.levels[0], dict[Address, None]()
        right, left = level.nodes[level.own + 1 :], level.nodes[: level.own][::-1]
        for side in (right, left):
            near = dict.fromkeys(
                node.address
                for node in side
                if arc.holds(node.key) and node.address != self.address
            )
            found.update(dict.fromkeys(list(near)[:NEIGHBOURS]))
        return list(found)

    def _known(self, arc: Arc) -> list[Address]:
        """Some of those in range whom any of our places lists."""
        held = self._graph.places.held.values()
        listed = (node for place in held for level in place.table.levels for node in level.nodes)
        found = list(dict.fromkeys(node.address for node in listed if arc.holds(node.key)))
        others = [address for address in found if address != self.address]
        return self.host.rng.sample(others, min(WIDELY, len(others)))

    @handles(EchoOfCasts)
    def on_echo(self, sender: Address, echo: EchoOfCasts) -> None:
        """Ask for what we lack and may want."""
        for each in echo.casts:
            query, arc = (each.query, each.place), Arc(each.low, each.high)
            self._had[sender, query] = None
            if query in self._kept or self._lacks is None or not self._lacks(each.cast):
                continue
            if any(map(arc.holds, self._graph.places.held)) and self._asked.once(
                (sender, query), None
            ):
                self.host.send(sender, AskEcho(each.query, each.place))

    @handles(AskEcho)
    def on_ask_echo(self, sender: Address, asked: AskEcho) -> None:
        """Each member is given each cast once."""
        query = (asked.query, asked.place)
        source = self._kept.get(query)
        if source is not None and self._given.once((sender, query), None):
            self.host.send(sender, EchoedCast(source))

    @handles(EchoedCast)
    def on_echoed_cast(self, sender: Address, echoed: EchoedCast) -> None:
        source = echoed.source
        if self._asked.pop((sender, source.name), self) is self:
            self._gate.refuse("unasked_echo")
            return
        flaw = self._flaw(source)
        if flaw is not None:
            self._gate.refuse(flaw)
            return
        if source.name not in self._kept and any(map(source.arc.holds, self._graph.places.held)):
            if self._deliver(source, source.arc) is Outcome.TAKEN:
                self.took[source.cast] = None
            self.note(source)
