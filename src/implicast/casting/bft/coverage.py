"""The share of a multicast that one step makes a member responsible for, and its report.

Not the coverage of `casting/coverage.py`: there each region has one child, which is split again
when it is lost. Here each member has k senders and reports to the one whose step comes first, so a
sender does not know which members a step of its own will report; a lost step is not split again,
since k-1 others serve the same members; and a member is unreachable only if k senders say so.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Address, CastId, Message, Name
from implicast.peer.events import Settled
from implicast.peer.fields import COUNT_MAX, Count, Flag, Token
from implicast.peer.identity import Key

SILENT_MAX = 64
"""Members out of reach named in one report; further ones are only counted."""

Step = tuple[Address, int, int, bytes]
"""A step: the peer at the other end, the query, the level, the key of the forwarding place."""


class CastHopAck(Message):
    """Acknowledges a step: all places of the receiver that it is for have the message. To the
    parent it also carries the outcome at the receiver and below.
    """

    wire = 0x0C03
    reports_notices = True
    cast: CastId
    query: Token
    level: Flag
    place: Key
    """The key of the forwarding place."""
    open: bool = False
    """True while steps that the receiver sent on are unacknowledged: a final acknowledgement
    follows.
    """
    taken: Count = 0
    declined: Count = 0
    missed: Count = 0
    silent: Annotated[tuple[Name, ...], Meta(max_length=SILENT_MAX)] = ()
    uncertain: Count = 0
    """Key ranges below whose members are not known."""


@dataclass(slots=True)
class CoverageNode:
    """The share of a multicast that one incoming step makes this peer responsible for: its open
    outgoing steps, and the sum of what closed ones reported.
    """

    cast: CastId
    query: int
    parent: Step | None
    """The step to report to; None for an own cast."""
    counts: bool = True
    """Whether reports of outgoing steps are added up."""
    open: int = 0
    lost: int = 0
    """Steps to members outside the range that were never acknowledged; which members they should
    have reached is unknown.
    """
    taken: int = 0
    declined: int = 0
    missed: int = 0
    """Members that refused the cast because it has expired."""
    silent: tuple[Name, ...] = ()
    """Members that left a step unacknowledged, once for each such step. A member has k senders: it
    is unreachable if none of them got an acknowledgement.
    """
    uncertain: int = 0
    """Key ranges whose members are not known."""

    def count(
        self,
        taken: int = 0,
        declined: int = 0,
        missed: int = 0,
        silent: tuple[Name, ...] = (),
        uncertain: int = 0,
    ) -> None:
        """Add the outcome of members, or of a step."""
        named = (*self.silent, *silent)
        self.taken, self.declined = self.taken + taken, self.declined + declined
        self.missed, self.silent = self.missed + missed, named[:SILENT_MAX]
        self.uncertain += uncertain + max(0, len(named) - SILENT_MAX)

    def step(self, more: int, is_lost: bool = False) -> None:
        """Add to the number of open steps; a closed one may have been lost."""
        self.open += more
        self.lost += is_lost

    def report(self, level: int, place: bytes) -> CastHopAck:
        """The acknowledgement of the parent's step."""
        uncertain = self.uncertain + self.lost + (not self.counts)
        return CastHopAck(
            self.cast,
            self.query,
            level,
            place,
            bool(self.open),
            min(COUNT_MAX, self.taken),
            min(COUNT_MAX, self.declined),
            min(COUNT_MAX, self.missed),
            self.silent,
            min(COUNT_MAX, uncertain),
        )


def receipt(
    cast: CastId, coverages: Collection[CoverageNode], senders: int, is_exact: bool
) -> Settled:
    """The receipt of a cast over all its multicasts.

    A member that some of its senders reached may be reached by all others, which count it. In a
    small ring a member has fewer senders than k, so it is not known. If the target does not select
    every member in range (`is_exact`), a silent one may not be selected.
    """
    silent, doubtful = dict[Name, None](), dict[Name, None]()
    total = CoverageNode(cast, 0, None, uncertain=0 if coverages else 1)
    for each in coverages:
        total.count(each.taken, each.declined, each.missed, (), each.uncertain + each.lost)
        for name, count in Counter(each.silent).items():
            (silent if is_exact and count >= senders else doubtful)[name] = None
    names = tuple([name for name in silent if name not in doubtful])
    return Settled(
        cast,
        total.taken,
        total.missed + len(names),
        total.declined,
        0,
        names[:SILENT_MAX],
        total.uncertain + len(doubtful),
    )
