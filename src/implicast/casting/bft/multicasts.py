"""The multicasts of one member: own casts, and the forwarding of others'.

A message that reaches an address is checked for every place there that it concerns. Each such place
then forwards it by the procedures of `multicast.py`. `step_delivery.py` repeats steps until they
are acknowledged.
"""

from collections.abc import Callable

import msgspec

from implicast.casting.bft.concerned_places import ConcernedPlaces
from implicast.casting.bft.digest_exchange import DigestExchange
from implicast.casting.bft.keys import handles_of, is_one_handle
from implicast.casting.bft.messages import CastHop, Source, hop_body
from implicast.casting.bft.multicast import (
    KeyRange,
    Leg,
    first_leg,
    inside,
    legs,
    start_level,
)
from implicast.casting.bft.seen_multicast import Arrival, SeenMulticast
from implicast.casting.bft.settings import BftSettings
from implicast.casting.bft.step_delivery import SUSPECTED, CastReport, CoverageNode, StepDelivery
from implicast.casting.bft.validator import PROVEN_FAULTS, HopValidator, SeenTable
from implicast.casting.inbox import Outcome
from implicast.language.target import Target
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.table import Level
from implicast.peer.contract import Address, CastId, Name, Part, handles
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
COUNTED_MAX = 4_096
"""Casts for which this member remembers the range and attempt it was counted in."""
MISBEHAVIOUR_MAX = 1_024
"""Misbehaving addresses remembered; the oldest is evicted first."""


class Multicasts(Part, parts={"delivery": StepDelivery, "digest_exchange": DigestExchange}):
    """The multicasts that this member has cast or seen.

    Calls `deliver(source, key_range)` when an own place is in range; it returns the outcome, or
    None if the cast is not for this member or not under this range.
    """

    __slots__ = (
        "_concerned",
        "_counted",
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
        is_restarted: bool,
    ) -> None:
        super().__init__(requests.address, requests.host)
        self._graph, self._settings, self._deliver = graph, settings, deliver
        self.validator, self.signer = validator, signer
        self.seen: SeenTable[SeenMulticast] = SeenTable(settings.window_us)
        # address -> time of the first proven fault
        self.misbehaviour: Recent[Address, int] = Recent(MISBEHAVIOUR_MAX)
        self._counted: Recent[CastId, tuple[KeyRange, int]] = Recent(COUNTED_MAX)
        self._concerned = ConcernedPlaces(graph.places, validator)
        self.digest_exchange = DigestExchange(graph, validator, self._source_flaw, deliver, lacks)
        self.delivery = StepDelivery(
            requests,
            graph.members,
            settings.k,
            assured,
            self._recast,
            lambda address: self.record_misbehaviour(address, "unconfirmed"),
            requests.host.now_us if is_restarted else None,
        )

    # --- casting

    def cast(self, cast: CastId, target: Target, payload: bytes) -> None:
        """Send one multicast for each handle of the target."""
        self.delivery.begin_cast(cast, all(map(is_one_handle, target.terms)))
        chosen = tuple(self._choose(handles_of(term)) for term in target.terms)
        key_ranges = [
            handles_of(term)[index] for term, index in zip(target.terms, chosen, strict=True)
        ]
        for key_range in dict.fromkeys(key_ranges):
            self._multicast(self.source(cast, target, chosen, payload, key_range))
        self.delivery.all_sent(cast)

    def cast_range(self, cast: CastId, key_range: KeyRange, payload: bytes) -> None:
        """Send one multicast to a key range, as in the paper: descriptions are not evaluated."""
        self.delivery.begin_cast(cast, is_exact=True)
        self._multicast(self.source(cast, NO_TARGET, (), payload, key_range))
        self.delivery.all_sent(cast)

    def _choose(self, key_ranges: list[KeyRange]) -> int:
        """Index of the handle that stands for a term: the first, or the range with the fewest known
        nodes.
        """
        if not self._settings.sparse or len(key_ranges) == 1:
            return 0
        home = next(iter(self._graph.places.held.values())).table
        counts = [
            [sum(inside(level, key_range)) for level in reversed(home.levels)]
            for key_range in key_ranges
        ]
        return min(range(len(key_ranges)), key=lambda index: counts[index])

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
        graph, halves = self._graph, self.validator.halves
        starts = {
            key: start_level(graph.places.held[key].table, key_range, halves)
            for key in sorted(graph.joined_places())
        }
        sure = [key for key, level in starts.items() if graph.is_agreed(key, level)]
        key = min(sure or starts, key=lambda each: starts[each])
        query = self.host.rng.getrandbits(QUERY_BITS)
        certificate = graph.places.held[key].certificate
        head = (cast, query, *key_range, starts[key], self.host.now_us)
        bare = Source(*head, target, chosen, payload, certificate, b"")
        return msgspec.structs.replace(bare, signature=self.signer.sign(bare.body()))

    def _multicast(self, source: Source) -> None:
        key = source.certificate.key
        entry, coverage = (
            self._record_multicast(source, self.concerned(source)),
            self.delivery.open_coverage(source),
        )
        self._count_silent(source.key_range, coverage)
        if self.delivery.assured and not self._graph.is_agreed(key, source.start):
            coverage.tally.add(CastReport(uncertain=1))
        leg, takes_part = first_leg(
            self._graph.places.held[key].table,
            source.start,
            source.key_range,
            self.validator.halves,
        )
        if takes_part and key in entry.open:
            self.accept(entry, key, source.start, coverage)
        self._send(entry, source.certificate, leg, coverage)
        self._send_to_suspects(source, coverage)
        self.digest_exchange.note_cast(source)

    def _send_to_suspects(self, source: Source, coverage: CoverageNode) -> None:
        """Send to recently lost nodes of the source's start ring too. Only the source serves this
        ring, and they may be alive: perhaps only their answers were dropped.
        """
        certificate, common = source.certificate, self.validator.vectors.common
        level = self._graph.places.held[certificate.key].table.levels[source.start]
        suspects = dict[Address, Name | None]()
        for node in self._graph.members.lost_within(SUSPECTED_US):
            is_near = common(certificate.vector, node.vector) >= source.start and level.spans(
                node.key
            )
            if is_near and source.key_range.holds(node.key):
                suspects[node.address] = None
        if suspects:
            self.delivery.send(
                suspects, self.signed_hop(source, source.start, certificate), coverage, SUSPECTED
            )

    def _recast(self, source: Source) -> None:
        if self._graph.places.held:
            self._multicast(
                self.source(
                    source.cast, source.target, source.handles, source.payload, source.key_range
                )
            )

    # --- receiving

    @handles(CastHop)
    def on_hop(self, sender: Address, hop: CastHop) -> None:
        source = hop.source
        entry = self.seen.get((source.query, source.certificate.key))
        if entry is not None:
            if entry.open:  # places may have been left since
                entry.open[:] = [key for key in entry.open if key in self._graph.places.held]
            if not entry.open:  # true for five steps in six
                self.validator.refuse("repeated")
                if self.delivery.assured:
                    self.delivery.confirm(
                        sender, hop, entry.coverages.get((sender, hop.level, hop.forwarder.key))
                    )
                return
        arrival = (sender, hop.level, hop.forwarder.key)
        is_repeat = entry is not None and arrival in entry.coverages
        flaw = self._flaw(hop, entry) or self._accept_step(arrival, hop, entry)
        if flaw is not None:
            self.validator.refuse(flaw)
            self.record_misbehaviour(sender, flaw)
        # all own places that it is for have it
        if self.delivery.assured and (flaw is None or flaw == "repeated"):
            entry = entry or self.seen.get(source.name)
            coverage = entry.coverages.get(arrival) if entry is not None else None
            # else it is acknowledged with the report, when the coverage completes
            if is_repeat or coverage is None or not coverage.open:
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
        now_us = self.host.now_us
        flaw = (
            self.seen.flaw(source.cast.publisher, source.sent_us, now_us)
            if 6 in self.validator.checks
            else None
        )
        return flaw or self.validator.source_flaw(source, now_us)

    def _accept_step(
        self, arrival: Arrival, hop: CastHop, entry: SeenMulticast | None
    ) -> str | None:
        """Accept a step for every own place that passes the checks. If none does, it is refused and
        not recorded.
        """
        candidates = entry.open if entry is not None else self.concerned(hop.source)
        passed = [
            key
            for key in candidates
            if self.validator.place_flaw(hop, self._graph.places.held[key].table) is None
        ]
        if not passed:
            return self._refusal(hop)
        entry, (sender, level, place) = (
            entry or self._record_multicast(hop.source, candidates),
            arrival,
        )
        coverage = entry.coverages[arrival] = self.delivery.open_coverage(
            hop.source, (sender, hop.source.query, level, place)
        )
        for key in passed:
            if key in entry.open:
                self.accept(entry, key, level, coverage)
        return None

    def _refusal(self, hop: CastHop) -> str:
        """The reason to refuse a step for all own places: that of the check furthest on."""
        flaws = [
            self.validator.place_flaw(hop, place.table)
            for place in self._graph.places.held.values()
        ]
        order = ("unconcerned", "too_high", "out_of_step", "wrong_level")
        if None in flaws:
            return "repeated"
        return next((name for name in order if name in flaws), "no_place")

    def _record_multicast(self, source: Source, places: list[bytes]) -> SeenMulticast:
        """Record a multicast with the own places that have yet to accept it."""
        entry = SeenMulticast(source, source.key_range, places)
        if 6 in self.validator.checks:
            size = len(source.payload)
            self.seen.record(
                source.name, source.cast.publisher, source.sent_us, self.host.now_us, entry, size
            )
        return entry

    def concerned(self, source: Source) -> list[bytes]:
        """Keys of own places that must get a multicast."""
        return self._concerned.keys(source)

    # --- accepting and forwarding

    def accept(self, entry: SeenMulticast, key: bytes, level: int, coverage: CoverageNode) -> None:
        """Accept a message for an own place at a level: deliver it if in range, and forward it
        below.
        """
        entry.open.remove(key)
        key_range = entry.key_range
        if key_range.holds(key):
            self._count_outcome(entry, self._deliver(entry.source, key_range), coverage)
            self.digest_exchange.note_cast(entry.source, key)
        place = self._graph.places.held[key]
        table = place.table
        self._count_silent(key_range, coverage, table.levels[0])
        # a place may have shorter lists than the forwarder beside it
        level = min(level, table.top)
        for leg in legs(table, level, key_range, self.validator.halves, self._settings.through):
            self._send(entry, place.certificate, leg, coverage)

    def _count_silent(
        self, key_range: KeyRange, coverage: CoverageNode, near: Level[Certificate] | None = None
    ) -> None:
        """Count an uncertain region if a silent peer, which may only be frozen or cut off, had a
        place in the range (`near`: and within this list), or if a contact of an earlier incarnation
        has not been listed again.
        """

        def concerns(key: bytes) -> bool:
            return key_range.holds(key) and (near is None or near.spans(key))

        silent = self._graph.silent
        if self.delivery.assured and (silent.contacts() or silent.places(concerns)):
            coverage.tally.add(CastReport(uncertain=1))

    def _count_outcome(
        self, entry: SeenMulticast, outcome: Outcome | None, coverage: CoverageNode
    ) -> None:
        """Count the outcome at this member, once for each cast; once more when the publisher
        repeats the cast under the same range. Later steps of the former attempt count no more.
        """
        cast, here = entry.source.cast, (entry.key_range, entry.source.sent_us)
        if outcome is None or not self.delivery.assured:
            return
        before = self._counted.get(cast)
        is_anew = before is not None and before[0] == here[0] and before[1] < here[1]
        # an own cast that went on after a crash
        is_ours = before is None and entry.source.certificate.public == self.signer.public
        is_exchanged = (
            before is None and outcome is Outcome.REPEAT and cast in self.digest_exchange.delivered
        )
        if (
            outcome is Outcome.TAKEN
            or is_anew
            or is_exchanged
            or (is_ours and outcome is Outcome.REPEAT)
        ):
            self._counted[cast] = here
            coverage.tally.add(CastReport(taken=1))
        elif outcome is Outcome.EXPIRED:
            coverage.tally.add(CastReport(missed=1))
        elif outcome not in (Outcome.REPEAT, Outcome.UNSELECTED):
            coverage.tally.add(CastReport(declined=1))

    def _send(
        self,
        entry: SeenMulticast,
        place: Certificate,
        leg: Leg[Certificate],
        coverage: CoverageNode,
    ) -> None:
        """Send one signed message to all receivers of a leg. Own places accept it by a call."""
        wanted: dict[Address, Name | None] = dict.fromkeys([node.address for node in leg.receivers])
        if self.delivery.assured:
            wanted |= {
                node.address: node.name for node in leg.receivers if entry.key_range.holds(node.key)
            }
        is_ours = wanted.pop(self.address, self) is not self
        if wanted:
            self.delivery.send(wanted, self.signed_hop(entry.source, leg.level, place), coverage)
        for node in leg.receivers if is_ours else ():
            if node.address == self.address and node.key in entry.open:
                self.accept(entry, node.key, leg.level, coverage)

    def signed_hop(self, source: Source, level: int, place: Certificate) -> CastHop:
        return CastHop(source, level, place, self.signer.sign(hop_body(source, level)))
