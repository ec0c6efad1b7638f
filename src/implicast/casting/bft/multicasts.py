"""The multicasts of one member: those it casts, and what its places do with those of others.

A message that reaches an address is looked at for every place there that it concerns; each such place then serves
others as the procedures of `multicast.py` say. Steps are confirmed and repeated by `carriage.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from implicast.casting.bft.carriage import DOUBTED, Carriage, CastReport, Duty
from implicast.casting.bft.echoes import Echoes
from implicast.casting.bft.gate import Gate, SeenTable
from implicast.casting.bft.keys import handles_of
from implicast.casting.bft.messages import CastHop, Source, hop_body
from implicast.casting.bft.multicast import (
    Arc,
    Leg,
    first_leg,
    inside,
    is_auxiliary,
    legs,
    start_level,
)
from implicast.casting.bft.settings import BftSettings
from implicast.casting.inbox import Outcome
from implicast.language.target import Target
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.place import Place
from implicast.peer.asking import Asker
from implicast.peer.contract import Address, CastId, Name, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.peer.signatures import Signer

QUERY_BITS = 63
DOUBTED_US = 15_000_000
"""Who fell silent so lately may be there all the same; later it has been called, and would have answered."""
NOBODY = Target(())
"""Of a cast to a range of keys: it selects nobody by description."""
COUNTED_MAX = 4_096
"""Casts of which this member remembers in which range, and by which attempt, it was counted."""
NEAR_MAX = 256
"""Ranges of which a member at rest remembers which of its places are in them or beside them."""

GRIEVANCES_MAX = 1_024
"""Addresses that something is held against; the first are forgotten first."""
PROOFS = frozenset(
    {
        "forged_certificate",
        "forged_source",
        "forged_hop",
        "misattributed",
        "malformed",
        "wrong_level",
        "out_of_step",
        "equivocation",
        "flooding",
        "unconfirmed",
    }
)
"""What no honest member ever does: its lists may be behind, its signatures are not. `unconfirmed`: it is there, and
confirms a step in forty seconds to nobody."""

Door = tuple[Address, int, bytes]
"""By which a multicast came: sender, level, key of the place that forwarded it."""


@dataclass(slots=True)
class Met:
    """A multicast under way here: its source part, which of our places have yet to hold it, and whom we report to."""

    source: Source
    arc: Arc
    open: list[bytes]
    duties: dict[Door, Duty] = field(default_factory=dict)


class Multicasts(Part, parts={"carriage": Carriage, "echoes": Echoes}):
    """Every multicast that this member has met. `deliver(source, arc)` is called where one of our places is in range,
    and says what became of it; None if the cast is not for this member, or not under this arc."""

    __slots__ = (
        "_counted",
        "_deliver",
        "_graph",
        "_near",
        "_settings",
        "carriage",
        "echoes",
        "gate",
        "grievances",
        "seen",
        "signer",
    )

    def __init__(
        self,
        asker: Asker,
        graph: SkipGraph,
        gate: Gate,
        signer: Signer,
        settings: BftSettings,
        assured: bool,
        deliver: Callable[[Source, Arc], Outcome | None],
        lacks: Callable[[CastId], bool] | None,
        is_back: bool,
    ) -> None:
        super().__init__(asker.address, asker.host)
        self._graph, self.gate, self.signer, self._settings, self._deliver = (
            graph,
            gate,
            signer,
            settings,
            deliver,
        )
        self.seen: SeenTable[Met] = SeenTable(settings.window_us)
        self.grievances: Recent[Address, int] = Recent(GRIEVANCES_MAX)  # against whom, since when
        self._counted: Recent[CastId, tuple[Arc, int]] = Recent(COUNTED_MAX)
        self._near: Recent[tuple[Arc, int, int], list[tuple[Place, bool]]] = Recent(NEAR_MAX)
        self.echoes = Echoes(graph, gate, self._source_flaw, deliver, lacks)
        self.carriage = Carriage(
            asker,
            graph.absentees,
            assured,
            self._recast,
            lambda address: self.hold_against(address, "unconfirmed"),
            asker.host.now_us if is_back else None,
        )

    # --- casting

    def cast(self, cast: CastId, target: Target, payload: bytes) -> None:
        """One multicast for each handle of the target."""
        self.carriage.begin(cast)
        chosen = tuple(self._choose(handles_of(term)) for term in target.terms)
        arcs = [handles_of(term)[index] for term, index in zip(target.terms, chosen, strict=True)]
        for arc in dict.fromkeys(arcs):
            self._multicast(self.source(cast, target, chosen, payload, arc))
        self.carriage.made(cast)

    def reach(self, cast: CastId, arc: Arc, payload: bytes) -> None:
        """One multicast to a range of keys, as the paper has it: nobody is asked what it is."""
        self.carriage.begin(cast)
        self._multicast(self.source(cast, NOBODY, (), payload, arc))
        self.carriage.made(cast)

    def _choose(self, arcs: list[Arc]) -> int:
        """Which handle stands for a term: the first, or the one with the fewest known nodes in it."""
        if not self._settings.sparse or len(arcs) == 1:
            return 0
        home = next(iter(self._graph.places.held.values())).table
        counts = [[sum(inside(level, arc)) for level in reversed(home.levels)] for arc in arcs]
        return min(range(len(arcs)), key=lambda index: counts[index])

    def source(
        self, cast: CastId, target: Target, chosen: tuple[int, ...], payload: bytes, arc: Arc
    ) -> Source:
        """The source part, from the place with the lowest start level; from one whose neighbours agree with it, if
        there is one."""
        graph, halves = self._graph, self.gate.halves
        starts = {
            key: start_level(graph.places.held[key].table, arc, halves)
            for key in sorted(graph.settled())
        }
        sure = [key for key, level in starts.items() if graph.is_agreed(key, level)]
        key = min(sure or starts, key=lambda each: starts[each])
        query = self.host.rng.getrandbits(QUERY_BITS)
        certificate = graph.places.held[key].certificate
        bare = Source(
            cast,
            query,
            arc.low,
            arc.high,
            starts[key],
            self.host.now_us,
            target,
            chosen,
            payload,
            certificate,
            b"",
        )
        return msgspec.structs.replace(bare, signature=self.signer.sign(bare.body()))

    def _multicast(self, source: Source) -> None:
        key = source.certificate.key
        met, duty = self._meet(source, self.concerned(source)), self.carriage.duty(source)
        leg, takes_part = first_leg(
            self._graph.places.held[key].table, source.start, source.arc, self.gate.halves
        )
        if takes_part and key in met.open:
            self.hold(met, key, source.start, duty)
        self._send(met, source.certificate, leg, duty)
        self._send_to_doubted(source, duty)
        self.echoes.note(source)

    def _send_to_doubted(self, source: Source, duty: Duty) -> None:
        """Nobody but the source serves its own ring: those of it who fell silent just now get the cast all the same,
        for it may be that they are there and only their answers were lost."""
        certificate, common = source.certificate, self.gate.vectors.common
        level, doubted = (
            self._graph.places.held[certificate.key].table.levels[source.start],
            dict[Address, Name](),
        )
        for node in self._graph.absentees.lost_within(DOUBTED_US):
            is_near = common(certificate.vector, node.vector) >= source.start and level.spans(
                node.key
            )
            if is_near and source.arc.holds(node.key):
                doubted[node.address] = node.name
        if doubted:
            self.carriage.send(
                doubted, self.signed_hop(source, source.start, certificate), duty, DOUBTED
            )

    def _recast(self, source: Source) -> None:
        if self._graph.places.held:
            self._multicast(
                self.source(source.cast, source.target, source.handles, source.payload, source.arc)
            )

    # --- receiving

    @handles(CastHop)
    def on_hop(self, sender: Address, hop: CastHop) -> None:
        source = hop.source
        met = self.seen.get((source.query, source.certificate.key))
        if met is not None:
            if met.open:  # some of the places may have been left since
                met.open[:] = [key for key in met.open if key in self._graph.places.held]
            if not met.open:  # five in six
                self.gate.refuse("repeated")
                if self.carriage.assured:
                    self.carriage.confirm(
                        sender, hop, met.duties.get((sender, hop.level, hop.forwarder.key))
                    )
                return
        door = (sender, hop.level, hop.forwarder.key)
        is_repeat = met is not None and door in met.duties
        flaw = self._flaw(hop, met) or self._take(door, hop, met)
        if flaw is not None:
            self.gate.refuse(flaw)
            self.hold_against(sender, flaw)
        if self.carriage.assured and (
            flaw is None or flaw == "repeated"
        ):  # our places that it is for have it
            met = met or self.seen.get(source.name)
            duty = met.duties.get(door) if met is not None else None
            if (
                is_repeat or duty is None or not duty.open
            ):  # else it is confirmed with what becomes of it
                self.carriage.confirm(sender, hop, duty)

    def _flaw(self, hop: CastHop, met: Met | None) -> str | None:
        """What is wrong with a step, whichever of our places it is for."""
        flaw = self.gate.hop_flaw(hop, self.host.now_us)
        if flaw is not None:
            return flaw
        if met is None:
            return self._source_flaw(hop.source)
        if met.source is not hop.source and met.source != hop.source:
            return self.gate.source_flaw(hop.source, self.host.now_us) or "equivocation"
        return None

    def hold_against(self, address: Address, flaw: str) -> None:
        """Note what no honest member ever sends, for whoever watches over the network."""
        if flaw in PROOFS:
            self.grievances.once(address, self.host.now_us)

    def _source_flaw(self, source: Source) -> str | None:
        now_us = self.host.now_us
        flaw = (
            self.seen.flaw(source.cast.publisher, source.sent_us, now_us)
            if 6 in self.gate.checks
            else None
        )
        return flaw or self.gate.source_flaw(source, now_us)

    def _take(self, door: Door, hop: CastHop, met: Met | None) -> str | None:
        """Let each of our places that may hold it do so. A message no place may hold is refused and not remembered."""
        candidates = met.open if met is not None else self.concerned(hop.source)
        passed = [
            key
            for key in candidates
            if self.gate.place_flaw(hop, self._graph.places.held[key].table) is None
        ]
        if not passed:
            return self._why_not(hop)
        met, (sender, level, place) = met or self._meet(hop.source, candidates), door
        duty = met.duties[door] = self.carriage.duty(
            hop.source, (sender, hop.source.query, level, place)
        )
        for key in passed:
            if key in met.open:
                self.hold(met, key, level, duty)
        return None

    def _why_not(self, hop: CastHop) -> str:
        """One name for a message that none of our places may hold: of the check that it got furthest to."""
        flaws = [
            self.gate.place_flaw(hop, place.table) for place in self._graph.places.held.values()
        ]
        order = ("unconcerned", "too_high", "out_of_step", "wrong_level")
        if None in flaws:
            return "repeated"
        return next((name for name in order if name in flaws), "no_place")

    def _meet(self, source: Source, places: list[bytes]) -> Met:
        """Remember a multicast, and which of our places have yet to hold it."""
        met = Met(source, source.arc, places)
        if 6 in self.gate.checks:
            size = len(source.payload)
            self.seen.record(
                source.name, source.cast.publisher, source.sent_us, self.host.now_us, met, size
            )
        return met

    def concerned(self, source: Source) -> list[bytes]:
        """Our places that must get it, each at the level that follows from its vector and the source's. One in range
        whose lists do not reach that level yet waits for another copy."""
        places = self._graph.places
        if not {3, 5} <= self.gate.checks:
            return list(places.held)
        # At rest it is remembered: casts to the same range come again and again. Places may be left meanwhile.
        which = (source.arc, source.start, len(places.held))
        near = self._near.get(which) if places.are_at_rest else self._around(source)
        if near is None:
            near = self._near[which] = self._around(source)
        return [place.key for place, is_in in near if is_in or self._is_beside(place, source)]

    def _around(self, source: Source) -> list[tuple[Place, bool]]:
        """Our places in the range of a cast, and those that may be beside it: at the level where it starts, for who is
        not beside it there is so at none below."""
        found, arc, start, halves = (
            list[tuple[Place, bool]](),
            source.arc,
            source.start,
            self.gate.halves,
        )
        (low, high), is_turned = arc, source.low >= source.high
        for key, place in self._graph.places.held.items():
            if (key >= low or key < high or low == high) if is_turned else low <= key < high:
                found.append((place, True))
            elif place.standing is None or is_auxiliary(
                table := place.table, min(start, table.top), arc, halves
            ):
                found.append(
                    (place, False)
                )  # of one that is not at rest the vector is looked at first: cutting costs
        return found

    def _is_beside(self, place: Place, source: Source) -> bool:
        """Whether one of our places outside the range takes part in a cast at its level."""
        vectors, theirs, mine = (
            self.gate.vectors,
            source.certificate.vector,
            place.certificate.vector,
        )
        if theirs ^ mine >= vectors.limits[1]:  # half of them: at level 0 nobody is auxiliary
            return False
        level = min(vectors.common(theirs, mine), source.start)
        if not level or (level > place.table.top and 4 in self.gate.checks):
            return False
        return is_auxiliary(place.table, level, source.arc, self.gate.halves)

    # --- holding and serving

    def hold(self, met: Met, key: bytes, level: int, duty: Duty) -> None:
        """One of our places has the message at a level: deliver, and serve those below."""
        met.open.remove(key)
        arc = met.arc
        if arc.holds(key):
            self._count(met, self._deliver(met.source, arc), duty)
            self.echoes.note(met.source, key)
        place = self._graph.places.held[key]
        table = place.table
        level = min(
            level, table.top
        )  # a place beside the one that passed it on may have lists that are still short
        for leg in legs(table, level, arc, self.gate.halves, self._settings.through):
            self._send(met, place.certificate, leg, duty)

    def _count(self, met: Met, outcome: Outcome | None, duty: Duty) -> None:
        """Say once per cast what became of it here; when the publisher casts anew, once more under the same arc. Steps
        of the attempt before may reach another of our places after that, and count no more."""
        cast, here = met.source.cast, (met.arc, met.source.sent_us)
        if outcome is None or not self.carriage.assured:
            return
        before = self._counted.get(cast)
        is_anew = before is not None and before[0] == here[0] and before[1] < here[1]
        is_ours = (
            before is None and met.source.certificate.public == self.signer.public
        )  # carried on after a crash
        is_echoed = before is None and outcome is Outcome.REPEAT and cast in self.echoes.took
        if (
            outcome is Outcome.TAKEN
            or is_anew
            or is_echoed
            or (is_ours and outcome is Outcome.REPEAT)
        ):
            self._counted[cast] = here
            duty.tally.add(CastReport(taken=1))
        elif outcome is not Outcome.REPEAT:
            duty.tally.add(CastReport(declined=1))

    def _send(self, met: Met, place: Certificate, leg: Leg[Certificate], duty: Duty) -> None:
        """One signed message for the whole leg; our own places are served by a plain call."""
        wanted: dict[Address, Name | None] = dict.fromkeys([node.address for node in leg.receivers])
        if self.carriage.assured:
            wanted |= {node.address: node.name for node in leg.receivers if met.arc.holds(node.key)}
        is_ours = wanted.pop(self.address, self) is not self
        if wanted:
            self.carriage.send(wanted, self.signed_hop(met.source, leg.level, place), duty)
        for node in leg.receivers if is_ours else ():
            if node.address == self.address and node.key in met.open:
                self.hold(met, node.key, leg.level, duty)

    def signed_hop(self, source: Source, level: int, place: Certificate) -> CastHop:
        return CastHop(source, level, place, self.signer.sign(hop_body(source, level)))
