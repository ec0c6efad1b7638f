"""Stands in for the new surface until it is there."""

from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from implicast.overlay.ice.alive.estate import Way
from implicast.overlay.ice.alive.ice import LivingIce
from implicast.overlay.ice.alive.settings import Life as Timers
from implicast.space.tract import EMPTY, Tract, contains, intersect, intervals, subtract, union


@dataclass(frozen=True, slots=True)
class Terms:
    dimensions: int
    cosine: float
    merge: bool = True
    timers: Timers = field(default_factory=Timers)
    assured: bool = True


class Onward(NamedTuple):
    own: Tract
    hops: list
    waiting: Tract


class Surface(LivingIce):
    __slots__ = ("terms",)

    def __init__(self, address, host, keeper, terms):
        self.terms = terms
        super().__init__(address, host, keeper=keeper, life=terms.timers, dimensions=terms.dimensions, cosine=terms.cosine, merge=terms.merge)
        self.reunited = keeper.reunited

    def start(self):
        if self.terms.assured:
            super().start()

    @property
    def is_doubtful(self):
        return self.terms.assured and super().is_doubtful

    @property
    def centre(self):
        return tuple(self.table.centre.tolist())

    def batch(self, items, then):
        if not self.terms.assured:
            then()
            return True
        return super().batch(items, then)

    def inherit_from(self, owner):
        if self.terms.assured:
            super().inherit_from(owner)

    def carry(self, sender, message):
        if self.terms.assured:
            super().carry(sender, message)
        else:
            self.route(sender, message)

    def route(self, sender, message):
        if self.terms.assured:
            super().route(sender, message)
            return
        onward = self.onward(message.way)
        if onward.own:
            self.deliver(sender, onward.own, message)
        for hop, way in onward.hops:
            self.host.send(hop, replace(message, way=way) if way is not message.way else message)

    def sort_by_hop(self, codes, things):
        ours, others = [], {}
        for code, hop, thing in zip(codes, self.table.next_hops(codes), things, strict=True):
            if contains(self.ground, code):
                ours.append(thing)
            else:
                others.setdefault(hop, []).append(thing)
        return ours, others

    def forward(self, hop, message):
        self.host.send(hop, message)

    def onward(self, way):
        ground = self.ground
        if len(way.tract) == 2 and way.tract[1] - way.tract[0] == 1:
            code = way.tract[0]
            if contains(ground, code):
                return Onward(way.tract, [], EMPTY) if not self.is_doubtful else Onward(EMPTY, [], way.tract)
            if not self.terms.assured:
                return Onward(EMPTY, [(self.table.next_hop(code), way)], EMPTY)
        own = intersect(way.tract, ground)
        rest = subtract(way.tract, ground) if own else way.tract
        waiting = EMPTY
        if self.is_doubtful:
            own, waiting = EMPTY, own
        if rest and self.unsettled and (unsettled := intersect(rest, self.unsettled)):
            rest = subtract(rest, self.unsettled)
            waiting = union([*intervals(waiting), *intervals(unsettled)])
        if not rest or not len(self.table.rows):
            return Onward(own, [], union([*intervals(waiting), *intervals(rest)]))
        hops = []
        if not self.terms.assured:
            return Onward(own, [(hop, Way(part)) for hop, part in self.table.branches(rest, self.cosine, self.merge)], waiting)
        mark, count = self.mark, way.hops + 1
        if way.hops > self.life.hops_max:
            return Onward(own, [], union([*intervals(waiting), *intervals(rest)]))
        branches = [] if way.stuck else self.table.branches(rest, self.cosine, self.merge)
        if branches and all(hop is not None and not self.is_suspect(hop) for hop, _ in branches):
            return Onward(own, [(hop, Way(part, 0, mark, count)) for hop, part in branches], waiting)
        known, unknown = self._by_owner(rest)
        caught = []
        for owner, part in known.items():
            hop = self._knock(owner)
            if hop is None:
                waiting = union([*intervals(waiting), *intervals(part)])
            else:
                hops.append((hop, Way(part, 0, mark, count)))
        if unknown:
            if way.stuck and self._rank(unknown) >= way.stuck:
                self._detour2(caught, unknown, way.stuck, (*way.visited, self.address), count)
            else:
                for hop, part in self.table.branches(unknown, self.cosine, self.merge):
                    if hop is None:
                        self._detour2(caught, part, self._rank(part), (self.address,), count)
                    else:
                        hops.append((hop, Way(part, 0, mark, count)))
        found = union(each for _, w in [*hops, *caught] for each in intervals(w.tract))
        lost = subtract(subtract(rest, found), waiting)
        return Onward(own, [*hops, *caught], union([*intervals(waiting), *intervals(lost)]))

    def _detour2(self, found, part, stuck, visited, count):
        from implicast.overlay.ice.alive.geometry import rank_of, target_rows
        if len(visited) > self.life.visited_max:
            return
        targets, table = target_rows(part, self.dimensions), self.table
        ranks = [(rank_of(table.rows[row : row + 1], targets, self.dimensions), row) for row, owner in enumerate(table.owners) if owner not in visited]
        if ranks:
            _, row = min(ranks)
            found.append((table.owners[row], Way(part, 0, self.mark, count, stuck, visited)))
