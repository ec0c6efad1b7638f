"""The reader's side of replicated lists: fetches the lists of a cast until all have arrived.

A list that does not arrive is fetched again over another route. After 14 attempts, about 90 s, the
cast has failed.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from implicast.casting.replicated_lists.holder import ListHolder
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.messages import PARTS_MAX, FetchLists, ListsFetched
from implicast.casting.replicated_lists.own_entry import (
    HOP_US,
    RETRY_CHECK_US,
    ListRange,
    ValueRange,
    overlap,
    values,
    without,
)
from implicast.language.target import Scalar
from implicast.overlay.links.state import IN
from implicast.peer.contract import INCARNATION_BITS, Address, CastId, Message, handles
from implicast.peer.events import Refused

WAIT_US = 1_500_000
WAIT_MAX_US = 6_000_000
"""First and longest wait; doubled in between."""
FETCH_TRIES_MAX = 14
"""Attempts to fetch the lists of one cast, over about 90 s."""
FETCHES_MAX = 4_096
"""Casts with fetches under way; further ones are refused."""


class Fetch:
    """The lists of one cast, by range: entries received, and ranges missing. `about` is for the
    design's own use.
    """

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

    def __init__(self, about: Any, ranges: Sequence[ListRange], counts: bool = False) -> None:
        """`counts`: fetch only the number of entries."""
        self.about, self.ranges, self.counts = about, ranges, counts
        self.lists: list[list[Any]] = [[] for _ in ranges]
        self._missing: list[list[ValueRange]] = [[(low, high)] for _, _, low, high, _ in ranges]
        self._parts: dict[tuple[int, Scalar], dict[int, Sequence[Any]]] = {}
        self._wait_us, self.attempts, self.due_us = WAIT_US, 0, 0

    def add_answer(self, answer: ListsFetched) -> bool:
        """Add one part of an answer; return True when nothing is missing."""
        range_number, answered = answer.range_number, (answer.low, answer.high)
        is_asked = (
            range_number < len(self.ranges)
            and overlap(answered, self.ranges[range_number][2:4]) == answered
        )
        if not is_asked or not answer.part < answer.parts <= PARTS_MAX:
            return False
        so_far = self._parts.setdefault((range_number, answer.low), {})
        so_far[answer.part] = answer.found
        if len(so_far) < answer.parts:
            return False
        del self._parts[range_number, answer.low]
        left = [part for each in self._missing[range_number] for part in without(each, *answered)]
        if left != self._missing[range_number]:
            found = [entry for _, each in sorted(so_far.items()) for entry in each]
            self.lists[range_number] += [answer.count] if self.counts else found
            self._missing[range_number] = left
        return not any(self._missing)

    def missing_ranges(self) -> list[tuple[int, ListRange]]:
        """Return the missing ranges, each with its range number."""
        return [
            (range_number, (namespace, attribute, *value_range, walks))
            for range_number, (namespace, attribute, _, _, walks) in enumerate(self.ranges)
            for value_range in self._missing[range_number]
        ]

    def try_again(self, now_us: int, hops: float) -> None:
        """Note an attempt now; the next one waits longer, by `HOP_US` for each of `hops`."""
        self.due_us = now_us + self._wait_us + int(HOP_US * hops)
        self._wait_us = min(WAIT_MAX_US, 2 * self._wait_us)
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
        """`on_fetched(cast, fetch, is_whole)`: all lists arrived, or attempts are used up."""
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
            if fetch.attempts >= FETCH_TRIES_MAX:
                self._close(cast, False)
            else:
                self._chord.set_detour(int(self.host.rng.random() * 3))
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
            plain = proofs.unwrap(
                answer.found, (namespace, attribute, answer.low), self._casts[answer.cast][1]
            )
            answer = replace(answer, found=plain)
        if fetch.add_answer(answer):
            self._close(answer.cast, True)

    def _close(self, asked: CastId, is_whole: bool) -> None:
        self._on_fetched(self._casts.pop(asked, (asked, False))[0], self.open.pop(asked), is_whole)
