"""Carrying messages over ground with holes: hop by hop confirmed, around suspects, parked where places are in doubt.

A part of a destination goes to its owner if that is known, to the owner's first live heir if the owner is suspect, and
else to a neighbour that is strictly nearer (Listings 6 and 7 of the thesis). Where nobody is nearer a *detour* begins:
the message notes how near it had come and whom it has visited, and may go to worse places until it is nearer than that.
Outside a detour each hop is nearer or rests on a better title, inside one nobody is visited twice: nothing loops.
Dropping is safe: whoever asked asks again.

Where nothing is assured only the two listings are left: what goes on is sent once and carries nothing but its tract.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec.structs import replace

from implicast.overlay.ice.asking import Question
from implicast.overlay.ice.estate import Way
from implicast.overlay.ice.geometry import FARTHEST, box_of, rank_of, target_rows
from implicast.overlay.ice.messages import Enter, Passed, Title, Titles, Who
from implicast.overlay.ice.share import Share
from implicast.overlay.ice.table import Rows, Table
from implicast.peer.contract import Address, handles
from implicast.space.tract import Tract, contains, intersect, intervals, subtract, union

if TYPE_CHECKING:
    from implicast.overlay.ice.surface import Surface

REROUTED = 4
"""A message that is given up on one way and tried on another is so many hops older."""
Routed = Any
"""A message with a field `way`."""
Thing = TypeVar("Thing")


class Routes(Share):
    """Routes."""

    __slots__ = ("_table", "parked", "seen")

    def __init__(self, surface: "Surface") -> None:
        super().__init__(surface)
        self.parked: list[tuple[int, Routed]] = []
        self.seen: dict[Address, OrderedDict[int, None]] = {}
        """Hops that each peer sent us lately, to know repeats."""
        self._table: Table | None = None
        if surface.terms.assured:
            surface.asker.topic("hop", self.timers.tries_hop, self._undelivered)

    # --- the table that messages are routed by

    @property
    def table(self) -> Table:
        """Neighbours that are not suspect, as rows."""
        if self._table is None:
            plot, circle, dimensions = self.surface.plot, self.surface.circle, self.surface.terms.dimensions
            others = [each for each in plot.others if not circle.is_suspect(each.owner)]
            latencies = np.array([circle.latency_us(each.owner) for each in others], np.float64)
            owners = [each.owner for each in others]
            self._table = Table(dimensions, _rows(plot.pieces, dimensions), _rows(others, dimensions), latencies, owners)
        return self._table

    def redraw(self) -> None:
        """The atlas or who is suspect has changed."""
        self._table = None

    def begin_with(self, table: Table) -> None:
        self._table = table

    # --- coming

    def carry(self, sender: Address, message: Routed) -> None:
        """A routed message has come by."""
        surface = self.surface
        if surface.terms.assured:
            way: Way = message.way
            self.host.send(sender, Passed(way.number))
            surface.circle.heard(sender)
            if self._is_repeat(sender, way.number):
                return
            surface.greetings.check_mark(sender, way.mark)
        self.route(sender, message)

    def _is_repeat(self, sender: Address, number: int) -> bool:
        seen = self.seen.get(sender)
        if seen is None:
            seen = self.seen[sender] = OrderedDict()
        if number in seen:
            return True
        seen[number] = None
        if len(seen) > self.timers.seen_max:
            seen.popitem(last=False)
        return False

    def forget_hops(self, since_us: int) -> None:
        """Of those silent for so long no repeat is on its way any more."""
        known = self.surface.circle.news
        for each in [each for each in self.seen if each in known and known[each].heard_us < since_us]:
            del self.seen[each]

    def forget_strangers(self) -> None:
        known = self.surface.circle.news
        self.seen = {each: numbers for each, numbers in self.seen.items() if each in known}

    @handles(Enter)
    def on_enter(self, sender: Address, enter: Enter) -> None:
        self.carry(sender, enter)

    @handles(Who)
    def on_who(self, sender: Address, who: Who) -> None:
        self.carry(sender, who)

    # --- going on

    def route(self, sender: Address, message: Routed) -> None:
        """Our part is delivered, or parked while we do not answer for it; the rest goes on."""
        way: Way = message.way
        tract = way.tract
        if len(tract) == 2 and tract[1] - tract[0] == 1 and self._to_code(sender, message, tract[0]):
            return
        plot = self.surface.plot
        own = intersect(tract, plot.firm)
        rest = subtract(tract, plot.firm) if own else tract
        if rest and plot.unsettled and (waiting := intersect(rest, plot.unsettled)):
            rest = subtract(rest, plot.unsettled)
            self.park(message, waiting)
        if rest and not self.surface.terms.assured:
            self._branch(message, rest)
        elif rest and way.hops <= self.timers.hops_max:
            self._send_on(message, rest)
        if own and self.surface.is_doubtful:
            self.park(message, own)
        elif own:
            self.deliver(sender, own, message)

    def _to_code(self, sender: Address, message: Routed, code: int) -> bool:
        """The plain case of `route`, a quarter of its cost: one code, nobody in doubt; False if it is not so plain."""
        surface, plot, way = self.surface, self.surface.plot, message.way
        if contains(plot.firm, code):
            if surface.is_doubtful:
                return False
            self.deliver(sender, way.tract, message)
            return True
        if plot.status or way.stuck or way.hops > self.timers.hops_max:
            return False
        if not surface.terms.assured:
            self.forward((self._table or self.table).next_hop(code), message)
            return True
        title = plot.title_at(code)
        hop = title.owner if title is not None else self.table.next_hop(code) if len(self.table.rows) else None
        if hop is None or surface.circle.is_suspect(hop):
            return False
        self._hop(hop, message, way.tract)
        return True

    def deliver(self, sender: Address, part: Tract, message: Routed) -> None:
        """What has arrived; our own kinds are decided here, all others above."""
        if type(message) is Enter:
            self.surface.entry.asked(message, part[0])
        elif type(message) is Who:
            self._tell(message.asker, self.surface.plot.firm_pieces())
        else:
            self.surface.tenant.arrived(sender, part, message)

    def _tell(self, asker: Address, titles: list[Title]) -> None:
        if asker != self.address and titles:
            self.host.send(asker, Titles(tuple(titles)))

    # --- the listings alone

    def _branch(self, message: Routed, rest: Tract) -> None:
        terms = self.surface.terms
        for hop, part in (self._table or self.table).branches(rest, terms.cosine, terms.merge):
            self.forward(hop, replace(message, way=Way(part)))

    def forward(self, hop: Address | None, message: Routed) -> None:
        """Once to the next hop; parked if there is none."""
        if hop is None:
            self.park(message, message.way.tract)
        else:
            self.host.send(hop, message)

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

    def _send_on(self, message: Routed, rest: Tract) -> None:
        known, unknown = self._by_owner(rest)
        parts: dict[Address, list[Tract]] = {}
        for owner, part in known.items():
            hop = self._knock(owner)
            if hop is None:
                self._wait_for(owner, message, part)
            else:
                parts.setdefault(hop, []).append(part)
        for hop, part in self._outward(message, unknown) if unknown else ():
            parts.setdefault(hop, []).append(part)
        for hop, shares in parts.items():
            tract = shares[0] if len(shares) == 1 else union(each for share in shares for each in intervals(share))
            self._hop(hop, message, tract)

    def _by_owner(self, tract: Tract) -> tuple[dict[Address, Tract], Tract]:
        """The parts of a destination whose owners are known, and what is left."""
        plot, known = self.surface.plot, dict[Address, Tract]()
        for low, high in intervals(tract):
            at = low
            while at < high:
                title = plot.title_at(at)
                if title is None:
                    at = plot.next_low(at, high)
                    continue
                known[title.owner] = (*known.get(title.owner, ()), at, min(high, title.high))
                at = title.high
        if not known:
            return known, tract
        shares = {owner: union(intervals(share)) for owner, share in known.items()}
        return shares, subtract(tract, union(each for share in shares.values() for each in intervals(share)))

    def _knock(self, owner: Address) -> Address | None:
        """The owner, or while it is suspect its first live heir; None if that is us, or nobody."""
        circle = self.surface.circle
        if not circle.is_suspect(owner):
            return owner
        for heir in circle.heirs_of(owner):
            if heir == self.address:
                return None
            if not circle.is_suspect(heir):
                return heir
        return None

    def _wait_for(self, owner: Address, message: Routed, part: Tract) -> None:
        if type(message) is Who:
            self._tell(message.asker, self.surface.plot.atlas.of(owner))
        else:
            self.park(message, part)

    def _outward(self, message: Routed, unknown: Tract) -> list[tuple[Address, Tract]]:
        """Next hops towards ground whose owners we do not know; what starts or continues a detour is sent at once."""
        way: Way = message.way
        if way.stuck and self._rank(unknown) >= way.stuck:
            self._detour(message, unknown, way.stuck, (*way.visited, self.address))
            return []
        if not len(self.table.rows):
            return []
        found, terms = [], self.surface.terms
        for hop, part in self.table.branches(unknown, terms.cosine, terms.merge):
            if hop is None:
                self._detour(message, part, self._rank(part), (self.address,))
            else:
                found.append((hop, part))
        return found

    def _detour(self, message: Routed, part: Tract, stuck: tuple[int, ...], visited: tuple[Address, ...]) -> None:
        if len(visited) > self.timers.visited_max:
            return
        dimensions, table = self.surface.terms.dimensions, self.table
        targets = target_rows(part, dimensions)
        ranks = [
            (rank_of(table.rows[row : row + 1], targets, dimensions), row)
            for row, owner in enumerate(table.owners)
            if owner not in visited
        ]
        if ranks:
            _, row = min(ranks)
            self._hop(table.owners[row], message, part, stuck, visited)

    def _rank(self, part: Tract) -> tuple[int, int]:
        own, dimensions = self.table.own, self.surface.terms.dimensions
        return rank_of(own, target_rows(part, dimensions), dimensions) if len(own) else FARTHEST

    # --- one hop

    def _hop(
        self, to: Address, message: Routed, tract: Tract, stuck: tuple[int, ...] = (), visited: tuple[Address, ...] = ()
    ) -> None:
        surface, number = self.surface, self.surface.next_number()
        way = Way(tract, number, surface.greetings.mark, message.way.hops + 1, stuck, visited)
        surface.asker.ask("hop", number, to, replace(message, way=way))

    @handles(Passed)
    def on_passed(self, sender: Address, passed: Passed) -> None:
        self.surface.circle.heard(sender)
        self.surface.asker.answered("hop", passed.number, sender)

    def _undelivered(self, question: Question) -> None:
        """Nobody there: look for another way."""
        self.surface.circle.suspect(question.to)
        message: Routed = question.message
        way: Way = message.way
        self.route(self.address, replace(message, way=replace(way, hops=way.hops + REROUTED)))

    # --- waiting

    def park(self, message: Routed, part: Tract) -> None:
        """What lies on ground in transit, in doubt or of the dead waits, for a while and up to a bound."""
        if len(self.parked) < self.timers.parked_max:
            waiting = replace(message, way=replace(message.way, tract=part))
            self.parked.append((self.host.now_us + self.timers.park_us, waiting))
            self.surface.upkeep.start()

    def unpark(self) -> None:
        """Look again at what waited."""
        waiting, self.parked = self.parked, []
        for until_us, message in waiting:
            if until_us > self.host.now_us:
                self._take_up(until_us, message)

    def _take_up(self, until_us: int, message: Routed) -> None:
        before = len(self.parked)
        self.route(self.address, message)
        for index in range(before, len(self.parked)):
            self.parked[index] = (min(until_us, self.parked[index][0]), self.parked[index][1])


def _rows(titles: list[Title], dimensions: int) -> Rows:
    rows = [[*low, *high] for low, high in (box_of(each.low, each.bits, dimensions) for each in titles)]
    return np.array(rows, np.int64).reshape(len(rows), 2 * dimensions)
