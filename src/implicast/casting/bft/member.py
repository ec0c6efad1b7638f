"""A member of the Byzantine-tolerant design: its places, its casts, and what it does with those of others.

Paper, section 3: k-redundant key-range multicast over a skip graph, with certificates. Describing oneself means to take
a place per tag and value; casting means one multicast per handle of the target (`keys.py`). A message that reaches an
address is looked at for every place there that it concerns; each such place then serves others as the procedures of
`multicast.py` say. Of several places that a target reaches, the one of the least selecting term's handle notifies.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from implicast.casting.bft.gate import Gate
from implicast.casting.bft.keys import handles_of
from implicast.casting.bft.messages import Hop, Source, hop_body
from implicast.casting.bft.multicast import Arc, Leg, concerned, first_leg, inside, legs, start_level
from implicast.casting.bft.seen import SeenTable
from implicast.casting.bft.settler import Settler
from implicast.casting.inbox import Inbox
from implicast.language.target import Description, Target
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.peer.contract import Address, CastId, Host, handles
from implicast.peer.events import Left, Refused
from implicast.peer.identity import Certificate, Revocation
from implicast.peer.member import Member
from implicast.peer.signatures import Signer

QUERY_BITS = 63


@dataclass(slots=True)
class Met:
    """A multicast under way here: its source part, and which of our places have yet to hold it."""

    source: Source
    arc: Arc
    open: list[bytes]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a member multicasts."""

    through: bool = True
    sparse: bool = False
    window_us: int = 60_000_000


class Bft(Member, parts={"graph": SkipGraph, "settler": Settler}):
    """One participant that trusts nobody but the authority."""

    __slots__ = ("_signer", "gate", "graph", "inbox", "manner", "seen", "settler")

    def __init__(
        self,
        address: Address,
        host: Host,
        graph: SkipGraph,
        gate: Gate,
        signer: Signer,
        settler: Settler,
        manner: Manner,
    ) -> None:
        super().__init__(address, host)
        self.graph, self.gate, self._signer, self.settler, self.manner = graph, gate, signer, settler, manner
        self.inbox = Inbox(self)
        self.seen: SeenTable[Met] = SeenTable(manner.window_us)

    @property
    def public(self) -> bytes:
        return self._signer.public

    # --- verbs

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.settler.begin(introducers)

    def leave(self) -> None:
        self.description = None
        self.settler.depart()
        self.host.deliver(Left())

    def register(self, description: Description) -> None:
        self.description = description
        self.settler.settle(self.next_version(), description)

    def withdraw(self) -> None:
        self.description = None
        self.settler.settle(self.next_version(), None)

    def cast(self, target: Target, payload: bytes) -> CastId:
        cast = self.next_cast()
        if not self.graph.places:
            self.host.deliver(Refused("cast", "this peer has no place in the graph yet"))
            return cast
        chosen = tuple(self._choose(handles_of(term)) for term in target.terms)
        arcs = [handles_of(term)[index] for term, index in zip(target.terms, chosen, strict=True)]
        for arc in dict.fromkeys(arcs):
            self._multicast(self._source(cast, target, chosen, payload, arc))
        return cast

    def holdings(self) -> Any:
        """Every contact once, however many lists it is in."""
        contacts = {node.key: node for key in self.graph.places for node in self.graph.contacts(key)}
        return [self.graph.certificates(), [contacts[key] for key in sorted(contacts)], self.description]

    # --- casting

    def _choose(self, arcs: list[Arc]) -> int:
        """Which handle stands for a term: the first, or the one with the fewest known nodes in it."""
        if not self.manner.sparse or len(arcs) == 1:
            return 0
        home = self.graph.table(next(iter(self.graph.places)))
        counts = [[sum(inside(level, arc)) for level in reversed(home.levels)] for arc in arcs]
        return min(range(len(arcs)), key=lambda index: counts[index])

    def _source(self, cast: CastId, target: Target, chosen: tuple[int, ...], payload: bytes, arc: Arc) -> Source:
        halves = self.gate.halves
        starts = {key: start_level(self.graph.table(key), arc, halves) for key in sorted(self.graph.settled())}
        sure = [key for key, level in starts.items() if self.graph.is_agreed(key, level)]
        key = min(sure or starts, key=lambda each: starts[each])
        query = self.host.rng.getrandbits(QUERY_BITS)
        certificate = self.graph.places[key].certificate
        bare = Source(
            cast, query, arc.low, arc.high, starts[key], self.host.now_us, target, chosen, payload, certificate, b""
        )
        return msgspec.structs.replace(bare, signature=self._signer.sign(bare.body()))

    def _multicast(self, source: Source) -> None:
        key = source.certificate.key
        met = self._meet(source, self._concerned(source))
        leg, takes_part = first_leg(self.graph.table(key), source.start, source.arc, self.gate.halves)
        if takes_part and key in met.open:
            self._hold(met, key, source.start)
        self._send(met, self.graph.places[key].certificate, leg)

    # --- receiving

    @handles(Hop)
    def on_hop(self, sender: Address, hop: Hop) -> None:
        self._judge(hop)

    def _judge(self, hop: Hop) -> bool:
        """Take a step or refuse it. True if our places that it is for have it now, or had it before."""
        met = self._known(hop.source)
        if met is not None:
            if met.open:
                met.open = [key for key in met.open if key in self.graph.places]  # some may have been left since
            if not met.open:  # two in three
                self.gate.refuse("repeated")
                return True
        flaw = self.gate.hop_flaw(hop, self.host.now_us)
        if flaw is None and met is None:
            flaw = self._source_flaw(hop.source)
        elif flaw is None and met is not None and met.source is not hop.source and met.source != hop.source:
            flaw = self.gate.source_flaw(hop.source, self.host.now_us) or "equivocation"
        if flaw is not None:
            self.gate.refuse(flaw)
            return False
        return self._take(hop, met)

    @handles(Revocation)
    def on_revocation(self, sender: Address, revocation: Revocation) -> None:
        if not self.graph.learn(revocation):
            self.gate.refuse("old_or_forged_revocation")

    def _known(self, source: Source) -> Met | None:
        return self.seen.get((source.query, source.certificate.key)) if 6 in self.gate.checks else None

    def _source_flaw(self, source: Source) -> str | None:
        now_us = self.host.now_us
        flaw = self.seen.flaw(source.name, source.sent_us, now_us) if 6 in self.gate.checks else None
        return flaw or self.gate.source_flaw(source, now_us)

    def _take(self, hop: Hop, met: Met | None) -> bool:
        """Let each of our places that may hold it do so. A message no place may hold is refused and not remembered."""
        candidates = met.open if met is not None else self._concerned(hop.source)
        passed = [key for key in candidates if self.gate.place_flaw(hop, self.graph.table(key)) is None]
        if not passed:
            flaw = self._why_not(hop)
            self.gate.refuse(flaw)
            return flaw == "repeated"
        met = met or self._meet(hop.source, candidates)
        for key in passed:
            if key in met.open:
                self._hold(met, key, hop.level)
        return True

    def _why_not(self, hop: Hop) -> str:
        """One name for a message that none of our places may hold: of the check that it got furthest to."""
        flaws = [self.gate.place_flaw(hop, self.graph.table(key)) for key in self.graph.places]
        order = ("unconcerned", "too_high", "out_of_step", "wrong_level")
        if None in flaws:
            return "repeated"
        return next((name for name in order if name in flaws), "no_place")

    def _meet(self, source: Source, places: list[bytes]) -> Met:
        """Remember a multicast, and which of our places have yet to hold it."""
        met = Met(source, source.arc, places)
        if 6 in self.gate.checks:
            self.seen.record(source.name, source.sent_us, self.host.now_us, met)
        return met

    def _concerned(self, source: Source) -> list[bytes]:
        """Our places that must get it, each at the level that follows from its vector and the source's."""
        if not {3, 5} <= self.gate.checks:
            return list(self.graph.places)
        arc, vector, vectors, halves = source.arc, source.certificate.vector, self.gate.vectors, self.gate.halves
        found = []
        start, table_of, checks_top = source.start, self.graph.table, 4 in self.gate.checks
        apart = vectors.limits[1] if start else 0
        for key, place in self.graph.places.items():
            mine = place.certificate.vector
            if vector ^ mine >= apart:  # half of all places: no list need be looked at
                if arc.holds(key):
                    found.append(key)
                continue
            level, table = min(vectors.common(vector, mine), start), table_of(key)
            if checks_top and level > table.top:
                found += [key] if self._waits(arc, key) else []
            elif concerned(table, level, arc, halves):
                found.append(key)
        return found

    def _waits(self, arc: Arc, key: bytes) -> bool:
        """Whether a place that does not have the level of a message waits for another copy of it."""
        return False

    # --- holding and serving

    def _hold(self, met: Met, key: bytes, level: int) -> None:
        """One of our places has the message at a level: deliver, and serve those below."""
        met.open.remove(key)
        arc = met.arc
        if arc.holds(key):
            self._deliver(met.source, arc)
        table = self.graph.table(key)
        level = min(level, table.top)  # a place beside the one that passed it on may have lists that are still short
        for leg in legs(table, level, arc, self.gate.halves, self.manner.through):
            self._send(met, self.graph.places[key].certificate, leg)

    def _send(self, met: Met, place: Certificate, leg: Leg[Certificate]) -> None:
        """One signed message for the whole leg; our own places are served by a plain call."""
        hop: Hop | None = None
        for address in dict.fromkeys([node.address for node in leg.receivers]):
            if address != self.address:
                hop = hop or self.signed_hop(met.source, leg.level, place)
                self._carry(address, hop)
        for node in leg.receivers:
            if node.address == self.address and node.key in met.open:
                self._hold(met, node.key, leg.level)

    def _carry(self, address: Address, hop: Hop) -> None:
        self.host.send(address, hop)

    def signed_hop(self, source: Source, level: int, place: Certificate) -> Hop:
        return Hop(source, level, place, self._signer.sign(hop_body(source, level)))

    def _deliver(self, source: Source, arc: Arc) -> None:
        """The least-term rule: of all arcs that reach this peer, that of the least selecting term notifies.

        While places come and go any arc that reaches it will do: the inbox lets nothing pass twice.
        """
        if self.description is None:
            return
        if self.settler.moving or self._least_arc(source, self.description) == arc:
            self.inbox.take(source.cast, source.target, source.payload)

    def _least_arc(self, source: Source, description: Description) -> Arc | None:
        for term, chosen in zip(source.target.terms, source.handles, strict=True):
            if term.selects(description):
                return handles_of(term)[chosen]
        return None
