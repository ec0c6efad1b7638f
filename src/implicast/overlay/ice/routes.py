"""Carrying messages over ground with holes: hop by hop confirmed, around suspects, parked where places are in doubt.

A part of a destination goes to its owner if that is known, to the owner's first live heir if the owner is suspect, and
else to a neighbour that is strictly nearer (Listings 6 and 7 of the thesis). Where nobody is nearer a *detour* begins:
the message notes how near it had come and whom it has visited, and may go to worse places until it is nearer than that.
Outside a detour each hop is nearer or rests on a better title, inside one nobody is visited twice: nothing loops.
Dropping is safe: whoever asked asks again.

Where nothing is assured only the two listings are left: what goes on is sent once and carries nothing but its tract.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace

from implicast.overlay.ice.estate import Way, check_tract
from implicast.overlay.ice.messages import Enter, Passed, Sound, Title, Titles, Who
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.overlay.ice.table import SurfaceTable, rows_of
from implicast.peer.asking import Question
from implicast.peer.contract import Address, handles
from implicast.peer.memory import Recent
from implicast.space.prefix import box_of
from implicast.space.tract import EMPTY, Tract, contains, intersect, subtract, unite

REROUTED = 4
"""A message that is given up on one way and tried on another is so many hops older."""
Routed = Any
"""A message with a field `way`."""
Thing = TypeVar("Thing")
Hop = tuple[Address, Way]
"""The next peer, and the way of what it gets."""
NO_HOPS: list[Hop] = []


class Onward(NamedTuple):
    """What becomes of a destination here."""

    own: Tract
    """Ours, firm and not in doubt."""
    hops: list[Hop]
    waiting: Tract
    """Ground in transit, in doubt or of the dead: nobody answers for it now."""

    def rest_of(self, tract: Tract) -> Tract:
        """What is neither ours nor on its way: no way may be known to it now, and it must not count as covered."""
        tract = subtract(tract, self.own) if self.own else tract
        for _, way in self.hops:
            tract = subtract(tract, way.tract)
        return tract


class Paths(SurfacePart):
    """Finds next hops, confirms what came, and keeps what has to wait."""

    __slots__ = ("_seen_before", "_table", "parked", "seen")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self.parked: list[tuple[int, Routed]] = []
        self.seen: dict[Address, Recent[int, None]] = {}
        """Hops that each peer sent us lately, to know repeats; repeats come within seconds."""
        self._seen_before: dict[Address, Recent[int, None]] = {}
        """Those of the time before: what is older is forgotten."""
        self._table: SurfaceTable | None = None
        if surface.terms.assured:
            surface.asker.topic(
                "hop", self.timers.patience(self.timers.tries_hop), self._undelivered
            )

    # --- the table that messages are routed by

    @property
    def table(self) -> SurfaceTable:
        """Neighbours that are not suspect, as rows."""
        if self._table is None:
            plot, circle, dimensions = (
                self.surface.plot,
                self.surface.circle,
                self.surface.terms.dimensions,
            )
            others = [each for each in plot.others if not circle.is_suspect(each.owner)]
            owners = [each.owner for each in others]
            latencies = np.array([circle.latency_us(each) for each in owners], np.float64)
            own, rows = (
                rows_of((box_of(each.low, each.bits, dimensions) for each in titles), dimensions)
                for titles in (plot.pieces, others)
            )
            self._table = SurfaceTable(dimensions, owners, (own, rows, latencies))
        return self._table

    def redraw(self, table: SurfaceTable | None = None) -> None:
        """The atlas or who is suspect has changed; the table is made when it is needed, if it is not known."""
        self._table = table

    # --- coming

    @handles(Enter, Who, Sound)
    def carry(self, sender: Address, message: Routed) -> None:
        """A routed message has come by."""
        surface, way = self.surface, message.way
        if not surface.terms.assured:
            self._pass_on(sender, message, way.tract)
            return
        self.host.send(sender, Passed(way.number))
        surface.circle.heard(sender)
        if not surface.entry.joined:
            surface.greetings.hail([sender])  # it takes us for the one that was here before
        if not self._is_repeat(sender, way.number):
            surface.greetings.check_mark(sender, way.mark)
            self.route(sender, message)

    def _pass_on(self, sender: Address, message: Routed, tract: Tract) -> None:
        """`route` without assurance; to one code, the usual case, at half of its cost."""
        plot = self.surface.plot
        firm = plot.firm
        if len(firm) == 2 == len(tract) and tract[1] - tract[0] == 1 and not plot.unsettled:
            if firm[0] <= tract[0] < firm[1]:
                self.deliver(sender, tract, message)
                return
            hop = (self._table or self.table).next_hop(tract[0])
            if hop is not None:
                self.host.send(hop, message)
                return
        self.route(sender, message)

    def _is_repeat(self, sender: Address, number: int) -> bool:
        seen, before = self.seen.get(sender), self._seen_before.get(sender)
        if seen is None:
            seen = self.seen[sender] = Recent(self.timers.seen_max)
        return (before is not None and number in before) or not seen.once(number, None)

    def forget_hops(self) -> None:
        """Another time begins."""
        self._seen_before, self.seen = self.seen, {}

    # --- going on

    def route(self, sender: Address, message: Routed) -> None:
        """Our part is delivered, or parked while we do not answer for it; the rest goes on."""
        surface, (own, hops, waiting) = self.surface, self.onward(message.way)
        for hop, way in hops:
            if surface.terms.assured:
                number = surface.next_number()
                numbered = Way(way.tract, number, way.mark, way.hops, way.stuck, way.visited)
                surface.asker.ask("hop", (number, hop), hop, replace(message, way=numbered))
            else:
                self.host.send(hop, message if way is message.way else replace(message, way=way))
        if waiting and type(message) is Who:
            others = surface.plot.others
            self._tell(
                message.asker,
                [each for each in others if intersect((each.low, each.high), waiting)],
            )
        elif waiting:
            self.park(message, waiting)
        if own:
            self.deliver(sender, own, message)

    def deliver(self, sender: Address, part: Tract, message: Routed) -> None:
        """What has arrived; our own kinds are decided here, all others above."""
        if type(message) is Enter:
            self.surface.entry.asked(message, part[0])
        elif type(message) is Who:
            self._tell(message.asker, self.surface.plot.firm_pieces())
        elif type(message) is Sound:
            self.surface.entry.sounded(message, part[0])
        else:
            self.surface.tenant.arrived(sender, part, message)

    def _tell(self, asker: Address, titles: list[Title]) -> None:
        if asker != self.address and titles:
            self.host.send(asker, Titles(tuple(titles)))

    def onward(self, way: Way) -> Onward:
        """What of a destination is ours to answer for, what goes on and where, and what has to wait."""
        surface, plot, tract = self.surface, self.surface.plot, way.tract
        if len(tract) == 2 and tract[1] - tract[0] == 1 and not (plot.unsettled or way.stuck):
            found = self._to_code(surface, way, tract)
            if found is not None:
                return found
        if not surface.terms.assured:
            return self._plainly(tract)
        own, rest, waiting = self._divided(tract)
        if own and surface.is_doubtful:
            own, waiting = EMPTY, unite(own, waiting)
        hops = list[Hop]()
        if rest and (own or way.hops <= self.timers.hops_max):
            way = (
                replace(way, hops=0) if own else way
            )  # what has found a part of its destination is young again
            waiting = unite(waiting, self._send_on(way, rest, hops))
        return Onward(own, hops, waiting)

    def _divided(self, tract: Tract) -> tuple[Tract, Tract, Tract]:
        """What is ours, what is others', what is in transit."""
        check_tract(tract)
        plot = self.surface.plot
        own = intersect(tract, plot.firm)
        rest = subtract(tract, plot.firm) if own else tract
        waiting = intersect(rest, plot.unsettled) if rest and plot.unsettled else EMPTY
        return own, subtract(rest, waiting) if waiting else rest, waiting

    def _plainly(self, tract: Tract) -> Onward:
        """The listings alone."""
        own, rest, waiting = self._divided(tract)
        terms, hops = self.surface.terms, list[Hop]()
        for hop, part in self.table.branches(rest, terms.cosine, terms.merge) if rest else ():
            if hop is None:
                waiting = unite(waiting, part)
            else:
                hops.append((hop, Way(part)))
        return Onward(own, hops, waiting)

    def _to_code(self, surface: Surface, way: Way, tract: Tract) -> Onward | None:
        """The plain case, a quarter of the cost: one code, nobody in doubt; None if it is not so plain."""
        code, assured = tract[0], surface.terms.assured
        if bisect_right(surface.plot.firm, code) & 1:
            return (
                None
                if assured and surface.succession.is_doubtful
                else Onward(tract, NO_HOPS, EMPTY)
            )
        table = self._table or self.table
        if assured and (way.hops > self.timers.hops_max or not self._is_whole(table)):
            return None
        hop = table.next_hop(code)
        if hop is None:
            return None if assured else Onward(EMPTY, NO_HOPS, tract)
        return Onward(EMPTY, [(hop, self._step(way, tract) if assured else way)], EMPTY)

    def _is_whole(self, table: SurfaceTable) -> bool:
        """Is no neighbour suspect?"""
        return 0 < len(table.owners) == len(self.surface.plot.others)

    def _step(
        self, way: Way, tract: Tract, stuck: tuple[int, ...] = (), visited: tuple[Address, ...] = ()
    ) -> Way:
        return Way(tract, 0, self.surface.greetings.mark, way.hops + 1, stuck, visited)

    def sort_by_hop(
        self, codes: Sequence[int], things: Sequence[Thing]
    ) -> tuple[list[Thing], dict[Address | None, list[Thing]]]:
        """Things by where their places are: ours, and the others by next hop (None: to be parked)."""
        ours: list[Thing] = []
        others: dict[Address | None, list[Thing]] = {}
        firm, unsettled = self.surface.plot.firm, self.surface.plot.unsettled
        for code, hop, thing in zip(codes, self.table.next_hops(codes), things, strict=True):
            if contains(firm, code):
                ours.append(thing)
            else:
                to = None if unsettled and contains(unsettled, code) else hop
                others.setdefault(to, []).append(thing)
        return ours, others

    # --- round holes

    def _send_on(self, way: Way, rest: Tract, hops: list[Hop]) -> Tract:
        """While no neighbour is suspect, as the listings say; else owners that are known, and the heirs of suspects,
        get their own parts. An heir may live far off and know no title there: so that it does not send the message
        back, the way to it is a detour, and on a detour a peer looks into its estates too. What has to wait."""
        parts: dict[tuple[Address, bool], Tract] = {}
        if way.stuck or not self._is_whole(self.table):
            legacies = self.surface.estates.held.values() if way.stuck else ()
            for title in (
                *self.surface.plot.others,
                *(each for legacy in legacies for each in legacy.titles),
            ):
                if part := intersect(rest, (title.low, title.high)):
                    whom = self._knock(title.owner, way.visited)
                    parts[whom] = unite(parts.get(whom, EMPTY), part)
                    rest = subtract(rest, part)
        waiting = parts.pop((self.address, False), EMPTY)
        for (hop, owns), part in parts.items():
            detour = (
                () if owns else (way.stuck or self.table.rank(part), (*way.visited, self.address))
            )
            hops.append((hop, self._step(way, part, *detour)))
        if rest:
            self._outward(way, rest, hops)
        return waiting

    def _knock(self, owner: Address, visited: Sequence[Address]) -> tuple[Address, bool]:
        """The owner (True), or while it is suspect its first live heir; ourselves if that is us, or was asked."""
        circle = self.surface.circle
        first = next(
            (each for each in (owner, *circle.heirs_of(owner)) if not circle.is_suspect(each)),
            self.address,
        )
        asked = first != owner and (first in visited or len(visited) >= self.timers.visited_max)
        return (self.address, False) if asked else (first, first == owner)

    def _outward(self, way: Way, rest: Tract, hops: list[Hop]) -> None:
        """Next hops by the listings, and the beginnings or next steps of detours."""
        terms, table = self.surface.terms, self.table
        if way.stuck and table.rank(rest) >= way.stuck:
            self._detour(way, rest, way.stuck, (*way.visited, self.address), hops)
            return
        for hop, part in table.branches(rest, terms.cosine, terms.merge) if len(table.rows) else ():
            if hop is None:
                self._detour(way, part, table.rank(part), (self.address,), hops)
            else:
                hops.append((hop, self._step(way, part)))

    def _detour(
        self,
        way: Way,
        part: Tract,
        stuck: tuple[int, ...],
        visited: tuple[Address, ...],
        hops: list[Hop],
    ) -> None:
        hop = self.table.nearest(part, visited) if len(visited) <= self.timers.visited_max else None
        if hop is not None:
            hops.append((hop, self._step(way, part, stuck, visited)))

    # --- one hop

    @handles(Passed)
    def on_passed(self, sender: Address, passed: Passed) -> None:
        self.surface.circle.heard(sender)
        self.surface.asker.answered("hop", (passed.number, sender))

    def _undelivered(self, key: Any, question: Question) -> None:
        """Nobody there: look for another way."""
        self.surface.circle.suspect(question.to)
        message: Routed = question.message
        self.route(
            self.address,
            replace(message, way=replace(message.way, hops=message.way.hops + REROUTED)),
        )

    # --- waiting

    def park(self, message: Routed, part: Tract) -> None:
        """What lies on ground in transit, in doubt or of the dead waits, for a while and up to a bound."""
        if len(self.parked) < self.timers.parked_max:
            waiting = replace(message, way=replace(message.way, tract=part))
            self.parked.append((self.host.now_us + self.timers.gap_us, waiting))
            self.surface.start()

    def unpark(self) -> None:
        """Look again at what waited; the tenant does the same."""
        self.surface.tenant.reopened()
        waiting, self.parked = self.parked, []
        for until_us, message in waiting:
            if until_us > self.host.now_us:
                before = len(self.parked)
                self.route(self.address, message)
                self.parked[before:] = [
                    (min(until_us, due_us), again) for due_us, again in self.parked[before:]
                ]
