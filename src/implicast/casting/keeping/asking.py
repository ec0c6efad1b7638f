"""The publisher's side: asks for lists until all have come, tells everybody selected until they confirm, settles.

A list that does not come is asked for again, by another way, for a minute; whoever is told confirms it (`Hops`) or is
given up after 40 s. Then the publisher knows how its cast ended (`Settled`). Repeating is safe: receivers recognise
what they have heard.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from implicast.casting.gather import Gathering, in_parts
from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.messages import Ask, AskLate, Name, Told
from implicast.casting.reliable import Hops
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, CastId, Host, Message, Part, handles
from implicast.peer.events import Settled

LOOK_US = 500_000
WAIT_US = 1_500_000
WAIT_MAX_US = 6_000_000
"""Waits double from the one to the other."""
HOP_US = 60_000
"""Patience with each further value of a range."""
ASKS_MAX = 14
"""Attempts to get the lists of one cast: a minute and a half."""
GATHERINGS_MAX = 4_096
"""Casts whose lists are awaited; further ones are refused."""
SETTLING_MAX = 16_384
"""Casts whose ends are awaited; the end of the oldest is not told beyond that."""

Range = tuple[str, str, Scalar, Scalar, bool]
"""Shelf, attribute, low, high, and whether it is walked."""


class Question(Gathering[tuple[int, Scalar]]):
    """The lists of one cast: one for each value of each range."""

    __slots__ = ("about", "due_us", "ranges", "wait_us")

    def __init__(self, about: Any, ranges: Sequence[Range]) -> None:
        super().__init__((piece, value) for piece, each in enumerate(ranges) for value in _values(each[2], each[3]))
        self.about, self.ranges = about, ranges
        self.wait_us, self.due_us = WAIT_US, 0

    def found(self, piece: int) -> list[tuple[Name, bytes]]:
        """Everything in the lists of one range."""
        ranged = self.ranges[piece]
        return [entry for value in _values(ranged[2], ranged[3]) for entry in self.lists[piece, value] or ()]

    def stretches(self) -> Iterable[tuple[int, Range]]:
        """What is still missing, as ranges."""
        for piece, (shelf, attribute, low, high, walks) in enumerate(self.ranges):
            start: Scalar | None = None
            last: Scalar = low
            for value in _values(low, high):
                if self.lists[piece, value] is None:
                    start, last = value if start is None else start, value
                elif start is not None:
                    yield piece, (shelf, attribute, start, last, walks)
                    start = None
            if start is not None:
                yield piece, (shelf, attribute, start, last, walks)


class Asking(Part):
    """What one peer wants to know, and whom it tells."""

    __slots__ = ("_armed", "_found", "_questions", "_settling", "hops", "keeper")

    def __init__(self, address: Address, host: Host, keeper: Keeper, found: Callable[[CastId, Question], None]) -> None:
        """`found(cast, question)`: all lists have come."""
        super().__init__(address, host)
        self.keeper, self._found = keeper, found
        self.hops = Hops(address, host, self._confirmed, self._given_up)
        self._questions: dict[CastId, Question] = {}
        self._settling: dict[CastId, list[int]] = {}
        self._armed = False

    @property
    def is_busy(self) -> bool:
        """Whether any cast is under way whose lists, or whose audience, have not answered."""
        return bool(self._questions or self._settling)

    def ask(self, cast: CastId, question: Question) -> bool:
        """Get all lists of a question. False: too many are awaited."""
        if len(self._questions) >= GATHERINGS_MAX:
            return False
        self._questions[cast] = question
        self._send_out(cast, question)
        return True

    def _send_out(self, cast: CastId, question: Question) -> None:
        keeper = self.keeper
        missing = list(question.stretches())
        longest = max(len(_values(each[2], each[3])) for _, each in missing)
        question.due_us = self.host.now_us + question.wait_us + HOP_US * longest
        if keeper.chord.ring.state == IN:
            for piece, (shelf, attribute, low, high, walks) in missing:
                key = keeper.key_of(attribute, low)
                self.on_ask(
                    self.address, Ask(key, piece, shelf, attribute, low, high, cast, self.address, walks, False)
                )
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self._questions:
            self._armed = True
            self.host.after(LOOK_US, AskLate())

    @handles(AskLate)
    def on_ask_late(self, alarm: AskLate) -> None:
        self._armed = False
        chord = self.keeper.chord
        for cast, question in list(self._questions.items()):
            if question.due_us > self.host.now_us:
                continue
            question.attempts += 1
            question.wait_us = min(WAIT_MAX_US, 2 * question.wait_us)
            if question.attempts > ASKS_MAX:
                del self._questions[cast]
                self.host.deliver(Settled(cast, 0, 0))
            else:
                chord.detour = int(self.host.rng.random() * 3)
                self._send_out(cast, question)
        chord.detour = 0
        self._arm()

    @handles(Ask)
    def on_ask(self, sender: Address, ask: Ask) -> None:
        keeper = self.keeper
        if not keeper.comes_by(sender, ask) or not keeper.is_ready:
            return
        own = keeper.own_values(ask.attribute, ask.low, ask.high)
        last = own[-1][1]
        rows = (row for _, value in own for row in keeper.rows.listed((ask.shelf, ask.attribute, value)))
        parts = in_parts([(row.name, row.packed) for row in rows])
        for number, part in enumerate(parts):  # all own values in one answer; what is found counts for the first
            self._answer(ask, Told(ask.cast, ask.piece, ask.low, last, number, len(parts), tuple(part)))
        if last != ask.high:
            assert isinstance(last, int), "only ranges of numbers go on"
            key = keeper.key_of(ask.attribute, last + 1)
            rest = (last + 1, ask.high, ask.cast, ask.origin)
            self.on_ask(self.address, Ask(key, ask.piece, ask.shelf, ask.attribute, *rest, ask.walks, ask.walks))

    def _answer(self, ask: Ask, told: Told) -> None:
        if ask.origin == self.address:
            self.on_told(self.address, told)
        else:
            self.host.send(ask.origin, told)

    @handles(Told)
    def on_told(self, sender: Address, told: Told) -> None:
        question = self._questions.get(told.cast)
        if question is None:
            return
        complete = False
        for value in _values(told.low, told.high):
            found = told.found if value == told.low else ()
            complete |= question.take((told.piece, value), told.part, told.parts, found)
        if complete:
            del self._questions[told.cast]
            self._found(told.cast, question)

    # Telling

    def tell(self, cast: CastId, messages: Mapping[Address, Message], here: int) -> None:
        """Tell these, each until it confirms; `here` of them were told by a call."""
        if len(self._settling) >= SETTLING_MAX:
            del self._settling[next(iter(self._settling))]
        self._settling[cast] = [here, 0, len(messages) + 1]
        for to, message in messages.items():
            self.hops.send(to, cast, message)
        self._ended(cast)

    def _confirmed(self, to: Address, cast: CastId) -> None:
        if cast in self._settling:
            self._settling[cast][0] += 1
            self._ended(cast)

    def _given_up(self, to: Address, cast: CastId) -> None:
        if cast in self._settling:
            self._settling[cast][1] += 1
            self._ended(cast)

    def _ended(self, cast: CastId) -> None:
        counts = self._settling[cast]
        counts[2] -= 1
        if not counts[2]:
            del self._settling[cast]
            self.host.deliver(Settled(cast, counts[0], counts[1]))


def _values(low: Scalar, high: Scalar) -> Sequence[Scalar]:
    return range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else (low,)
