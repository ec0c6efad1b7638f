"""Joining: a peer asks for a place until it owns an extent, and owners hand off what they can.

An owner with several extents hands off its smallest one; any other owner halves the extent that
contains the requested code. Busy owners do not answer, and the joining peer draws another code. A
peer that lost all its extents to better claims joins again in the same way. An introducer answers a
joining peer with the names of other peers, because the introducers may be gone before it has a
place.

Choice of the place: the thesis (section 7.2.3) has a directory of landmarks, each with an extent,
that places newcomers. Here latency probes replace the directory. A joining peer probes the owner of
one code in each of the 2^d sub-extents, measures the round trips, and goes on inside the sub-extent
of the nearest owner, one digit at a time: 64 landmarks in three dimensions are two rounds of eight
probes. An owner counts only if its extent is not smaller than the median. If no owner answers in
time, the peer asks for any code inside the extent found so far.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

from implicast.overlay.ice.claim_exchange import ClaimExchange
from implicast.overlay.ice.claiming import Claiming
from implicast.overlay.ice.handoff import Handoff
from implicast.overlay.ice.item_store import RouteHeader
from implicast.overlay.ice.members import Members
from implicast.overlay.ice.messages import (
    INTRODUCED_MAX,
    Introduction,
    JoinRequest,
    LatencyProbe,
    LatencyReply,
    OwnershipClaim,
)
from implicast.overlay.ice.ownership import Ownership
from implicast.overlay.ice.reclaim import Reclaim, ReclaimDue
from implicast.overlay.ice.surface_site import SurfaceSite
from implicast.peer.contract import Address, Message, Part, handles
from implicast.peer.events import Joined
from implicast.peer.memory import Recent
from implicast.space.morton import BITS

INTRODUCERS_MAX = 64
"""Introducers that a joining peer uses."""
UNVERIFIED_MAX = 64
"""Peers of an alleged new incarnation that are asked to confirm it; the oldest is evicted, and asks
again.
"""
ACQUAINTANCES_MAX = 16
"""Introducers, and peers that asked to join through this one, that are told of claims which may
overlap those of a surface that this peer does not know of.
"""
NEARBY_MAX = 3
"""Attempts inside the nearby extent; after them, a joining peer asks for any code."""


class JoinRetry(Message):
    """Fires when a join request may have been lost."""

    attempt: int
    early: bool = False
    """True if it fires when the introducer should have answered, rather than the owner."""


class ProbeRoundDue(Message):
    """Fires when the probed owners have had their time to answer."""

    round: int


class Extent(NamedTuple):
    """All codes with this prefix."""

    low: int = 0
    bits: int = 0

    def part(self, digit: int, dimensions: int) -> "Extent":
        bits = self.bits + dimensions
        return Extent(self.low | digit << (BITS - bits), bits)


@dataclass(slots=True)
class ProbeRound:
    """One round of probes of the sub-extents of an extent, by digit."""

    extent: Extent
    number: int
    probed_us: dict[int, int] = field(default_factory=dict)
    """When the direct probe of the owner was sent."""
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Round trip in microseconds, and prefix length of the owner's extent: longer is smaller."""

    def nearest(self) -> int | None:
        """Digit of the nearest owner among those whose extent is not smaller than the median; None
        if no owner answered.
        """
        if not self.heard:
            return None
        usual = median_low(bits for _, bits in self.heard.values())
        return min(
            (round_trip_us, digit)
            for digit, (round_trip_us, bits) in self.heard.items()
            if bits <= usual
        )[1]


class Joining(Part):
    """Joins the surface, and lets other peers join."""

    __slots__ = (
        "_answered",
        "_attempt",
        "_claiming",
        "_exchange",
        "_handoff",
        "_introduced",
        "_introducers",
        "_members",
        "_newcomers",
        "_next",
        "_on_begun",
        "_ownership",
        "_reclaim",
        "_round",
        "_site",
        "_timers",
        "_unverified",
        "_without_extent_since_us",
        "joined",
    )

    def __init__(
        self,
        site: SurfaceSite,
        ownership: Ownership,
        members: Members,
        exchange: ClaimExchange,
        handoff: Handoff,
        claiming: Claiming,
        reclaim: Reclaim,
        on_begun: Callable[[], None],
    ) -> None:
        """`on_begun` is called when the peer begins to join."""
        super().__init__(site.address, site.host)
        self._site, self._timers, self._ownership = site, site.settings.timers, ownership
        self._members, self._exchange, self._handoff = members, exchange, handoff
        self._claiming, self._reclaim, self._on_begun = claiming, reclaim, on_begun
        self._attempt = 0
        self._introducers: tuple[Address, ...] = ()
        self._next = 0
        """Number of introducers asked since one named others; the next in turn is asked next."""
        self._answered = False
        """Whether the introducer that was asked last has answered."""
        self._introduced = 0
        """Index of the neighbour that the last introduction began with: neighbours take turns."""
        self._newcomers: Recent[Address, None] = Recent(ACQUAINTANCES_MAX)
        """Peers that asked to join through this one."""
        self._without_extent_since_us = -1
        """Since when this peer has had no extent after it had some; -1: it has one."""
        self._unverified: Recent[Address, tuple[JoinRequest, int]] = Recent(UNVERIFIED_MAX)
        """Join requests of known peers in an alleged new incarnation. A forged request could have a
        neighbour's extents taken over, so only the peer's own heartbeat counts.
        """
        self.joined = False
        self._round: ProbeRound | None = None
        """The current round of probes; None: no probes have been sent."""

    def join(self, introducers: tuple[Address, ...]) -> None:
        """Ask for a place by way of introducers and of the contacts of a previous incarnation.
        Without any, this peer owns the whole surface.
        """
        self._on_begun()
        known = (*introducers, *self._reclaim.contacts)
        others = list(dict.fromkeys(each for each in known if each != self.address))
        self._introducers = tuple(self.host.rng.sample(others, min(len(others), INTRODUCERS_MAX)))
        self._reclaim.begin(self._introducers)
        if self._introducers and self._site.settings.probe_digits:
            self._probe(Extent())
        elif self._introducers:
            self._ask_for_place()
        else:
            self._ownership.put([OwnershipClaim(0, 0, 0, self.address)])
            self._exchange.announce()

    @handles(ReclaimDue)
    def on_reclaim_due(self, alarm: ReclaimDue) -> None:
        self._reclaim.on_due(alarm)

    def _ask_for_place(self) -> None:
        """Ask for a random code; the first few times inside the extent that the probes found.
        Introducers take turns, since some may be gone.
        """
        self._attempt += 1
        extent = (
            self._round.extent
            if self._round is not None and self._attempt <= NEARBY_MAX
            else Extent()
        )
        code = extent.low | self.host.rng.getrandbits(BITS - extent.bits)
        request = JoinRequest(
            RouteHeader((code, code + 1), self._site.numbers.next()),
            self.address,
            self._site.born_us,
        )
        self.host.send(self._introducers[self._next % len(self._introducers)], request)
        self._next, self._answered = self._next + 1, False
        if self._next < len(self._introducers):
            self.host.after(2 * self._timers.rto_us, JoinRetry(self._attempt, early=True))
        self.host.after(self._timers.join_retry_us, JoinRetry(self._attempt))

    def introduce(self, newcomer: Address) -> None:
        """A peer asks to join through this one: tell it of others."""
        self._newcomers.put(newcomer, None)
        is_suspect, near = self._members.is_suspect, self._ownership.neighbours()
        known = [
            each for each in near or self._introducers if each != newcomer and not is_suspect(each)
        ]
        if known:
            self._introduced = (self._introduced + INTRODUCED_MAX) % len(known)
            in_turn = (*known[self._introduced :], *known[: self._introduced])
            self.host.send(newcomer, Introduction(in_turn[:INTRODUCED_MAX]))

    @handles(Introduction)
    def on_introduction(self, sender: Address, introduction: Introduction) -> None:
        """Ask the peers that were heard of last first."""
        if self._ownership.extents or sender not in self._introducers:
            return
        self._answered = True
        known = (*introduction.peers, *self._introducers)
        known = tuple(dict.fromkeys(each for each in known if each != self.address))
        self._introducers, self._next = known[:INTRODUCERS_MAX], 0

    def on_hop_ack(self, sender: Address) -> None:
        """An introducer has passed the join request on."""
        self._answered = self._answered or sender in self._introducers

    def acquaintances(self) -> list[Address]:
        """Peers that may belong to a surface that this peer does not know of."""
        return list(dict.fromkeys((*self._newcomers, *self._introducers)))[:ACQUAINTANCES_MAX]

    @handles(JoinRetry)
    def on_join_retry(self, alarm: JoinRetry) -> None:
        if alarm.attempt != self._attempt or self._ownership.extents or self._exchange.leaving:
            return
        if alarm.early and (self._answered or self._handoff.receiver.is_busy):
            return
        if self._all_without_extents():
            self._claiming.claim_all()
            self._exchange.send_to(self._introducers)
        elif not self._handoff.receiver.is_busy:
            self._ask_for_place()
            return
        self.host.after(self._timers.join_retry_us, JoinRetry(self._attempt))

    def _all_without_extents(self) -> bool:
        """True if this peer and all peers it hears have been without extents for long. Then claims
        that their owners deny, or whose owners never existed, took every extent.
        """
        now_us, timers, members = self.host.now_us, self._timers, self._members
        if not self.joined or now_us - self._without_extent_since_us <= timers.gap_us:
            return False
        if any(
            members.silence_us(each) <= timers.dead_after_us
            for each in self._ownership.neighbours()
        ):
            return False
        return any(
            now_us - state.confirmed_us <= timers.suspect_after_us
            for state in members.states.values()
        )

    def rejoin(self, known: list[Address]) -> None:
        """Every extent was lost: join again by way of these peers or the earlier introducers."""
        self._without_extent_since_us = self.host.now_us
        known = [each for each in (*known, *self._introducers) if each != self.address]
        self._introducers = tuple(dict.fromkeys(known))[:INTRODUCERS_MAX]
        if self._introducers and not self._exchange.leaving:
            self._attempt += 1
            self.host.after(
                int(self._timers.rto_us * (1 + self.host.rng.random())), JoinRetry(self._attempt)
            )

    def on_join_request(self, request: JoinRequest, code: int) -> None:
        """A joining peer asks for a code that this peer owns."""
        ownership, newcomer = self._ownership, request.newcomer
        if self._members.is_new_incarnation(newcomer, request.born_us):
            self._unverified.put(newcomer, (request, code))
            self._exchange.request_full_state(newcomer)
            return
        busy = self._handoff.is_busy or self._exchange.leaving
        if (
            busy
            or newcomer == self.address
            or newcomer in ownership.neighbours()
            or self._handoff.has_declined(newcomer)
        ):
            return
        extents = sorted(ownership.committed_extents(), key=lambda claim: (-claim.bits, claim.low))
        if extents and len(ownership.extents) > 1:
            self._handoff.hand_off(extents[0], newcomer)
        elif extents and extents[0].bits < BITS:
            self._handoff.hand_off(ownership.split(extents[0], code), newcomer)

    def on_new_incarnation(self, newcomer: Address) -> None:
        """The peer has confirmed its new incarnation by a heartbeat: serve its pending join
        request.
        """
        asked = self._unverified.pop(newcomer, None)
        if asked is not None:
            self.on_join_request(*asked)

    def restore(self) -> None:
        """This peer has a place from the beginning (assembled surface)."""
        self.joined = True

    def on_committed(self) -> None:
        """Report the join once an extent is committed."""
        if not self.joined and self._ownership.committed:
            self.joined = True
            self.host.deliver(Joined())

    # --- latency probes

    def _probe(self, extent: Extent) -> None:
        """Find the nearest sub-extent, then ask for a code there."""
        settings, rng = self._site.settings, self.host.rng
        number = 0 if self._round is None else self._round.number + 1
        self._round = ProbeRound(extent, number)
        if extent.bits >= settings.probe_digits * settings.dimensions:
            self._ask_for_place()
            return
        for digit in range(1 << settings.dimensions):
            part = extent.part(digit, settings.dimensions)
            code = part.low | rng.getrandbits(BITS - part.bits)
            self._send_probe(rng.choice(self._introducers), code, number, digit, False)
        self.host.after(self._timers.answers_us, ProbeRoundDue(number))

    def _send_probe(self, to: Address, code: int, number: int, digit: int, direct: bool) -> None:
        way = RouteHeader((code, code + 1), self._site.numbers.next())
        self.host.send(to, LatencyProbe(way, self.address, number, digit, direct))

    @handles(LatencyReply)
    def on_latency_reply(self, sender: Address, reply: LatencyReply) -> None:
        """The owner of a probed code has answered, by way of the route or directly."""
        now, digit = self._round, reply.digit
        if now is None or reply.round != now.number or digit in now.heard:
            return
        if reply.direct and digit in now.probed_us:
            now.heard[digit] = (self.host.now_us - now.probed_us[digit], reply.bits)
            if len(now.heard) == 1 << self._site.settings.dimensions:
                self.on_probe_round_due(ProbeRoundDue(now.number))
        elif not reply.direct and digit not in now.probed_us:
            now.probed_us[digit] = self.host.now_us
            self._send_probe(sender, reply.low, now.number, digit, True)

    @handles(ProbeRoundDue)
    def on_probe_round_due(self, alarm: ProbeRoundDue) -> None:
        """All owners have answered, or the time is over: go on to the next digit."""
        now = self._round
        if (
            now is None
            or now.number != alarm.round
            or self._ownership.extents
            or self._exchange.leaving
        ):
            return
        digit = now.nearest()
        if digit is None:
            self._ask_for_place()
        else:
            self._probe(now.extent.part(digit, self._site.settings.dimensions))

    def on_latency_probe(self, probe: LatencyProbe, code: int) -> None:
        """This peer owns the probed code: answer with the size of its extent."""
        extent = next(
            (each for each in self._ownership.extents if each.low <= code < each.high), None
        )
        if extent is not None and probe.newcomer != self.address:
            self.host.send(
                probe.newcomer,
                LatencyReply(probe.round, probe.digit, probe.direct, code, extent.bits),
            )
