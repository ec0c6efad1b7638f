"""The multicasts of one member: own casts, and the forwarding of others'.

A message that reaches an address is checked for every place there that it concerns. Each such place
then forwards it by the procedures of `multicast.py`. `step_delivery.py` sends the steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from implicast.casting.bft.coverage import CastHopAck, CoverageNode
from implicast.casting.bft.digest_exchange import DigestExchange
from implicast.casting.bft.keys import handles_of, is_one_handle
from implicast.casting.bft.multicast import (
    KeyRange,
    Leg,
    first_leg,
    inside,
    is_auxiliary,
    legs,
    start_level,
)
from implicast.casting.bft.settings import BftSettings
from implicast.casting.bft.step_delivery import SendOnce, StepDelivery
from implicast.casting.bft.validator import (
    PROVEN_FAULTS,
    CastHop,
    HopValidator,
    SeenTable,
    Source,
    hop_body,
)
from implicast.casting.inbox import Outcome
from implicast.language.target import Target
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.place import Place
from implicast.peer.contract import Address, CastId, Part, handles
from implicast.peer.identity import Certificate
from implicast.peer.memory import Recent
from implicast.peer.requests import Requests
from implicast.peer.signatures import Signer

QUERY_BITS = 63
SUSPECTED_US = 15_000_000
"""A peer lost within 15 s may still be alive; one lost earlier has been probed again without an
answer.
"""
NO_TARGET = Target(())
"""The target of a cast to a key range: it has no terms."""
MISBEHAVIOUR_MAX = 1_024
"""Misbehaving addresses remembered; the oldest is evicted first."""
CANDIDATES_MAX = 256
"""Ranges whose candidate places are cached while no place has changed."""
REFUSALS = ("unconcerned", "too_high", "out_of_step", "wrong_level")
"""Why a place refuses a step, the check furthest on first."""

Arrival = tuple[Address, int, bytes]
"""How a multicast arrived: sender, level, key of the forwarding place."""
Candidates = list[tuple[Place, bool]]
"""Own places that may take part in a multicast; True for those in range."""


@dataclass(slots=True)
class SeenMulticast:
    """A multicast seen here: its source part, the own places that have yet to accept it (`open`),
    and the coverage to report to each parent.
    """

    source: Source
    open: list[bytes]
    coverages: dict[Arrival, CoverageNode] = field(default_factory=dict)

    def drop_left(self, held: dict[bytes, Place]) -> None:
        """Forget the places that were left since."""
        self.open = [key for key in self.open if key in held]

    def close(self, key: bytes) -> None:
        """An own place accepts the multicast."""
        self.open.remove(key)

    def note_arrival(self, arrival: Arrival, coverage: CoverageNode) -> None:
        """The multicast arrived as a step that some own place accepts."""
        self.coverages[arrival] = coverage


class Multicasts(Part, parts={"digest_exchange": DigestExchange}):
    """The multicasts that this member has cast or seen.

    Calls `deliver(source, key_range)` when an own place is in range; it returns the outcome, or
    None if the cast is not for this member or not under this range.
    """

    __slots__ = (
        "_candidates",
        "_deliver",
        "_graph",
        "_settings",
        "delivery",
        "digest_exchange",
        "misbehaviour",
        "seen",
        "signer",
        "validator",
    )

    def __init__(
        self,
        requests: Requests,
        graph: SkipGraph,
        validator: HopValidator,
        signer: Signer,
        settings: BftSettings,
        assured: bool,
        deliver: Callable[[Source, KeyRange], Outcome | None],
        lacks: Callable[[CastId], bool] | None,
        restarted_us: int | None,
    ) -> None:
        super().__init__(requests.address, requests.host)
        self._graph, self._settings, self._deliver = graph, settings, deliver
        self.validator, self.signer = validator, signer
        self.seen: SeenTable[SeenMulticast] = SeenTable(settings.window_us)
        # address -> time of the first proven fault
        self.misbehaviour: Recent[Address, int] = Recent(MISBEHAVIOUR_MAX)
        # by range, start level and number of own places
        self._candidates: Recent[tuple[KeyRange, int, int], Candidates] = Recent(CANDIDATES_MAX)
        self.digest_exchange: DigestExchange | None = None  # only where peers are watched
        if lacks is not None:
            self.digest_exchange = DigestExchange(
                graph, validator, self._source_flaw, deliver, lacks
            )
        self.delivery: StepDelivery | SendOnce = SendOnce(self.host)
        if assured:
            self.delivery = StepDelivery(
                requests,
                graph,
                settings.k,
                signer.public,
                self.digest_exchange.delivered if self.digest_exchange is not None else (),
                self._recast,
                lambda address: self.record_misbehaviour(address, "unconfirmed"),
                restarted_us,
            )

    # --- casting

    def cast(self, cast: CastId, target: Target, payload: bytes) -> None:
        """Send one multicast for each handle of the target."""
        found = [handles_of(term) for term in target.terms]
        chosen = tuple([self._choose(each) for each in found])
        self.delivery.begin_cast(cast, all(map(is_one_handle, target.terms)))
        for key_range in dict.fromkeys(map(list.__getitem__, found, chosen)):
            self._multicast(self.source(cast, target, chosen, payload, key_range))
        self.delivery.all_sent(cast)

    def cast_range(self, cast: CastId, key_range: KeyRange, payload: bytes) -> None:
        """Send one multicast to a key range, as in the paper: descriptions are not evaluated."""
        self.delivery.begin_cast(cast, is_exact=True)
        self._multicast(self.source(cast, NO_TARGET, (), payload, key_range))
        self.delivery.all_sent(cast)

    def _choose(self, key_ranges: list[KeyRange]) -> int:
        """Index of the handle of a term: the first, or the range with the fewest known nodes."""
        if not self._settings.sparse or len(key_ranges) == 1:
            return 0
        levels = next(iter(self._graph.places.held.values())).table.levels
        counts = [
            [sum(inside(level, key_range)) for level in reversed(levels)]
            for key_range in key_ranges
        ]
        return counts.index(min(counts))

    def source(
        self,
        cast: CastId,
        target: Target,
        chosen: tuple[int, ...],
        payload: bytes,
        key_range: KeyRange,
    ) -> Source:
        """The signed source part. It starts from the own place with the lowest start level, among
        those whose neighbours agree with the list of that level if there are any.
        """
        graph, halves, starts = self._graph, self.validator.halves, list[tuple[bool, int, bytes]]()
        for key in sorted(graph.joined_places()):
            level = start_level(graph.places.held[key].table, key_range, halves)
            starts.append((not graph.is_agreed(key, level), level, key))
        _, level, key = min(starts)
        query = self.host.rng.getrandbits(QUERY_BITS)
        certificate = graph.places.held[key].certificate
        head = (cast, query, *key_range, level, self.host.now_us)
        bare = Source(*head, target, chosen, payload, certificate, b"")
        return msgspec.structs.replace(bare, signature=self.signer.sign(bare.body()))

    def _multicast(self, source: Source) -> None:
        certificate, start = source.certificate, source.start
        entry = self._record_multicast(source, self.concerned(source))
        coverage = self.delivery.open_coverage(source)
        table = self._graph.places.held[certificate.key].table
        self.delivery.count_silent(source.key_range, coverage)
        self.delivery.count_start(source, coverage)
        leg, takes_part = first_leg(table, start, source.key_range, self.validator.halves)
        if takes_part and certificate.key in entry.open:
            self.accept(entry, certificate.key, start, coverage)
        self._send(entry, certificate, leg, coverage)
        # Recently lost nodes of the start ring get the step too. Only the source serves this ring,
        # and they may be alive: perhaps only their answers were dropped.
        common, spans = self.validator.vectors.common, table.levels[start].spans
        members = self._graph.members
        suspects = [
            node
            for node in (members.lost_within(SUSPECTED_US) if members.lost else ())
            if common(certificate.vector, node.vector) >= start
            and spans(node.key)
            and source.key_range.holds(node.key)
        ]
        if suspects:
            hop = self.signed_hop(source, start, certificate)
            self.delivery.send(suspects, hop, coverage, is_suspect=True)
        if self.digest_exchange is not None:
            self.digest_exchange.note_cast(source)

    def _recast(self, source: Source) -> None:
        if self._graph.places.held:
            again = (source.cast, source.target, source.handles, source.payload, source.key_range)
            self._multicast(self.source(*again))

    # --- receiving

    @handles(CastHopAck)
    def on_cast_hop_ack(self, sender: Address, ack: CastHopAck) -> None:
        """A step was acknowledged."""
        self.delivery.on_ack(sender, ack)

    @handles(CastHop)
    def on_hop(self, sender: Address, hop: CastHop) -> None:
        """Accept a step for every own place that passes the checks, and acknowledge it."""
        arrival = (sender, hop.level, hop.forwarder.key)
        entry = self.seen.get((hop.source.query, hop.source.certificate.key))
        if entry is not None:
            if entry.open:
                entry.drop_left(self._graph.places.held)
            if not entry.open:  # true for five steps in six
                self.validator.refuse("repeated")
                self.delivery.confirm(sender, hop, entry.coverages.get(arrival))
                return
        before = entry.coverages.get(arrival) if entry is not None else None
        flaw = self._flaw(hop, entry)
        if flaw is None:
            entry, flaw = self._accept_step(arrival, hop, entry)
        if flaw is not None:
            self.validator.refuse(flaw)
            self.record_misbehaviour(sender, flaw)
        if flaw is None or flaw == "repeated":  # all own places that it is for have it
            coverage = entry.coverages.get(arrival) if entry is not None else None
            # else it is acknowledged with the report, when the coverage completes
            if before is not None or coverage is None or not coverage.open:
                self.delivery.confirm(sender, hop, coverage)

    def _flaw(self, hop: CastHop, entry: SeenMulticast | None) -> str | None:
        """Why a step is refused for all own places, or None."""
        flaw = self.validator.hop_flaw(hop, self.host.now_us)
        if flaw is not None:
            return flaw
        if entry is None:
            return self._source_flaw(hop.source)
        if entry.source is not hop.source and entry.source != hop.source:
            return self.validator.source_flaw(hop.source, self.host.now_us) or "equivocation"
        return None

    def record_misbehaviour(self, address: Address, flaw: str) -> None:
        """Record a fault that no honest member commits, for operators."""
        if flaw in PROVEN_FAULTS:
            self.misbehaviour.once(address, self.host.now_us)

    def _source_flaw(self, source: Source) -> str | None:
        now_us, flaw = self.host.now_us, None
        if 6 in self.validator.checks:
            flaw = self.seen.flaw(source.cast.publisher, source.sent_us, now_us)
        return flaw or self.validator.source_flaw(source, now_us)

    def _accept_step(
        self, arrival: Arrival, hop: CastHop, entry: SeenMulticast | None
    ) -> tuple[SeenMulticast | None, str | None]:
        """Accept a step for every own place that passes the checks. If none does, it is refused and
        not recorded.
        """
        held, flaw_of = self._graph.places.held, self.validator.place_flaw
        candidates = entry.open if entry is not None else self.concerned(hop.source)
        passed = [key for key in candidates if flaw_of(hop, held[key].table) is None]
        if not passed:
            flaws = [flaw_of(hop, place.table) for place in held.values()]
            named = [name for name in REFUSALS if name in flaws]
            return entry, "repeated" if None in flaws else next(iter(named), "no_place")
        (sender, level, place), query = arrival, hop.source.query
        found = entry or self._record_multicast(hop.source, candidates)
        coverage = self.delivery.open_coverage(hop.source, (sender, query, level, place))
        found.note_arrival(arrival, coverage)
        for key in passed:
            if key in found.open:
                self.accept(found, key, level, coverage)
        return found, None

    def _record_multicast(self, source: Source, places: list[bytes]) -> SeenMulticast:
        """Record a multicast with the own places that have yet to accept it."""
        entry, sent_us, size = SeenMulticast(source, places), source.sent_us, len(source.payload)
        if 6 in self.validator.checks:
            publisher, now_us = source.cast.publisher, self.host.now_us
            self.seen.record(source.name, publisher, sent_us, now_us, entry, size)
        return entry

    # --- places that take part

    def concerned(self, source: Source) -> list[bytes]:
        """Keys of own places that must get a multicast, each at the level given by its vector and
        the source's. A place in range whose lists do not reach that level yet waits for another
        copy.
        """
        places = self._graph.places
        if not {3, 5} <= self.validator.checks:
            return list(places.held)
        # Cached while no place has changed: casts to the same range are frequent. A place may have
        # been left, which changes the number of places.
        which = (source.key_range, source.start, len(places.held))
        is_at_rest = places.are_untouched
        near = self._candidates.get(which) if is_at_rest else None
        near = self._candidate_places(source) if near is None else near
        if is_at_rest:
            self._candidates[which] = near
        return [
            place.key for place, is_in in near if is_in or self._is_auxiliary_place(place, source)
        ]

    def _candidate_places(self, source: Source) -> Candidates:
        """Own places in range, and those that may be auxiliary: a place that is not auxiliary at
        the start level is not at any level below.
        """
        found, key_range, start = Candidates(), source.key_range, source.start
        (low, high), is_turned = key_range, source.low >= source.high
        for key, place in self._graph.places.held.items():
            if (key >= low or key < high or low == high) if is_turned else low <= key < high:
                found.append((place, True))
            # A changed place is always a candidate: its vector is tested first, which is cheaper
            # than computing its lists.
            elif place.assembled is None or is_auxiliary(
                place.table, min(start, place.table.top), key_range, self.validator.halves
            ):
                found.append((place, False))
        return found

    def _is_auxiliary_place(self, place: Place, source: Source) -> bool:
        """Whether an own place outside the range is auxiliary at its level."""
        vectors, halves, mine = self.validator.vectors, self.validator.halves, place.certificate
        theirs = source.certificate.vector
        # true for half of them; no node is auxiliary at level 0
        if theirs ^ mine.vector >= vectors.limits[1]:
            return False
        level = min(vectors.common(theirs, mine.vector), source.start)
        if not level or (level > place.table.top and 4 in self.validator.checks):
            return False
        return is_auxiliary(place.table, level, source.key_range, halves)

    # --- accepting and forwarding

    def accept(self, entry: SeenMulticast, key: bytes, level: int, coverage: CoverageNode) -> None:
        """Accept a message for an own place at a level: deliver it if in range, and forward it
        below.
        """
        entry.close(key)
        source, place = entry.source, self._graph.places.held[key]
        key_range, table = source.key_range, place.table
        if key_range.holds(key):
            self.delivery.count_outcome(source, self._deliver(source, key_range), coverage)
            if self.digest_exchange is not None:
                self.digest_exchange.note_cast(source, key)
        self.delivery.count_silent(key_range, coverage, table.levels[0])
        # a place may have shorter lists than the forwarder beside it
        level, through = min(level, table.top), self._settings.through
        for leg in legs(table, level, key_range, self.validator.halves, through):
            self._send(entry, place.certificate, leg, coverage)

    def _send(
        self,
        entry: SeenMulticast,
        place: Certificate,
        leg: Leg[Certificate],
        coverage: CoverageNode,
    ) -> None:
        """Send one signed message to all receivers of a leg. Own places accept it by a call."""
        others = [node for node in leg.receivers if node.address != self.address]
        if others:
            self.delivery.send(others, self.signed_hop(entry.source, leg.level, place), coverage)
        for node in leg.receivers if len(others) < len(leg.receivers) else ():
            if node.address == self.address and node.key in entry.open:
                self.accept(entry, node.key, leg.level, coverage)

    def signed_hop(self, source: Source, level: int, place: Certificate) -> CastHop:
        """A step at a level, signed by the forwarding place."""
        return CastHop(source, level, place, self.signer.sign(hop_body(source, level)))
