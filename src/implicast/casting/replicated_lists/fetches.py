"""The reader's side of replicated lists: fetches the lists of a cast until all have arrived.

A list that does not arrive is fetched again over two routes, and a range of lists in pieces. What
has not arrived after `FETCH_MAX_US` is an uncertain region of the cast.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.messages import PARTS_MAX, FetchLists, Found, ListsFetched
from implicast.casting.replicated_lists.own_entry import (
    HOP_US,
    LINGER_US,
    RETRY_CHECK_US,
    ListRange,
    ValueRange,
    in_pieces,
    overlap,
    values,
    without,
)
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import INCARNATION_BITS, Address, CastId, Message, handles
from implicast.peer.events import Refused

WAIT_US = 1_500_000
"""Wait for an answer before lists are fetched again."""
FETCH_MAX_US = 55_000_000
"""How long lists are fetched: longer than the repair of the ring takes with few exceptions. With the
40 s in which members are notified, a cast ends within 100 s.
"""
DETOUR_FROM = 2
"""Attempts after which requests are sent over two routes."""
PIECES = 4
"""Pieces in which the missing part of a range is fetched again: with message loss a request rarely
reaches all holders of a long range.
"""
FETCHES_MAX = 4_096
"""Casts with fetches under way; further ones are refused."""


class Fetch:
    """The lists of one cast, by range: entries received, and ranges missing. `about` is for the
    design's own use.
    """

    __slots__ = (
        "_missing",
        "_parts",
        "about",
        "attempts",
        "counts",
        "due_us",
        "lists",
        "ranges",
        "silent",
        "since_us",
        "uncertain",
    )

    def __init__(self, about: Any, ranges: Sequence[ListRange], counts: bool = False) -> None:
        """`counts`: fetch only the number of entries."""
        self.about, self.ranges, self.counts = about, ranges, counts
        self.lists: list[list[Any]] = [[] for _ in ranges]
        self.silent: list[list[Found]] = [[] for _ in ranges]
        """By range, the entries that holders removed because their owners are silent."""
        self.uncertain = 0
        """Answers of holders that may lack entries."""
        self._missing: list[list[ValueRange]] = [[(low, high)] for _, _, low, high, _ in ranges]
        self._parts: dict[tuple[int, Scalar, Scalar], dict[int, Sequence[Any]]] = {}
        self.attempts = self.due_us = self.since_us = 0

    def add_answer(self, answer: ListsFetched) -> bool:
        """Add one part of an answer; return True when nothing is missing."""
        range_number, answered = answer.range_number, (answer.low, answer.high)
        is_asked = (
            range_number < len(self.ranges)
            and overlap(answered, self.ranges[range_number][2:4]) == answered
        )
        if not is_asked or not answer.part < answer.parts <= PARTS_MAX:
            return False
        so_far = self._parts.setdefault((range_number, *answered), {})
        so_far[answer.part] = answer.found
        if len(so_far) < answer.parts:
            return False
        del self._parts[range_number, *answered]
        left = [part for each in self._missing[range_number] for part in without(each, *answered)]
        if left != self._missing[range_number]:
            found = [entry for _, each in sorted(so_far.items()) for entry in each]
            self.lists[range_number] += [answer.count] if self.counts else found
            self._missing[range_number] = left
            self.silent[range_number] += answer.silent
            self.uncertain += answer.uncertain
        return not any(self._missing)

    def note_whole(self, now_us: int) -> None:
        """All lists have arrived. If that took long, a member may have moved from one list to
        another in the meantime.
        """
        is_one = len(self.ranges) == 1 and self.ranges[0][2] == self.ranges[0][3]
        self.uncertain += not is_one and now_us > self.since_us + LINGER_US

    def note_missing(self) -> None:
        """What is missing will not be fetched."""
        self.uncertain += sum(map(len, self._missing))

    def missing_ranges(self) -> list[tuple[int, ListRange]]:
        """Return the missing ranges, each with its range number; in pieces after an attempt."""
        pieces = PIECES if self.attempts and not self.counts else 1
        return [
            (range_number, (namespace, attribute, *piece, walks))
            for range_number, (namespace, attribute, _, _, walks) in enumerate(self.ranges)
            for value_range in self._missing[range_number]
            for piece in in_pieces(value_range, pieces)
        ]

    def try_again(self, now_us: int, hops: float) -> None:
        """Note an attempt now; the next one waits longer by `HOP_US` for each of `hops`."""
        self.since_us = self.since_us if self.attempts else now_us
        self.due_us = now_us + WAIT_US + int(HOP_US * hops)
        self.attempts += 1


class FetchRetry(Message):
    """Fires while a fetch is under way."""


class Fetches(HolderPart):
    """All fetches of one peer."""

    __slots__ = ("_armed", "_casts", "_holder", "_on_fetched", "open")

    def __init__(
        self,
        state: HolderState,
        holder: ListHolder,
        on_fetched: Callable[[CastId, Fetch, bool], None],
    ) -> None:
        """`on_fetched(cast, fetch, is_whole)`: all lists arrived, or the time is over."""
        super().__init__(state)
        self._holder, self._on_fetched = holder, on_fetched
        self.open: dict[CastId, Fetch] = {}
        self._casts: dict[CastId, tuple[CastId, bool]] = {}
        """In a signed network, by the id used in the fetch: the cast, and whether entries are
        verified.
        """
        self._armed = False

    def start(self, cast: CastId, fetch: Fetch, verb: str, verified: bool = False) -> None:
        """Fetch all lists that `verb` needs; `verified`: use only entries whose owner's signature
        verifies.
        """
        if len(self.open) >= FETCHES_MAX:
            self.host.deliver(Refused(verb, f"{FETCHES_MAX} fetches are under way already"))
            return
        asked = cast
        if self._state.proofs.signed:  # a random id, which only nodes on the path of the fetch know
            asked = CastId(cast.publisher, self.host.rng.getrandbits(INCARNATION_BITS), cast.serial)
            self._casts[asked] = cast, verified
        self.open[asked] = fetch
        self._send_out(asked, fetch)

    def _send_out(self, cast: CastId, fetch: Fetch) -> None:
        missing = fetch.missing_ranges()
        longest = max(len(values((each[2], each[3]))) for _, each in missing)
        fetch.try_again(
            self.host.now_us, min(longest, self._chord.nodes_estimate()) if longest > 1 else 1
        )
        if self._ring.state == IN:
            for range_number, (namespace, attribute, low, high, walks) in missing:
                key = self._state.key_of(attribute, low)
                ends = (low, high, cast, self.address, walks, False, fetch.counts)
                self._holder.on_request(
                    self.address, FetchLists(key, range_number, namespace, attribute, *ends)
                )
        self._arm()

    def _arm(self) -> None:
        if not self._armed and self.open and self._state.settings.lease_us:
            self._armed = True
            self.host.after(RETRY_CHECK_US, FetchRetry())

    @handles(FetchRetry)
    def on_fetch_retry(self, alarm: FetchRetry) -> None:
        self._armed = False
        for cast, fetch in list(self.open.items()):
            if fetch.due_us > self.host.now_us:
                continue
            if self.host.now_us > fetch.since_us + FETCH_MAX_US:
                self._close(cast, False)
            else:
                detour = 1 + int(self.host.rng.random() * 2)
                self._chord.set_detour(detour if fetch.attempts >= DETOUR_FROM else 0)
                self._send_out(cast, fetch)
        self._chord.set_detour(0)
        self._arm()

    @handles(ListsFetched)
    def on_lists_fetched(self, sender: Address, answer: ListsFetched) -> None:
        fetch, proofs = self.open.get(answer.cast), self._state.proofs
        if fetch is None:
            return
        if proofs.signed and answer.range_number < len(fetch.ranges):
            namespace, attribute, *_ = fetch.ranges[answer.range_number]
            about = (namespace, attribute, answer.low), self._casts[answer.cast][1]
            plain = proofs.unwrap(answer.found, *about)
            answer = replace(answer, found=plain, silent=proofs.unwrap(answer.silent, *about))
        if fetch.add_answer(answer):
            fetch.note_whole(self.host.now_us)
            self._close(answer.cast, True)

    def _close(self, asked: CastId, is_whole: bool) -> None:
        self._on_fetched(self._casts.pop(asked, (asked, False))[0], self.open.pop(asked), is_whole)
