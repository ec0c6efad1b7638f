"""Coming to the surface: a newcomer asks for a place until it holds a piece, and owners give what they can spare.

An owner with several pieces gives its smallest whole; any other halves the piece with the place. Busy owners do not
answer, and the newcomer draws another place. A peer that lost all its ground to better titles comes again like this.

Where to ask: for the directory of landmarks, each with an extent, that places newcomers (thesis, section 7.2.3), the
owners of places stand here. A newcomer asks for the owner of one place in each of the 2^d extents of the surface, times
how long each takes to answer, and looks on inside the extent of the nearest, one digit at a time: 64 landmarks on three
dimensions are two rounds of eight questions. An extent has room while the ground of the owner that answered is not
smaller than that of most. Where no owner answers in time, any place inside the extent so far will do.
"""

from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

from implicast.overlay.ice.estate import Way
from implicast.overlay.ice.messages import Enter, EnterAgain, Sound, Sounded, SoundedOut, Title
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.peer.events import Joined
from implicast.peer.memory import Recent
from implicast.space.morton import BITS

INTRODUCERS_MAX = 64
"""Peers by way of whom a newcomer asks; further ones are not used."""
UNPROVED_MAX = 64
"""Peers said to be in a new life that are asked themselves; the one named first is forgotten, and asks again."""
NEARBY_MAX = 3
"""Attempts at ground nearby; then a newcomer asks for any."""


class Extent(NamedTuple):
    """All codes that begin with these bits."""

    low: int = 0
    bits: int = 0

    def part(self, digit: int, dimensions: int) -> "Extent":
        bits = self.bits + dimensions
        return Extent(self.low | digit << (BITS - bits), bits)


@dataclass(slots=True)
class Round:
    """What is asked about the parts of one extent, by the digit of each."""

    extent: Extent
    number: int
    knocked_us: dict[int, int] = field(default_factory=dict)
    """When the owner, once known, was asked by us directly."""
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    """How near the owner is (microseconds), and the bits of its ground: the more, the smaller."""

    def nearest(self) -> int | None:
        """The part whose owner is nearest among those with room; None when nobody answered."""
        if not self.heard:
            return None
        usual = median_low(bits for _, bits in self.heard.values())
        return min(
            (trip_us, digit) for digit, (trip_us, bits) in self.heard.items() if bits <= usual
        )[1]


class Admission(SurfacePart):
    """Joins, and lets others join."""

    __slots__ = ("_attempt", "_homeless_us", "_introducers", "_round", "_unproved", "joined")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._attempt = 0
        self._introducers: tuple[Address, ...] = ()
        self._homeless_us = -1
        """Since when we have had no ground, after we had some; -1: we have."""
        self._unproved: Recent[Address, tuple[Enter, int]] = Recent(UNPROVED_MAX)
        """Peers that we knew and that others say to have begun another life. Anybody could say so of a neighbour and
        have its ground seized: they are asked, and their own greeting counts."""
        self.joined = False
        self._round: Round | None = None
        """What owners are asked now about where they are; None: nothing has been asked."""

    def join(self, introducers: tuple[Address, ...], known: tuple[Address, ...] = ()) -> None:
        """Ask for a place, by way of peers already there; the first peer owns the whole surface."""
        self.surface.start()
        self.surface.greetings.hail(
            known
        )  # our life before is over: the ground we had then finds its heirs
        others = list(
            dict.fromkeys(each for each in (*introducers, *known) if each != self.address)
        )
        self._introducers = tuple(self.host.rng.sample(others, min(len(others), INTRODUCERS_MAX)))
        if self._introducers and self.surface.terms.soundings:
            self._sound(Extent())
        elif self._introducers:
            self._ask_for_place()
        else:
            self.surface.plot.atlas.put([Title(0, 0, 0, self.address)])
            self.surface.announce()
            self.settled_in()

    def _ask_for_place(self) -> None:
        """Anywhere; or, the first few times, inside the extent where those are who are near us. Introducers are asked
        in turn: some may be gone."""
        self._attempt += 1
        extent = (
            self._round.extent
            if self._round is not None and self._attempt <= NEARBY_MAX
            else Extent()
        )
        code = extent.low | self.host.rng.getrandbits(BITS - extent.bits)
        enter = Enter(
            Way((code, code + 1), self.surface.next_number()), self.address, self.surface.born_us
        )
        self.host.send(self._introducers[self._attempt % len(self._introducers)], enter)
        self.host.after(self.timers.join_us, EnterAgain(self._attempt))

    @handles(EnterAgain)
    def on_enter_again(self, alarm: EnterAgain) -> None:
        if alarm.attempt != self._attempt or self.surface.pieces or self.surface.leaving:
            return
        if self._nobody_has_any():
            self.surface.inquest.begin_again()
            self.surface.greetings.hail(self._introducers)
        elif self.surface.taker.receipt is None:
            self._ask_for_place()
            return
        self.host.after(self.timers.join_us, EnterAgain(self._attempt))

    def _nobody_has_any(self) -> bool:
        """Have we been without ground for long, and all whom we hear too? Then titles that their owners deny, or whose
        owners never were, took it from all of us."""
        now_us, timers, circle = self.host.now_us, self.timers, self.surface.circle
        if not self.joined or now_us - self._homeless_us <= timers.gap_us:
            return False
        if any(
            circle.silence_us(each) <= timers.dead_us for each in self.surface.plot.neighbours()
        ):
            return False
        return any(now_us - news.marked_us <= timers.self_us for news in circle.news.values())

    def come_again(self, known: list[Address]) -> None:
        """All is lost to others: come again as a newcomer, by way of these or those of before."""
        self._homeless_us = self.host.now_us
        known = [each for each in (*known, *self._introducers) if each != self.address]
        self._introducers = tuple(dict.fromkeys(known))[:INTRODUCERS_MAX]
        if self._introducers and not self.surface.leaving:
            self._attempt += 1
            self.host.after(
                int(self.timers.rto_us * (1 + self.host.rng.random())), EnterAgain(self._attempt)
            )

    def asked(self, enter: Enter, code: int) -> None:
        """A newcomer asks for a place that is ours."""
        surface, plot, newcomer = self.surface, self.surface.plot, enter.newcomer
        if surface.circle.is_new_incarnation(newcomer, enter.born_us):
            self._unproved.put(newcomer, (enter, code))
            surface.greetings.ask_more(newcomer)
            return
        busy = surface.giver.gift is not None or surface.leaving
        if (
            busy
            or newcomer == self.address
            or newcomer in plot.neighbours()
            or surface.giver.has_declined(newcomer)
        ):
            return
        pieces = sorted(plot.firm_pieces(), key=lambda title: (-title.bits, title.low))
        if pieces and len(plot.pieces) > 1:
            surface.giver.give(pieces[0], newcomer)
        elif pieces and pieces[0].bits < BITS:
            surface.giver.give(plot.split(pieces[0], code), newcomer)

    def met(self, newcomer: Address) -> None:
        """It has greeted us in its new life: if it asked for a place before, it gets one now."""
        asked = self._unproved.pop(newcomer, None)
        if asked is not None:
            self.asked(*asked)

    def settle(self) -> None:
        """We have a place from the beginning."""
        self.joined = True

    def settled_in(self) -> None:
        """There is firm ground under us."""
        if not self.joined and self.surface.plot.firm:
            self.joined = True
            self.host.deliver(Joined())

    # --- where to ask

    def _sound(self, extent: Extent) -> None:
        """Find a part of the extent that is near, then ask for ground there."""
        terms, rng = self.surface.terms, self.host.rng
        number = 0 if self._round is None else self._round.number + 1
        self._round = Round(extent, number)
        if extent.bits >= terms.soundings * terms.dimensions:
            self._ask_for_place()
            return
        for digit in range(1 << terms.dimensions):
            part = extent.part(digit, terms.dimensions)
            code = part.low | rng.getrandbits(BITS - part.bits)
            self._knock(rng.choice(self._introducers), code, number, digit, False)
        self.host.after(self.timers.ask_us, SoundedOut(number))

    def _knock(self, to: Address, code: int, number: int, digit: int, direct: bool) -> None:
        way = Way((code, code + 1), self.surface.next_number())
        self.host.send(to, Sound(way, self.address, number, digit, direct))

    @handles(Sounded)
    def on_sounded(self, sender: Address, sounded: Sounded) -> None:
        """The owner of a place says so, or answers our own question."""
        now, digit = self._round, sounded.digit
        if now is None or sounded.round != now.number or digit in now.heard:
            return
        if sounded.direct and digit in now.knocked_us:
            now.heard[digit] = (self.host.now_us - now.knocked_us[digit], sounded.bits)
            if len(now.heard) == 1 << self.surface.terms.dimensions:
                self.on_sounded_out(SoundedOut(now.number))
        elif not sounded.direct and digit not in now.knocked_us:
            now.knocked_us[digit] = self.host.now_us
            self._knock(sender, sounded.low, now.number, digit, True)

    @handles(SoundedOut)
    def on_sounded_out(self, alarm: SoundedOut) -> None:
        """All have answered, or have had their time: look closer."""
        now = self._round
        if now is None or now.number != alarm.round or self.surface.pieces or self.surface.leaving:
            return
        digit = now.nearest()
        if digit is None:
            self._ask_for_place()
        else:
            self._sound(now.extent.part(digit, self.surface.terms.dimensions))

    def sounded(self, sound: Sound, code: int) -> None:
        """The place is ours: tell the newcomer, and how much ground there is around it."""
        piece = next((each for each in self.surface.pieces if each.low <= code < each.high), None)
        if piece is not None and sound.newcomer != self.address:
            self.host.send(
                sound.newcomer, Sounded(sound.round, sound.digit, sound.direct, code, piece.bits)
            )
