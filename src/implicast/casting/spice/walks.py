"""Walks through registries, confirmed hop by hop with one message that also tells the outcome.

A walk (a cast, a gathering, a copying) goes over the surface to every owner of a part of a registry at one notch; where
that is closed it goes on from there to the scaled part of the next. Each hop is a *trip* at the peer that it comes to:
it is open until our own part is done and every hop that went on from here has been answered; then whoever sent it is
told, once, what became of all of it. So a walk costs one answer for each message. A peer that needs longer says so
(`Working`); one that says nothing is asked again, and then the walk goes another way. What a peer has done of a walk it
remembers for a while, so that a walk that comes again by another way is answered and not repeated: a crash of any peer
but the one who began delays, and does not lose.

A peer that parts with a piece finishes the work it has begun there: it had all records that were complete by then.
Casts without receipts leave nothing behind: no trip, no work, no answer. Copying and gathering are always confirmed.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from implicast.casting.spice.alarms import HopDue, Slow, Tidy
from implicast.casting.spice.messages import ASKED, CastTo, CopyFrom, Covered, GatherTo, Working
from implicast.casting.spice.registry import Held, Registry
from implicast.casting.spice.settings import CAST_US, SLOW_US, WAIT_LONGEST_US
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.trips import Hop, Seen, Trip, Walk, Work, name_of
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, CastId, handles
from implicast.peer.later import SLOT_US
from implicast.peer.memory import Shares
from implicast.space.tract import EMPTY, Tract, contains, intersect, scale_within, subtract

if TYPE_CHECKING:
    from implicast.casting.spice.casts import Casts
    from implicast.casting.spice.gatherings import Gatherings
    from implicast.casting.spice.replicas import Replicas

TRIPS_MAX = 32_768
"""Trips that are open or lately finished at one peer, those of a peer with many refused first; they are sent again."""
PARKED_MAX = 4_096
"""Casts without receipts that wait at one peer; further ones are lost."""
TIDY_US = 10_000_000


class Walks(SpicePart):
    """A peer's part in the walks of others, and the bookkeeping of its own."""

    __slots__ = ("_active", "_hops", "_parked", "_shares", "_slow", "_tidying", "_trips", "_works")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._works: dict[Hashable, list[Work]] = {}
        self._trips: dict[Seen, Trip] = {}
        self._shares: Shares[Address] = Shares(TRIPS_MAX)
        self._hops: dict[int, Hop] = {}
        self._active: dict[tuple[str, int], dict[Work, None]] = {}
        """Unfinished works that went up from closed parts here, by registry."""
        self._slow: deque[Trip] | None = None
        """Trips of others, oldest first, that may have to be excused."""
        self._parked: list[Walk] = []
        """Casts without receipts that wait for ground to settle."""
        self._tidying = False

    def _purpose(self, walk: Walk) -> "Casts | Gatherings | Replicas":
        if isinstance(walk, CastTo):
            return self.spice.casts
        return self.spice.gatherings if isinstance(walk, GatherTo) else self.spice.replicas

    # --- coming by

    def on_cast(self, sender: Address, cast: CastTo) -> None:
        """A cast that is not plain (`crossings.py`)."""
        if cast.term >= len(cast.target.terms) or not cast.target.terms[cast.term].has:
            return
        about = (ASKED, cast.target) if cast.asks else cast.target
        if self.spice.words.opened(cast.cast, about, cast.payload) is None:
            return
        if self.settings.assured or cast.asks:
            self._come(sender, cast)
        else:
            self._go_on(None, cast)

    @handles(GatherTo)
    def on_gather(self, sender: Address, gather: GatherTo) -> None:
        if self.settings.assured:
            self._come(sender, gather)

    @handles(CopyFrom)
    def on_copy_from(self, sender: Address, walk: CopyFrom) -> None:
        if self.settings.live:
            self._come(sender, walk)

    def _come(self, sender: Address, walk: Walk) -> None:
        self.surface.heard(sender)
        seen = (sender, walk.way.number)
        trip = self._trips.get(seen)
        if trip is not None:
            self._answer_again(trip)
        elif self._shares.allows(sender):
            trip = self._trips[seen] = Trip(walk, self.host.now_us, seen, None)
            self._shares.add(sender)
            trip.tally.step()
            self._tidy_later()
            self._go_on(trip, walk)
            self._close_trip(trip)
            self._excuse_later(trip)

    def _answer_again(self, trip: Trip) -> None:
        assert trip.seen is not None
        if trip.done_us is not None:
            self._cover(trip)
        else:
            self.host.send(trip.seen[0], Working(trip.seen[1]))

    # --- going on

    def _go_on(self, trip: Trip | None, walk: Walk) -> None:
        """To our own part, and to all hops that lead to the rest."""
        if isinstance(walk, CastTo) and not walk.notch:
            walk, found = self.spice.casts.seek(walk)
            if found:
                self._be_here(trip, walk, walk.way.tract)
                return
        onward = self.surface.routes.onward(walk.way)
        for to, way in onward.hops:
            self._send(trip, to, walk, way)
        waiting = onward.waiting if trip is None else onward.rest_of(walk.way.tract)
        if waiting:
            self._wait(trip, walk, waiting)
        if onward.own:
            self._be_here(trip, walk, onward.own)

    def _send(self, trip: Trip | None, to: Address, walk: Walk, way: Way) -> None:
        if trip is None:
            self.host.send(to, walk if way is walk.way else replace(walk, way=way))
            return
        number = self.spice.stores.token()
        hop = Hop(trip, to, replace(walk, way=replace(way, number=number)))
        self._open_hop(trip, number, hop)
        self.host.send(to, hop.walk)

    def _wait(self, trip: Trip | None, walk: Walk, waiting: Tract) -> None:
        """Ground that does not answer now: we look again. What has waited is young again: it may have run out of hops
        between peers that took each other for the owner, and would wait here for the rest of its life."""
        walk = replace(walk, way=Way(waiting))
        if trip is not None:
            self._open_hop(trip, self.spice.stores.token(), Hop(trip, None, walk))
        elif len(self._parked) < PARKED_MAX:
            self._parked.append(walk)

    def _open_hop(self, trip: Trip, number: int, hop: Hop) -> None:
        self._hops[number] = trip.hops[number] = hop
        trip.wait()
        self.spice.later.put(hop.wait_us, HopDue(number))

    @handles(HopDue)
    def on_hop_due(self, alarm: HopDue) -> None:
        hop = self._hops.get(alarm.number)
        if hop is None:
            return
        if self.host.now_us - hop.trip.begun_us > CAST_US:
            self._abandon(hop.trip)
        elif hop.to is not None and hop.may_try(self.surface.circle.is_heard(hop.to, WAIT_LONGEST_US)):
            hop.try_again()
            self.spice.later.put(hop.wait_us, alarm)
            self.host.send(hop.to, hop.walk)
        else:
            if hop.to is not None:
                self.surface.circle.suspect(hop.to)
            self._another_way(alarm.number, hop)

    def _another_way(self, number: int, hop: Hop) -> None:
        self._end_hop(number, hop)
        self._go_on(hop.trip, hop.walk)
        self._close_trip(hop.trip)

    def reopened(self) -> None:
        """Ground that did not answer may do so now: what waited for that goes on."""
        for number, hop in [each for each in self._hops.items() if each[1].to is None]:
            if number in self._hops:
                self._another_way(number, hop)
        parked, self._parked = self._parked, []
        for walk in parked:
            self._go_on(None, walk)

    def _end_hop(self, number: int, hop: Hop) -> None:
        del self._hops[number], hop.trip.hops[number]

    @handles(Working)
    def on_working(self, sender: Address, working: Working) -> None:
        hop = self._hops.get(working.number)
        if hop is not None and hop.to == sender:
            self.surface.heard(sender)
            hop.be_patient()

    @handles(Covered)
    def on_covered(self, sender: Address, covered: Covered) -> None:
        hop = self._hops.get(covered.number)
        if hop is not None and hop.to == sender:
            self.surface.heard(sender)
            self._end_hop(covered.number, hop)
            hop.trip.tally.add(covered)
            self._close_trip(hop.trip)

    def works_of(self, cast: CastId) -> list[Work]:
        """Our own part in a cast, as far as it is remembered."""
        return [work for works in self._works.values() for work in works
                if isinstance(work.walk, CastTo) and work.walk.cast == cast]  # fmt: skip

    def sent_by(self, sender: Address, number: int) -> tuple[Seen | None, Work | None]:
        """Where a walk that we sent on to a peer under this number came from: a peer before us, or a work of ours."""
        hop = self._hops.get(number)
        if hop is None or hop.to != sender:
            return None, None
        return hop.trip.seen, hop.trip.work

    # --- our own part

    def _be_here(self, trip: Trip | None, walk: Walk, part: Tract) -> None:
        """Begin what is new of it; wait for, or count, what is not."""
        if not self.settings.is_place(walk.tag, walk.root, walk.notch):
            return
        if trip is None:
            self.visit_all(None, walk, walk.notch, part)
            return
        works = self._works.setdefault(name_of(walk), [])
        for known in works:
            if common := intersect(part, known.part):
                part = subtract(part, common)
                self._join(trip, known, common)
        if part:
            work = Work(walk, part, self.host.now_us)
            works.append(work)
            self._tidy_later()  # also where nothing of others ever comes by
            self._join(trip, work, part)
            self.visit_all(work, walk, walk.notch, part)
            self.close_one(work)

    def _join(self, trip: Trip, work: Work, common: Tract) -> None:
        """A walk that comes again in other parts meets one work several times: it counts where its first code is."""
        counts = contains(common, work.part[0])
        if work.done_us is None:
            work.trips.append((trip, counts))
            trip.wait()
        elif counts:
            trip.tally.add(work.tally)

    def visit_all(self, work: Work | None, walk: Walk, notch: int, part: Tract) -> None:
        """Our records in the part and in all above it that is ours; further trips for the rest."""
        root, dimensions, purpose = walk.root, self.settings.dimensions, self._purpose(walk)
        if isinstance(walk, CastTo) and self.spice.casts.refuses(work, walk):
            return
        while part:
            registry = self.spice.shelf.registries.get((walk.tag, root, notch))
            if registry is None:
                return
            if work is not None:
                work.tally.meet(sum([each.entry.description is not None for each in registry.within(part)]))
            purpose.visit(work, walk, registry, part)
            closed = intersect(part, registry.closed) if registry.closed else EMPTY
            above = self.settings.above(notch)
            scaled = scale_within(closed, root, notch, dimensions, above - notch) if closed else EMPTY
            part = intersect(scaled, self.surface.ground)
            if rest := subtract(scaled, part) if part else scaled:
                self.send_up(work, replace(walk, way=Way(rest), notch=above), notch, closed)
            notch = above

    def send_up(self, work: Work | None, walk: Walk, notch: int = 0, closed: Tract = EMPTY) -> None:
        """Set out on a walk as a part of a work, from this notch's closed part."""
        if work is None:
            self._go_on(None, walk)
            return
        trip = Trip(walk, self.host.now_us, None, work)
        trip.rise_from(notch, closed)
        work.up[trip] = None
        work.wait()
        if closed:
            self._active.setdefault((walk.tag, walk.root), {})[work] = None
        self._go_on(trip, walk)
        self._close_trip(trip)

    def show(self, work: Work, registry: Registry, held: Held) -> None:
        """A record has come down past a walk: every kind of walk takes it in by itself (`gatherings.py`)."""
        self._purpose(work.walk).show(work, registry, held)

    def active(self, tag: str, root: int) -> Iterator[Work]:
        return iter(list(self._active.get((tag, root), ())))

    # --- ending

    def _close_trip(self, trip: Trip) -> None:
        """One thing less to wait for; at the end whoever sent it is told."""
        if not trip.is_over(self.host.now_us):
            return
        if trip.work is not None:
            trip.work.up.pop(trip, None)
            trip.work.tally.add(trip.tally)
            self.close_one(trip.work)
        else:
            self._cover(trip)

    def _cover(self, trip: Trip) -> None:
        assert trip.seen is not None
        (to, number), told = trip.seen, trip.tally
        self.host.send(
            to, Covered(number, told.notified, told.declined, told.unreachable, told.silent, told.size, told.hops)
        )

    def close_one(self, work: Work) -> None:
        """One thing less to wait for."""
        if work.is_over(self.host.now_us):
            self._deactivate(work)
            for trip, counts in work.trips:
                if counts:
                    trip.tally.add(work.tally)
                self._close_trip(trip)
            self._purpose(work.walk).finished(work)

    def give_up(self, work: Work) -> None:
        """A walk of ours that cannot be finished; whoever waits for it has gone another way, or will."""
        for trip in list(work.up):
            self._drop_trip(trip)
        self._drop(work)
        self._purpose(work.walk).abandoned(work)

    def _abandon(self, trip: Trip) -> None:
        if trip.work is not None:
            self.give_up(trip.work)
        else:
            self._drop_trip(trip)

    def _drop_trip(self, trip: Trip) -> None:
        for number in trip.hops:
            self._hops.pop(number, None)
        trip.hops.clear()
        if trip.seen is not None and self._trips.pop(trip.seen, None) is not None:
            self._shares.drop(trip.seen[0])
        if trip.work is not None:
            trip.work.up.pop(trip, None)

    def _drop(self, work: Work) -> None:
        self._deactivate(work)
        works = self._works.get(work.name, [])
        if work in works:
            works.remove(work)
            if not works:
                del self._works[work.name]

    def _deactivate(self, work: Work) -> None:
        works = self._active.get((work.walk.tag, work.walk.root))
        if works is not None:
            works.pop(work, None)
            if not works:
                del self._active[work.walk.tag, work.walk.root]

    # --- those that take long

    def _excuse_later(self, trip: Trip) -> None:
        if trip.done_us is None:
            if self._slow is None:
                self._slow = deque()
            if not self._slow:
                self.spice.later.put(SLOW_US - SLOT_US, Slow())
            self._slow.append(trip)

    @handles(Slow)
    def on_slow(self, alarm: Slow) -> None:
        slow, due_us = self._slow or deque(), self.host.now_us - SLOW_US + SLOT_US
        while slow and (slow[0].done_us is not None or slow[0].begun_us <= due_us):
            trip = slow.popleft()
            if trip.done_us is None:
                self._answer_again(trip)
        if slow:
            self.spice.later.put(max(0, slow[0].begun_us - due_us - SLOT_US), alarm)

    # --- forgetting

    def _tidy_later(self) -> None:
        if not self._tidying:
            self._tidying = True
            self.spice.later.put(TIDY_US, Tidy())

    @handles(Tidy)
    def on_tidy(self, alarm: Tidy) -> None:
        """Trips and works are remembered for a cast's life after they end, and given up when they never do."""
        self._tidying = False
        since_us = self.host.now_us - CAST_US
        for work in [work for works in self._works.values() for work in works if work.last_us < since_us]:
            if work.done_us is not None:
                self._drop(work)
            else:
                self.give_up(work)
        for trip in [trip for trip in self._trips.values() if trip.last_us < since_us]:
            self._drop_trip(trip)
        if self._works or self._trips:
            self._tidy_later()
