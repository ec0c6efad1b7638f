"""The publisher's side: asks for lists until all have come.

A list that does not come is asked for again, by another way, for a minute and a half; then the cast has failed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from implicast.casting.keeping.keeper import Keeper
from implicast.casting.keeping.messages import PARTS_MAX, Ask, Listed
from implicast.casting.keeping.pieces import (
    HOP_US,
    LOOK_US,
    Range,
    Stretch,
    overlap,
    values,
    without,
)
from implicast.casting.keeping.share import Share, Shareholder
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import LIFE_BITS, Address, CastId, Message, handles
from implicast.peer.events import Refused

WAIT_US = 1_500_000
WAIT_MAX_US = 6_000_000
"""Waits double from the one to the other."""
ASKS_MAX = 14
"""Attempts to get the lists of one cast: a minute and a half."""
QUESTIONS_MAX = 4_096
"""Casts whose lists are awaited; further ones are refused."""


class Fetch:
    """The lists of one cast, by range: what came, and what is missing. `about` is what the design wants to remember."""

    __slots__ = (
        "_missing",
        "_parts",
        "_wait_us",
        "about",
        "attempts",
        "counts",
        "due_us",
        "lists",
        "ranges",
    )

    def __init__(self, about: Any, ranges: Sequence[Range], counts: bool = False) -> None:
        """`counts`: only how many are in the lists."""
        self.about, self.ranges, self.counts = about, ranges, counts
        self.lists: list[list[Any]] = [[] for _ in ranges]
        self._missing: list[list[Stretch]] = [[(low, high)] for _, _, low, high, _ in ranges]
        self._parts: dict[tuple[int, Scalar], dict[int, Sequence[Any]]] = {}
        self._wait_us, self.attempts, self.due_us = WAIT_US, 0, 0

    def take(self, told: Listed) -> bool:
        """Note a part of an answer; True when this was the last thing missing."""
        piece, answered = told.piece, (told.low, told.high)
        is_asked = (
            piece < len(self.ranges) and overlap(answered, self.ranges[piece][2:4]) == answered
        )
        if not is_asked or not told.part < told.parts <= PARTS_MAX:
            return False
        so_far = self._parts.setdefault((piece, told.low), {})
        so_far[told.part] = told.found
        if len(so_far) < told.parts:
            return False
        del self._parts[piece, told.low]
        left = [part for each in self._missing[piece] for part in without(each, *answered)]
        if left != self._missing[piece]:
            found = [entry for _, each in sorted(so_far.items()) for entry in each]
            self.lists[piece] += [told.count] if self.counts else found
            self._missing[piece] = left
        return not any(self._missing)

    def missing_ranges(self) -> list[tuple[int, Range]]:
        """What is still missing: which piece, and the range."""
        return [
            (piece, (shelf, attribute, *stretch, walks))
            for piece, (shelf, attribute, _, _, walks) in enumerate(self.ranges)
            for stretch in self._missing[piece]
        ]

    def try_again(self, now_us: int, hops: float) -> None:
        """Asked for now: patience lasts for so many further hops."""
        self.due_us = now_us + self._wait_us + int(HOP_US * hops)
        self._wait_us = min(WAIT_MAX_US, 2 * self._wait_us)
        self.attempts += 1


class AskLate(Message):
    """Rings while lists are awaited."""


class Questions(Shareholder):
    """What one peer wants to know."""

    __slots__ = ("_armed", "_casts", "_found", "_keeper", "open")

    def __init__(
        self, share: Share, keeper: Keeper, found: Callable[[CastId, Fetch, bool], None]
    ) -> None:
        """`found(cast, question, True)`: all lists have come; False: some never did."""
        super().__init__(share)
        self._keeper, self._found = keeper, found
        self.open: dict[CastId, Fetch] = {}
        self._casts: dict[CastId, tuple[CastId, bool]] = {}
        """Where words are signed, by the name under which it is asked for: the cast, and whether proofs are checked."""
        self._armed = False

    def ask(self, cast: CastId, question: Fetch, verb: str, verified: bool = False) -> None:
        """Get all lists of a question that this verb raised; `verified`: only entries that their owners have proved."""
        if len(self.open) >= QUESTIONS_MAX:
            self.host.deliver(Refused(verb, "too many await their lists"))
            return
        asked = cast
        if self._share.deeds.signed:  # under a name that only those can answer who pass it on
            asked = CastId(cast.publisher, self.host.rng.getrandbits(LIFE_BITS), cast.serial)
            self._casts[asked] = cast, verified
        self.open[asked] = question
        self._send_out(asked, question)

    def _send_out(self, cast: CastId, question: Fetch) -> None:
        missing = question.missing_ranges()
        longest = max(len(values((each[2], each[3]))) for _, each in missing)
        question.try_again(
            self.host.now_us, min(longest, self._chord.nodes_estimate()) if longest > 1 else 1
        )
        if self._ring.state == IN:
            for piece, (shelf, attribute, low, high, walks) in missing:
                key = self._share.key_of(attribute, low)
                ends = (low, high, cast, self.address, walks, False, question.counts)
                self._keeper.on_request(self.address, Ask(key, piece, shelf, attribute, *ends))
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self.open and self._share.settings.lease_us:
            self._armed = True
            self.host.after(LOOK_US, AskLate())

    @handles(AskLate)
    def on_ask_late(self, alarm: AskLate) -> None:
        self._armed = False
        for cast, question in list(self.open.items()):
            if question.due_us > self.host.now_us:
                continue
            if question.attempts >= ASKS_MAX:
                self._close(cast, False)
            else:
                self._chord.turn_off(int(self.host.rng.random() * 3))
                self._send_out(cast, question)
        self._chord.turn_off(0)
        self._arm()

    @handles(Listed)
    def on_told(self, sender: Address, told: Listed) -> None:
        question, deeds = self.open.get(told.cast), self._share.deeds
        if question is None:
            return
        if deeds.signed and told.piece < len(question.ranges):
            shelf, attribute, *_ = question.ranges[told.piece]
            plain = deeds.plain(told.found, (shelf, attribute, told.low), self._casts[told.cast][1])
            told = replace(told, found=plain)
        if question.take(told):
            self._close(told.cast, True)

    def _close(self, asked: CastId, is_whole: bool) -> None:
        self._found(self._casts.pop(asked, (asked, False))[0], self.open.pop(asked), is_whole)
