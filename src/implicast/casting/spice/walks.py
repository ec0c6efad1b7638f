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
from collections.abc import Hashable

from msgspec.structs import replace

from implicast.casting.spice.casts import Casts
from implicast.casting.spice.containers import Containers
from implicast.casting.spice.messages import (
    ASKED,
    CastTo,
    CopyFrom,
    Covered,
    CoveredAgain,
    GatherTo,
    SayAgain,
    Working,
)
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.settings import CAST_US, SLOW_US, WAIT_LONGEST_US
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.spice.trips import Hop, Seen, Trip, Walk, Work, name_of
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, CastId, Message, handles
from implicast.peer.later import SLOT_US
from implicast.peer.memory import Shares
from implicast.space.tract import EMPTY, Tract, contains, intersect, scale_within, subtract

TRIPS_MAX = 32_768
"""Trips that are open or lately finished at one peer, those of a peer with many refused first; they are sent again."""
PARKED_MAX = 4_096
"""Casts without receipts that wait at one peer; further ones are lost."""
TIDY_US = 10_000_000


class HopDue(Message):
    """Rings when a hop of a walk should have been answered."""

    number: int


class Slow(Message):
    """Rings when walks that came some time ago should be finished: those who sent them hear that they are not."""


class Tidy(Message):
    """Rings when walks may be forgotten."""


class Walks(SpicePart):
    """A peer's part in the walks of others, and the bookkeeping of its own."""

    __slots__ = ("_active", "_hops", "_parked", "_shares", "_slow", "_trips", "_works")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        self._works: dict[Hashable, list[Work]] = {}
        self._trips: dict[Seen, Trip] = {}
        self._shares: Shares[Address] = Shares(TRIPS_MAX)
        self._hops: dict[int, Hop] = {}
        self._active: dict[Work, None] = {}
        """Unfinished works that went up from closed parts here."""
        self._slow: deque[Trip] | None = None
        """Trips of others, oldest first, that may have to be excused."""
        self._parked: list[Walk] = []
        """Casts without receipts that wait for ground to settle."""

    def purpose(self, walk: Walk) -> Casts | Containers | Replicas:
        """The part that walks of this kind, which look at records, serve."""
        if isinstance(walk, CastTo):
            return self.spice.casts
        return self.spice.containers if isinstance(walk, GatherTo) else self.spice.replicas

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

    @handles(GatherTo, CopyFrom, SayAgain)
    def on_walk(self, sender: Address, walk: GatherTo | CopyFrom | SayAgain) -> None:
        if self.settings.live if isinstance(walk, CopyFrom) else self.settings.assured:
            self._come(sender, walk)

    def _come(self, sender: Address, walk: Walk) -> None:
        self.surface.heard(sender)
        seen = (sender, walk.way.number)
        trip = self._trips.get(seen)
        if trip is not None:
            self._answer(trip)
        elif self._shares.allows(sender):
            trip = self._trips[seen] = Trip(self.host.now_us, seen)
            self._shares.add(sender)
            trip.count(Covered(0, hops=1))
            self.spice.later.put_one(TIDY_US, Tidy())
            self._go_on(trip, walk)
            self._close_trip(trip)
            if trip.done_us is None:
                self._slow = self._slow or deque()
                self._slow.append(trip)
                self.spice.later.put_one(SLOW_US - SLOT_US, Slow())

    def _answer(self, trip: Trip) -> None:
        """Tell the peer that sent it what became of it, or that it takes its time."""
        assert trip.seen is not None
        to, number = trip.seen
        self.host.send(
            to, Working(number) if trip.done_us is None else replace(trip.tally, number=number)
        )

    @handles(Slow)
    def on_slow(self, alarm: Slow) -> None:
        slow, due_us = self._slow or deque(), self.host.now_us - SLOW_US + SLOT_US
        while slow and (slow[0].done_us is not None or slow[0].begun_us <= due_us):
            trip = slow.popleft()
            if trip.done_us is None:
                self._answer(trip)
        if slow:
            self.spice.later.put_one(max(0, slow[0].begun_us - due_us - SLOT_US), alarm)

    # --- going on

    def _go_on(self, trip: Trip | None, walk: Walk) -> None:
        """To our own part, and to all hops that lead to the rest."""
        if isinstance(walk, CastTo) and not walk.notch:
            walk, found = self.spice.casts.seek(walk)
            if found:
                self._be_here(trip, walk, walk.way.tract)
                return
        onward = self.surface.routes.onward(walk.way)
        if (lacking := self.spice.shelf.lacking) and not isinstance(walk, SayAgain):
            onward = onward._replace(own=subtract(onward.own, lacking))
        for to, way in onward.hops:
            self._send(trip, to, walk, way)
        waiting = onward.waiting if trip is None else onward.rest_of(walk.way.tract)
        if waiting:
            # It is young again: it may have run out of hops between peers that took each other for the owner.
            self._send(trip, None, walk, Way(waiting))
        if onward.own:
            self._be_here(trip, walk, onward.own)

    def _send(self, trip: Trip | None, to: Address | None, walk: Walk, way: Way) -> None:
        """To the next peer; None: to ground that does not answer now, we look again."""
        if trip is not None:
            number = self.spice.stores.token()
            walk = replace(walk, way=replace(way, number=number))
            hop = self._hops[number] = trip.hops[number] = Hop(trip, to, walk)
            trip.wait()
            self.spice.later.put(hop.wait_us, HopDue(number))
        elif way is not walk.way:
            walk = replace(walk, way=way)
        if to is not None:
            self.host.send(to, walk)
        elif trip is None and len(self._parked) < PARKED_MAX:
            self._parked.append(walk)

    @handles(HopDue)
    def on_hop_due(self, alarm: HopDue) -> None:
        if (hop := self._hops.get(alarm.number)) is None:
            return
        if self.host.now_us - hop.trip.begun_us > CAST_US:
            if hop.trip.work is not None:
                self.give_up(hop.trip.work)
            else:
                self._drop_trip(hop.trip)
        elif hop.to is not None and hop.is_tried_again(
            self.surface.circle.is_heard(hop.to, WAIT_LONGEST_US)
        ):
            self.spice.later.put(hop.wait_us, alarm)
            self.host.send(hop.to, hop.walk)
        else:
            if hop.to is not None:
                self.surface.circle.suspect(hop.to)
            self._another_way(alarm.number, hop)

    def _another_way(self, number: int, hop: Hop) -> None:
        del self._hops[number], hop.trip.hops[number]
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

    @handles(Working)
    def on_working(self, sender: Address, working: Working) -> None:
        hop = self._hops.get(working.number)
        if hop is not None and hop.to == sender:
            self.surface.heard(sender)
            hop.be_patient()

    @handles(Covered, CoveredAgain)
    def on_covered(self, sender: Address, covered: Covered) -> None:
        hop = self._hops.get(covered.number)
        if hop is not None and hop.to == sender:
            self.surface.heard(sender)
            del self._hops[covered.number], hop.trip.hops[covered.number]
            hop.trip.count(covered)
            self._close_trip(hop.trip)

    def works_of(self, cast: CastId) -> list[Work]:
        """Our own part in a cast, as far as it is remembered."""
        return [
            work
            for works in self._works.values()
            for work in works
            if isinstance(work.walk, CastTo) and work.walk.cast == cast
        ]

    def sent_by(self, sender: Address, number: int) -> tuple[Seen | None, Work | None]:
        """Where a walk that we sent on to a peer under this number came from: a peer before us, or a work of ours."""
        hop = self._hops.get(number)
        return (None, None) if hop is None or hop.to != sender else (hop.trip.seen, hop.trip.work)

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
            work = Work(self.host.now_us, walk, part)
            works.append(work)
            self.spice.later.put_one(TIDY_US, Tidy())  # also where nothing of others ever comes by
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
            trip.count(work.tally)

    def visit_all(self, work: Work | None, walk: Walk, notch: int, part: Tract) -> None:
        """Our records in the part and in all above it that is ours; further trips for the rest."""
        if isinstance(walk, SayAgain):
            self.spice.register_again(walk.lost, work)
            return
        root, dimensions, heeded = walk.root, self.settings.dimensions, self.spice.heeded
        if heeded is not None and isinstance(walk, CastTo) and heeded.refuses(work, walk):
            return
        while part:
            registry = self.spice.shelf.registries.get((walk.tag, root, notch))
            if registry is None:
                return
            held = registry.within(part) if work is not None else []
            if work is not None:
                work.count(
                    Covered(0, size=sum([each.entry.description is not None for each in held]))
                )
            if isinstance(walk, CastTo):
                self.spice.casts.visit(work, walk, registry, part)
            elif work is not None:
                self.purpose(walk).show(work, registry, held)
            closed = intersect(part, registry.closed) if registry.closed else EMPTY
            above = self.settings.above(notch)
            scaled = (
                scale_within(closed, root, notch, dimensions, above - notch) if closed else EMPTY
            )
            part = intersect(scaled, self.spice.known)
            if rest := subtract(scaled, part) if part else scaled:
                self.send_up(work, replace(walk, way=Way(rest), notch=above), notch, closed)
            notch = above

    def send_up(self, work: Work | None, walk: Walk, notch: int = 0, closed: Tract = EMPTY) -> None:
        """Set out on a walk as a part of a work, from this notch's closed part."""
        if work is None:
            self._go_on(None, walk)
            return
        trip = Trip(self.host.now_us, None, work, notch, closed)
        work.up[trip] = None
        work.wait()
        if closed:
            self._active[work] = None
        self._go_on(trip, walk)
        self._close_trip(trip)

    def active(self, tag: str, root: int) -> list[Work]:
        return [each for each in self._active if each.walk.tag == tag and each.walk.root == root]

    # --- ending

    def _close_trip(self, trip: Trip) -> None:
        """One thing less to wait for; at the end whoever sent it is told."""
        if not trip.is_over(self.host.now_us):
            return
        if trip.work is not None:
            trip.work.up.pop(trip, None)
            trip.work.count(trip.tally)
            self.close_one(trip.work)
        else:
            self._answer(trip)

    def close_one(self, work: Work) -> None:
        """One thing less to wait for."""
        if work.is_over(self.host.now_us):
            self._active.pop(work, None)
            for trip, counts in work.trips:
                if counts:
                    trip.count(work.tally)
                self._close_trip(trip)
            self._tell(work, True)

    def _tell(self, work: Work, is_covered: bool) -> None:
        """Whoever the walk serves hears how it ended."""
        served = self.spice.calls if isinstance(work.walk, SayAgain) else self.purpose(work.walk)
        served.ended(work, is_covered)

    def give_up(self, work: Work) -> None:
        """A walk of ours that cannot be finished; whoever waits for it has gone another way, or will."""
        for trip in list(work.up):
            self._drop_trip(trip)
        self._drop(work)
        self._tell(work, False)

    def _drop_trip(self, trip: Trip) -> None:
        for number in trip.hops:
            self._hops.pop(number, None)
        trip.hops.clear()
        if trip.seen is not None and self._trips.pop(trip.seen, None) is not None:
            self._shares.drop(trip.seen[0])
        if trip.work is not None:
            trip.work.up.pop(trip, None)

    def _drop(self, work: Work) -> None:
        self._active.pop(work, None)
        name = name_of(work.walk)
        works = self._works.get(name, [])
        if work in works:
            works.remove(work)
            if not works:
                del self._works[name]

    # --- forgetting

    @handles(Tidy)
    def on_tidy(self, alarm: Tidy) -> None:
        """Trips and works are remembered for a cast's life after they end, and given up when they never do."""
        since_us = self.host.now_us - CAST_US
        for work in [
            work for works in self._works.values() for work in works if work.last_us < since_us
        ]:
            (self.give_up if work.done_us is None else self._drop)(work)
        for trip in [
            trip
            for trip in self._trips.values()
            if trip.begun_us < since_us and trip.last_us < since_us
        ]:
            self._drop_trip(trip)
        if self._works or self._trips:
            self.spice.later.put_one(TIDY_US, alarm)
