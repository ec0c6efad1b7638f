"""Landmarks for newcomers: where on the surface are those who are near us on the network? (thesis, section 7.2.3)

The thesis has a directory of landmarks, each with an extent, that places newcomers. Here the owners of places stand for
them: a newcomer asks for the owner of one place in each of the 2^d extents of the surface, times how long each of them
takes to answer, and looks on inside the extent of the nearest, one digit at a time: 64 landmarks on three dimensions
are two rounds of eight questions. It then asks for ground inside the last extent.

An extent has room, as the thesis puts it, while it has fewer peers than the others: here, while the ground of the owner
that answered is not smaller than that of most. Owners that do not answer in time are passed over; where none does, the
newcomer asks for any place inside the extent it has come to.
"""

from dataclasses import dataclass, field
from statistics import median_low
from typing import NamedTuple

from implicast.overlay.ice.estate import Way
from implicast.overlay.ice.messages import Sound, Sounded, SoundedOut
from implicast.overlay.ice.share import Surface, SurfacePart
from implicast.peer.contract import Address, handles
from implicast.space.morton import BITS


class Extent(NamedTuple):
    """All codes that begin with these bits."""

    low: int = 0
    bits: int = 0

    def part(self, digit: int, dimensions: int) -> "Extent":
        bits = self.bits + dimensions
        return Extent(self.low | digit << (BITS - bits), bits)


class Answer(NamedTuple):
    """How near the owner of a place is, and the bits of its ground: the more, the smaller."""

    trip_us: int
    bits: int


@dataclass(slots=True)
class Round:
    """What is asked about the parts of one extent, by the digit of each."""

    extent: Extent
    number: int
    knocked_us: dict[int, int] = field(default_factory=dict)
    """When the owner, once known, was asked by us directly."""
    heard: dict[int, Answer] = field(default_factory=dict)

    def nearest(self) -> int | None:
        """The part whose owner is nearest among those with room; None when nobody answered."""
        if not self.heard:
            return None
        usual = median_low(answer.bits for answer in self.heard.values())
        return min((answer.trip_us, digit) for digit, answer in self.heard.items() if answer.bits <= usual)[1]


class Soundings(SurfacePart):
    """Finds the extent that a newcomer asks for ground in, and tells newcomers how near we are."""

    __slots__ = ("_introducers", "_round")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface)
        self._introducers: tuple[Address, ...] = ()
        self._round: Round | None = None

    @property
    def extent(self) -> Extent:
        """Where to ask for ground: the whole surface before anything is known."""
        return Extent() if self._round is None else self._round.extent

    def begin(self, introducers: tuple[Address, ...]) -> None:
        """Find an extent, then ask for ground there."""
        self._introducers = introducers
        self._ask(Extent())

    def _ask(self, extent: Extent) -> None:
        terms, rng = self.surface.terms, self.host.rng
        number = 0 if self._round is None else self._round.number + 1
        self._round = Round(extent, number)
        if extent.bits >= terms.soundings * terms.dimensions:
            self.surface.entry.ask_for_place()
            return
        for digit in range(1 << terms.dimensions):
            part = extent.part(digit, terms.dimensions)
            code = part.low | rng.getrandbits(BITS - part.bits)
            self._send(rng.choice(self._introducers), code, digit, False)
        self.host.after(self.timers.ask_us, SoundedOut(number))

    def _send(self, to: Address, code: int, digit: int, direct: bool) -> None:
        assert self._round is not None, "a round has begun"
        way = Way((code, code + 1), self.surface.next_number())
        self.host.send(to, Sound(way, self.address, self._round.number, digit, direct))

    @handles(Sounded)
    def on_sounded(self, sender: Address, sounded: Sounded) -> None:
        """The owner of a place says so, or answers our own question."""
        now, digit = self._round, sounded.digit
        if now is None or sounded.round != now.number or digit in now.heard:
            return
        if sounded.direct and digit in now.knocked_us:
            now.heard[digit] = Answer(self.host.now_us - now.knocked_us[digit], sounded.bits)
            if len(now.heard) == 1 << self.surface.terms.dimensions:
                self._look_closer(now)
        elif not sounded.direct and digit not in now.knocked_us:
            now.knocked_us[digit] = self.host.now_us
            self._send(sender, sounded.low, digit, True)

    @handles(SoundedOut)
    def on_sounded_out(self, alarm: SoundedOut) -> None:
        if self._round is not None and self._round.number == alarm.round:
            self._look_closer(self._round)

    def _look_closer(self, now: Round) -> None:
        if self.surface.pieces or self.surface.leaving:
            return
        digit, terms = now.nearest(), self.surface.terms
        if digit is None:
            self.surface.entry.ask_for_place()
        else:
            self._ask(now.extent.part(digit, terms.dimensions))

    # --- as owner of a place

    def answer(self, sound: Sound, code: int) -> None:
        """The place is ours: tell the newcomer, and how much ground there is around it."""
        piece = next((each for each in self.surface.pieces if each.low <= code < each.high), None)
        if piece is not None and sound.newcomer != self.address:
            self.host.send(sound.newcomer, Sounded(sound.round, sound.digit, sound.direct, code, piece.bits))
