"""The receiver's checks, 1 to 6, each refusal under its own name.

    1   certificates and signatures     forged_certificate, expired_certificate, revoked_certificate,
                                        forged_source, forged_hop, misattributed, malformed
    2   level = cpl(v, w) < start,      wrong_level
        or straight from the source
    3   w takes part at that level,     unconcerned
        by its own list
    4   w has such a level              too_high
    5   level = min(cpl(s, w), start)   out_of_step
    6   not met before                  repeated, stale, premature, flooding, equivocation

Check 5 is ours: with the others alone, a liar may hand the genuine message on early and at too low a level, and
the receiver, having met it, skips its duties in between. Check 6 is asked first, because it is cheap and most copies
are repeats; it only ever refuses what has passed all others before.
Checks can be left out one by one, in test builds, to show what each is good for.

Check 6 has a table of which multicasts were met: bounded memory, and no replay after forgetting. A message carries its
time. Older than the window, it is refused; so what the table forgets after the window cannot come back. Every publisher
has its own share of the table, from however many places it casts, and its own *horizon*: when the table is full all the
same (a flood by many), the oldest of the publisher with the most goes, and that publisher's horizon moves up to its
time: whatever of it is not younger is refused from then on. So a full table hurts those who fill it, and nobody moves
the horizon of another. What weighs more (a long payload) counts for more.
"""

from collections import Counter, deque
from typing import Generic, TypeVar

from implicast.casting.bft.messages import CastHop, Source, hop_body
from implicast.casting.bft.multicast import Halves, concerned
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.contract import Name
from implicast.peer.identity import Certificate, Trust
from implicast.peer.memory import Recent
from implicast.space.vector import Vectors

ALL_CHECKS = frozenset(range(1, 7))
Query = tuple[int, bytes]
"""(q, key of s)."""
Entry = TypeVar("Entry")

WINDOW_US = 60_000_000
"""How long after its time a message may still arrive."""
SKEW_US = 5_000_000
"""How far clocks may differ."""
ENTRIES_MAX = 131_072
"""Of all publishers together."""
PER_PUBLISHER_MAX = 8_192
"""Multicasts of one publisher within the window: 136 a second on end, or as many in a burst."""
WEIGHT_BYTES = 1_024
"""A payload of so many bytes weighs as much as one entry more: 8 MiB of one publisher, 128 MiB of all."""
HORIZONS_MAX = 4_096
"""Publishers whose horizon is remembered; the first moved are forgotten first."""
TRIMMED = 8
"""Of the publisher with the most one in so many goes at a time: looking for it takes a walk through all."""


class Gate:
    """What one peer lets pass. `refusals` counts what it did not, by name."""

    __slots__ = ("checks", "halves", "refusals", "trust", "vectors")

    def __init__(
        self, trust: Trust, vectors: Vectors, halves: Halves, checks: frozenset[int] = ALL_CHECKS
    ) -> None:
        self.trust, self.vectors, self.halves, self.checks = trust, vectors, halves, checks
        self.refusals: Counter[str] = Counter()

    def refuse(self, flaw: str) -> None:
        self.refusals[flaw] += 1

    def source_flaw(self, source: Source, now_us: int) -> str | None:
        """Check 1, the source's half."""
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
        """Check 1, the forwarder's half. A level that is no level at all is refused with it."""
        if not 0 <= hop.level <= self.vectors.length:
            return "wrong_level"
        if 1 not in self.checks:
            return None
        flaw, body = self.trust.flaw(hop.forwarder, now_us), hop_body(hop.source, hop.level)
        if flaw is None and not self.trust.signed(hop.forwarder, body, hop.signature):
            return "forged_hop"
        return flaw

    def place_flaw(self, hop: CastHop, table: LevelTable[Certificate]) -> str | None:
        """Checks 2 to 5, for one of our places."""
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
            and not concerned(table, level, source.arc, self.halves)
        ):
            return "unconcerned"
        return None


def _well_formed(source: Source) -> bool:
    """A liar can sign nonsense: handles that no term has."""
    terms = source.target.terms
    if len(source.handles) != len(terms) or source.start < 0:
        return False
    chosen = zip(terms, source.handles, strict=True)
    return all(0 <= index < max(1, len(term.has) + len(term.where)) for term, index in chosen)


class SeenTable(Generic[Entry]):
    """What was met, by (q, key of s), with an entry of the owner's."""

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
        self._order: deque[tuple[int, Query, Name]] = deque()  # kept until, query, publisher
        self._theirs: dict[Name, deque[tuple[int, Query, int]]] = {}
        """By publisher: the time, query and weight of each; the first come first."""
        self._weights: dict[Name, int] = {}
        self._weight = 0
        self._horizons: Recent[Name, int] = Recent(HORIZONS_MAX)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, query: Query) -> Entry | None:
        return self._entries.get(query)

    def flaw(self, publisher: Name, sent_us: int, now_us: int) -> str | None:
        """Why a message that was not met before must be refused, or None."""
        if sent_us > now_us + SKEW_US:
            return "premature"
        if sent_us <= now_us - self.window_us or sent_us <= self._horizons.get(publisher, -1):
            return "stale"
        return "flooding" if self.is_full(publisher, now_us) else None

    def is_full(self, publisher: Name, now_us: int) -> bool:
        """Whether a publisher has used up its share."""
        self._forget(now_us)
        return self._weights.get(publisher, 0) >= self.per_publisher_max

    def record(
        self, query: Query, publisher: Name, sent_us: int, now_us: int, entry: Entry, size: int = 0
    ) -> None:
        """Note a multicast that was met; `size` is how many bytes are kept with it."""
        self._forget(now_us)
        weight = 1 + size // WEIGHT_BYTES
        self._entries[query] = entry
        self._theirs.setdefault(publisher, deque()).append((sent_us, query, weight))
        self._weights[publisher] = self._weights.get(publisher, 0) + weight
        self._weight += weight
        # Its time is at most SKEW_US ahead, so once this has passed it would be refused as stale.
        self._order.append((now_us + self.window_us + SKEW_US, query, publisher))
        while self._weight > self.entries_max:
            self._trim(max(self._weights, key=self._weights.__getitem__))

    def _trim(self, publisher: Name) -> None:
        """Forget the oldest of a publisher, and take nothing of it any more that is not younger."""
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
