"""Reads of lists: a holder answers for its own values, a publisher fetches the lists of its casts.

A list that does not arrive is fetched again over two routes, and a range of lists in pieces. What
has not arrived after `FETCH_MAX_US` is an uncertain region of the cast.

| fetch | event | next |
|---|---|---|
| - | `start` | open: one `FetchLists` for each range |
| open | `ListsFetched`, something is missing | open |
| open | `ListsFetched` with the last missing part | whole: `on_fetched` |
| open | a wait has passed | open: what is missing is requested again |
| open | `FETCH_MAX_US` have passed | partial: `on_fetched`; what is missing is uncertain |
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from implicast.casting.replicated_lists.entries import (
    PARTS_MAX,
    Found,
    ListRange,
    Part,
    RingKey,
    Scalar,
    Slot,
)
from implicast.casting.replicated_lists.holder_state import HolderPart, HolderState
from implicast.casting.replicated_lists.settings import HOP_US, LINGER_US, RETRY_CHECK_US
from implicast.overlay.links.state import IN
from implicast.peer.contract import (
    INCARNATION_BITS,
    Address,
    CastId,
    Contact,
    Message,
    Name,
    handles,
)
from implicast.peer.events import Refused
from implicast.peer.fields import Count, Text, Token
from implicast.peer.handoff import in_parts
from implicast.space.steps import ValueRange, in_pieces, overlap, values, without

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
WAITING_MAX = 4_096
"""Reads queued at a joining node until it has the entries that it owns."""
LIST_ITEMS = 4_096
"""Entries in one message: whole registrations stay below 1 MB."""

Number = Annotated[int, Meta(ge=0, le=(1 << 16) - 1)]


class FetchLists(Message):
    """Read the lists of the values low..high. Goes from holder to holder as `PutEntry` does; each
    holder answers for its own values. `range_number` identifies the range within one cast.
    `counts`: return only the number of entries.
    """

    wire = 0x0614
    key: RingKey
    range_number: Number
    namespace: Text
    attribute: Text
    low: Scalar
    high: Scalar
    cast: CastId
    origin: Address
    walks: bool
    walking: bool
    counts: bool = False


class ListsFetched(Message):
    """Answer to `FetchLists`: the entries of the values low..high, part `part` of `parts`; or only
    their `count`.
    """

    wire = 0x0615
    cast: CastId
    range_number: Number
    low: Scalar
    high: Scalar
    part: Part
    parts: Part
    found: Annotated[tuple[Found, ...], Meta(max_length=1 << 16)]
    count: Token = 0
    silent: Annotated[tuple[Found, ...], Meta(max_length=1 << 16)] = ()
    """Entries that were removed because their owner is silent."""
    uncertain: Count = 0
    """1 if entries of these lists were lost and may not have been put again."""


class FetchRetry(Message):
    """Fires while a fetch is under way."""


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
        self.lists: list[list[Any]] = []
        self.silent: list[list[Found]] = []
        """By range, the entries that holders removed because their owners are silent."""
        self._missing: list[list[ValueRange]] = []
        for _, _, low, high, _ in ranges:
            self.lists.append([])
            self.silent.append([])
            self._missing.append([(low, high)])
        self.uncertain = 0
        """Answers of holders that may lack entries."""
        self._parts: dict[tuple[int, Scalar, Scalar], dict[int, Sequence[Any]]] = {}
        self.attempts = self.due_us = self.since_us = 0

    def add_answer(self, answer: ListsFetched) -> bool:
        """Add one part of an answer; return True when nothing is missing."""
        at, answered = answer.range_number, (answer.low, answer.high)
        if at >= len(self.ranges) or not answer.part < answer.parts <= PARTS_MAX:
            return False
        asked = self.ranges[at][2:4]
        if answered != asked and overlap(answered, asked) != answered:
            return False
        found: Sequence[Any] = answer.found
        if answer.parts > 1:
            so_far = self._parts.setdefault((at, *answered), {})
            so_far[answer.part] = answer.found
            if len(so_far) < answer.parts:
                return False
            found = [entry for _, each in sorted(so_far.items()) for entry in each]
            del self._parts[at, *answered]
        self._take(at, answered, answer, found)
        return not any(self._missing)

    def _take(
        self, at: int, answered: ValueRange, answer: ListsFetched, found: Sequence[Any]
    ) -> None:
        """All parts of an answer have arrived."""
        missing = self._missing[at]
        left: list[ValueRange] = []
        if missing != [answered]:  # several values
            left = [part for each in missing for part in without(each, *answered)]
        if left != missing:
            self.lists[at] += [answer.count] if self.counts else found
            self._missing[at] = left
            self.silent[at] += answer.silent
            self.uncertain += answer.uncertain

    def close(self, is_whole: bool, now_us: int) -> None:
        """All lists have arrived, or the missing ones will not be fetched. If it took long, a member
        may have moved from one list to another in the meantime.
        """
        is_one = len(self.ranges) == 1 and self.ranges[0][2] == self.ranges[0][3]
        if not is_whole:
            self.uncertain += sum(map(len, self._missing))
        elif not is_one:
            self.uncertain += now_us > self.since_us + LINGER_US

    def has_silent(self) -> bool:
        """Whether holders removed entries of these lists because their owners are silent."""
        return any(self.silent)

    def silent_members(self, select: "Select") -> set[Name]:
        """Return the members that are selected, but whose entries were removed because they are
        silent.
        """
        if not self.has_silent():
            return set()
        every = [[*found, *gone] for found, gone in zip(self.lists, self.silent, strict=True)]
        return set(select(self, every)) - set(select(self, self.lists))

    def missing_ranges(self) -> list[tuple[int, ListRange]]:
        """Return the missing ranges, each with its range number; in pieces after an attempt."""
        pieces = PIECES if self.attempts and not self.counts else 1
        found: list[tuple[int, ListRange]] = []
        for number, (namespace, attribute, _, _, walks) in enumerate(self.ranges):
            for missing in self._missing[number]:
                for low, high in in_pieces(missing, pieces) if pieces > 1 else (missing,):
                    found.append((number, (namespace, attribute, low, high, walks)))
        return found

    def try_again(self, now_us: int, hops: float) -> None:
        """Note an attempt now; the next one waits longer by `HOP_US` for each of `hops`."""
        self.since_us = self.since_us if self.attempts else now_us
        self.due_us = now_us + WAIT_US + int(HOP_US * hops)
        self.attempts += 1


Select = Callable[[Fetch, Sequence[Sequence[Found]]], Mapping[Name, Contact]]
"""The members that the target of a fetch selects in these lists."""
OnFetched = Callable[[CastId, Fetch, bool], None]


class Reads(HolderPart):
    """All fetches of one peer, and its answers to those of others."""

    __slots__ = ("_armed", "_casts", "_latest", "_on_fetched", "_waiting", "open")

    def __init__(self, state: HolderState, on_fetched: OnFetched) -> None:
        """`on_fetched(cast, fetch, is_whole)`: all lists arrived, or the time is over."""
        super().__init__(state)
        self._on_fetched, self._armed = on_fetched, False
        self.open: dict[CastId, Fetch] = {}
        self._casts: dict[CastId, tuple[CastId, bool]] = {}
        """In a signed network, by the id used in the fetch: the cast, and whether entries are
        verified.
        """
        self._waiting: list[tuple[Address, FetchLists]] = []
        self._latest: tuple[int, list[Slot], list[Found]] = (-1, [], [])
        """The last answer, for reuse: change counter of the table, lists read, entries found."""

    # The reader

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
        missing, longest = fetch.missing_ranges(), 1
        for _, (_, _, low, high, _) in missing:
            if low != high:
                longest = max(longest, len(values((low, high))))
        nodes = self._chord.nodes_estimate() if longest > 1 else longest
        fetch.try_again(self.host.now_us, min(longest, nodes))
        if self._ring.state == IN:
            for number, (namespace, attribute, low, high, walks) in missing:
                key = self._state.key_of(attribute, low)
                ends = (low, high, cast, self.address, walks, False, fetch.counts)
                self.on_fetch(self.address, FetchLists(key, number, namespace, attribute, *ends))
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
            self._close(answer.cast, True)

    def _close(self, asked: CastId, is_whole: bool) -> None:
        fetch = self.open.pop(asked)
        fetch.close(is_whole, self.host.now_us)
        self._on_fetched(self._casts.pop(asked, (asked, False))[0], fetch, is_whole)

    # The holder

    @handles(FetchLists)
    def on_fetch(self, sender: Address, fetch: FetchLists) -> None:
        if self.goes_on(sender, fetch):
            return
        for request, own in self.owned_parts(fetch):
            if not self._state.is_ready:
                if len(self._waiting) < WAITING_MAX:
                    self._waiting.append((sender, request))
                return
            self._answer(request, own)

    def serve_waiting(self) -> None:
        """Serve the reads that waited until this node had the entries that it owns."""
        waiting, self._waiting = self._waiting, []
        for sender, request in waiting:
            self.on_fetch(sender, request)

    def _answer(self, request: FetchLists, own: list[tuple[int, Scalar]]) -> None:
        """Answer a read for all own values, in as many parts as needed; an empty list is an answer
        too.
        """
        entries, keys, slots = self._state.entries, [], []
        for key, value in own:
            keys.append(key)
            slots.append((request.namespace, request.attribute, value))
        head = (request.cast, request.range_number, request.low, own[-1][1])
        if request.counts:
            count = sum(len(entries.listed(slot)) for slot in slots)
            self._send_answer(request.origin, ListsFetched(*head, 0, 1, (), count))
            return
        changes, asked, found = self._latest
        if changes != entries.changes or asked != slots:  # popular lists are read repeatedly
            found = []
            for slot in slots:
                found += [(one.owner, one.number, one.packed) for one in entries.listed(slot)]
            self._latest = entries.changes, slots, found
        silent: tuple[Found, ...] = ()
        if entries.silent:
            removed = entries.silent_in(slots, self.host.now_us)[:LIST_ITEMS]
            silent = tuple([(entry.owner, entry.number, entry.packed) for entry in removed])
        more = 0, silent, int(self._state.may_lack(keys))
        is_one = len(found) <= LIST_ITEMS
        for part in ((0, 1, tuple(found)),) if is_one else in_parts(found, LIST_ITEMS):
            self._send_answer(request.origin, ListsFetched(*head, *part, *more))

    def _send_answer(self, to: Address, answer: ListsFetched) -> None:
        if to == self.address:
            self.on_lists_fetched(to, answer)
        else:
            self.host.send(to, answer)
