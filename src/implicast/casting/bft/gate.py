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
"""

from collections import Counter

from implicast.casting.bft.messages import CastHop, Source
from implicast.casting.bft.multicast import Halves, concerned
from implicast.overlay.skip_graph.table import LevelTable
from implicast.peer.identity import Certificate, Trust
from implicast.space.vector import Vectors

ALL_CHECKS = frozenset(range(1, 7))


class Gate:
    """What one peer lets pass. `refusals` counts what it did not, by name."""

    __slots__ = ("checks", "halves", "refusals", "trust", "vectors")

    def __init__(self, trust: Trust, vectors: Vectors, halves: Halves, checks: frozenset[int] = ALL_CHECKS) -> None:
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
        flaw = self.trust.flaw(hop.forwarder, now_us)
        if flaw is not None:
            return flaw
        return None if self.trust.signed(hop.forwarder, hop.body(), hop.signature) else "forged_hop"

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
        if 3 in checks and level <= table.top and not concerned(table, level, source.arc, self.halves):
            return "unconcerned"
        return None


def _well_formed(source: Source) -> bool:
    """A liar can sign nonsense: handles that no term has."""
    terms = source.target.terms
    if len(source.handles) != len(terms) or source.start < 0:
        return False
    for term, chosen in zip(terms, source.handles, strict=True):
        if not 0 <= chosen < max(1, len(term.has) + len(term.where)):
            return False
    return True
