"""The receiver's checks, 1 to 6 (paper, section 3.4). Each refusal has its own name.

    1   certificates and signatures     forged_certificate, expired_certificate,
                                        revoked_certificate, forged_source, forged_hop,
                                        misattributed, malformed
    2   level = cpl(v, w) < start,      wrong_level
        or straight from the source
    3   w takes part at that level,     unconcerned
        by its own list
    4   w has such a level              too_high
    5   level = min(cpl(s, w), start)   out_of_step
    6   not met before                  repeated, stale, premature, flooding, equivocation

s is the source, v the forwarder, w the receiver, cpl the number of leading vector digits in common.

Check 5 is not in the paper. Without it a liar can forward the genuine message early and at too low
a level; the receiver then treats the proper copy as a repeat and skips the levels in between. Check
6 runs first: it is cheap, most copies are repeats, and it refuses only what has passed the other
checks before. Test builds can switch checks off one by one, to show what each prevents.

Check 6 needs a table of multicasts seen. Its memory is bounded, and forgetting allows no replay: a
message carries its time and is refused when older than the window, so an entry may be dropped after
the window. Each publisher has its own share of the table, however many places it casts from, and
its own *horizon*. When the whole table is full, the oldest entries of the publisher with the most
go, and that publisher's horizon moves to their time: messages of it that are not newer are refused.
A flood thus harms only the publishers that cause it. Long payloads weigh more.
"""

from collections import Counter, deque
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from implicast.casting.bft.multicast import Halves, KeyRange, concerned
from implicast.language.target import Target
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import CastId, Message, Name
from implicast.peer.fields import Count, Flag, Micros, Payload, Token
from implicast.peer.identity import SKEW_US, Certificate, Key, Signature, Trust
from implicast.peer.memory import Recent
from implicast.space.vector import Vectors

ALL_CHECKS = frozenset(range(1, 7))
Query = tuple[int, bytes]
"""(q, key of s)."""
Entry = TypeVar("Entry")

TERMS_MAX = 1_024
"""Terms of one target (`language/limits.py`), each with its handle."""
WINDOW_US = 60_000_000
"""Maximum age of a message at arrival, by one clock."""
ENTRIES_MAX = 131_072
"""Total weight of all publishers' entries."""
PER_PUBLISHER_MAX = 8_192
"""Weight of one publisher's entries within the window: 136 multicasts a second, or all in a burst.
"""
WEIGHT_BYTES = 1_024
"""Each KiB of payload weighs as much as one more entry: 8 MiB for one publisher, 128 MiB in all."""
HORIZONS_MAX = 4_096
"""Publishers whose horizon is remembered; the one moved first is evicted first."""
TRIMMED = 8
"""A full table drops one in eight entries of the heaviest publisher, since finding it takes a scan.
"""
PROVEN_FAULTS = frozenset(
    {
        "forged_certificate",
        "forged_source",
        "forged_hop",
        "misattributed",
        "malformed",
        "wrong_level",
        "out_of_step",
        "equivocation",
        "flooding",
        "unconfirmed",
    }
)
"""Reasons that prove a fault of the sender: no honest member causes them, even if its lists are
out of date. `unconfirmed`: it is alive, but did not acknowledge a step for 42 s.
"""


_encode = msgspec.msgpack.Encoder().encode


class Source(Message):
    """The source part m_s (paper, section 3.4): signed once by the publisher, and forwarded
    unchanged.

    Not in the paper: the time, against replay, and the handles, which tell the range that stands
    for each term.
    """

    cast: CastId
    query: Token
    low: Key
    high: Key
    start: Flag
    sent_us: Micros
    target: Target
    handles: Annotated[tuple[Count, ...], Meta(max_length=TERMS_MAX)]
    payload: Payload
    certificate: Certificate
    signature: Signature

    @property
    def key_range(self) -> KeyRange:
        return KeyRange(self.low, self.high)

    @property
    def name(self) -> tuple[int, bytes]:
        """(q, key of s). With q alone, a liar could block a message by using its number first."""
        return self.query, self.certificate.key

    def body(self) -> bytes:
        """The bytes that the source signs: all fields but the signature."""
        fields = (
            self.cast,
            self.query,
            self.low,
            self.high,
            self.start,
            self.sent_us,
            self.target,
            self.handles,
        )
        return b"source" + _encode(
            (fields, self.payload, self.certificate.serial, self.certificate.key)
        )


class CastHop(Message):
    """One step: the source part at a level, signed by the forwarding place.

    It is for every place of the receiver that it concerns, so one message is signed for all
    receivers of a leg. The signature of the source stands for the whole source part.
    """

    wire = 0x0C02
    source: Source
    level: Flag
    forwarder: Certificate
    signature: Signature


def hop_body(source: Source, level: int) -> bytes:
    return b"hop" + source.signature + level.to_bytes(8, "big", signed=True)


class HopValidator:
    """The receiver's checks of one peer. `refusals` counts refused messages by reason."""

    __slots__ = ("checks", "halves", "refusals", "trust", "vectors")

    def __init__(
        self, trust: Trust, vectors: Vectors, halves: Halves, checks: frozenset[int] = ALL_CHECKS
    ) -> None:
        self.trust, self.vectors, self.halves, self.checks = trust, vectors, halves, checks
        self.refusals: Counter[str] = Counter()

    def refuse(self, flaw: str) -> None:
        self.refusals[flaw] += 1

    def source_flaw(self, source: Source, now_us: int) -> str | None:
        """Check 1 for the source part."""
        if 1 not in self.checks:
            return None
        certificate = source.certificate
        flaw = self.trust.flaw(certificate, now_us)
        if flaw is not None:
            return flaw
        if source.cast.publisher != certificate.name:
            return "misattributed"
        if not self.trust.signed(certificate, source.body(), source.signature):
            return "forged_source"
        return None if _well_formed(source) else "malformed"

    def hop_flaw(self, hop: CastHop, now_us: int) -> str | None:
        """Check 1 for the forwarder's part, and the range of the level."""
        if not 0 <= hop.level <= self.vectors.length:
            return "wrong_level"
        if 1 not in self.checks:
            return None
        flaw, body = self.trust.flaw(hop.forwarder, now_us), hop_body(hop.source, hop.level)
        if flaw is None and not self.trust.signed(hop.forwarder, body, hop.signature):
            return "forged_hop"
        return flaw

    def place_flaw(self, hop: CastHop, table: LevelTable[Certificate]) -> str | None:
        """Checks 2 to 5 for one own place."""
        source, level, checks = hop.source, hop.level, self.checks
        mine, common = table.owner.vector, self.vectors.common
        shared = common(source.certificate.vector, mine)
        if 2 in checks:
            direct = level == source.start and hop.forwarder.key == source.certificate.key
            if direct and level > shared:
                return "wrong_level"
            if not direct and not level == common(hop.forwarder.vector, mine) < source.start:
                return "wrong_level"
        if 5 in checks and level != min(shared, source.start):
            return "out_of_step"
        if 4 in checks and level > table.top:
            return "too_high"
        if (
            3 in checks
            and level <= table.top
            and not concerned(table, level, source.key_range, self.halves)
        ):
            return "unconcerned"
        return None


def _well_formed(source: Source) -> bool:
    """Whether each term has a handle that exists: a liar can sign nonsense."""
    terms = source.target.terms
    if len(source.handles) != len(terms) or source.start < 0:
        return False
    for term, index in zip(terms, source.handles, strict=True):
        if not 0 <= index < max(1, len(term.has) + len(term.where)):
            return False
    return True


class SeenTable(Generic[Entry]):
    """Multicasts seen, by (q, key of s), each with an entry of the owner's."""

    __slots__ = (
        "_entries",
        "_horizons",
        "_order",
        "_theirs",
        "_weight",
        "_weights",
        "entries_max",
        "per_publisher_max",
        "window_us",
    )

    def __init__(
        self,
        window_us: int = WINDOW_US,
        entries_max: int = ENTRIES_MAX,
        per_publisher_max: int = PER_PUBLISHER_MAX,
    ) -> None:
        self.window_us, self.entries_max, self.per_publisher_max = (
            window_us,
            entries_max,
            per_publisher_max,
        )
        self._entries: dict[Query, Entry] = {}
        self._order: deque[tuple[int, Query, Name]] = deque()  # time of expiry, query, publisher
        self._theirs: dict[Name, deque[tuple[int, Query, int]]] = {}
        """By publisher: time, query and weight of its multicasts, in order of arrival."""
        self._weights: dict[Name, int] = {}
        self._weight = 0
        self._horizons: Recent[Name, int] = Recent(HORIZONS_MAX)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, query: Query) -> Entry | None:
        return self._entries.get(query)

    def flaw(self, publisher: Name, sent_us: int, now_us: int) -> str | None:
        """Why a multicast not seen before must be refused, or None."""
        if sent_us > now_us + SKEW_US:
            return "premature"
        if sent_us <= now_us - self.window_us - SKEW_US or sent_us <= self._horizons.get(
            publisher, -1
        ):
            return "stale"
        return "flooding" if self.is_full(publisher, now_us) else None

    def is_full(self, publisher: Name, now_us: int) -> bool:
        """Whether a publisher has used up its share."""
        self._forget(now_us)
        return self._weights.get(publisher, 0) >= self.per_publisher_max

    def record(
        self, query: Query, publisher: Name, sent_us: int, now_us: int, entry: Entry, size: int = 0
    ) -> None:
        """Record a multicast; `size` is the number of bytes stored with it."""
        self._forget(now_us)
        weight = 1 + size // WEIGHT_BYTES
        self._entries[query] = entry
        self._theirs.setdefault(publisher, deque()).append((sent_us, query, weight))
        self._weights[publisher] = self._weights.get(publisher, 0) + weight
        self._weight += weight
        # A message may be dated SKEW_US ahead. After this time it would be refused as stale.
        self._order.append((now_us + self.window_us + 2 * SKEW_US, query, publisher))
        while self._weight > self.entries_max:
            self._trim(max(self._weights, key=self._weights.__getitem__))

    def _trim(self, publisher: Name) -> None:
        """Drop the oldest multicasts of a publisher, and move its horizon to their time."""
        theirs = self._theirs[publisher]
        for _ in range(max(1, len(theirs) // TRIMMED)):
            self._horizons.put(publisher, max(theirs[0][0], self._horizons.get(publisher, -1)))
            self._drop_oldest(publisher)

    def _forget(self, now_us: int) -> None:
        order = self._order
        while order and order[0][0] < now_us:
            _, query, publisher = order.popleft()
            theirs = self._theirs.get(publisher)
            if theirs and theirs[0][1] == query:  # else it was trimmed
                self._drop_oldest(publisher)

    def _drop_oldest(self, publisher: Name) -> None:
        theirs = self._theirs[publisher]
        _, query, weight = theirs.popleft()
        del self._entries[query]
        self._weight -= weight
        self._weights[publisher] -= weight
        if not theirs:
            del self._theirs[publisher], self._weights[publisher]
