"""The rules of receipts, applied to what the journal shows of a cast.

A receipt may be late, but it is never false:

    notified        at most the notices taken by then. A member that returned with an old disk may
                    take a cast again, so notices are compared, not members
    exact           without churn, and if no member or region is missing, the number of notices
    complete        a final receipt without uncertain regions: every owed member was notified by
                    then, or is among declined and unreachable
    sum             notified, declined and unreachable together are at most the members that were
                    ever selected
    declined        at most the selected members that were not owed the cast: their description
                    changed, or they left. Not judged where peers limit the casts that they accept
    silent          a member that is named as unreachable was selected
    named           at least as many members are counted as unreachable as are named

The first four rules need only the journal, and the laboratory applies them with other code. In a
run without churn and faults a receipt also has no unreachable member and no uncertain region.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class CastReceipt:
    """The final receipt of a cast, with no delivery pending."""

    notified: int
    declined: int
    unreachable: int
    uncertain: int = 0
    """Regions whose members are not known. The receipt is complete only if it is 0."""


@dataclass(frozen=True, slots=True)
class ReceiptReport:
    """One receipt that a publisher was given at a time, final or not."""

    time_us: int
    receipt: CastReceipt
    open: int
    """Deliveries pending; 0: the receipt is final."""
    named: int = 0
    """Members that it names as unreachable."""

    def says_the_same(self, other: "ReceiptReport") -> bool:
        return replace(self, time_us=other.time_us) == other


@dataclass(frozen=True, slots=True)
class CastFacts:
    """What the journal shows of one cast."""

    made_us: int
    owed: Set[int]
    selected_us: Mapping[int, int]
    """By member that was ever selected, when it first asked for a description that is."""
    notified_us: Mapping[int, int]
    """By notified member, the time of its first notice."""
    times_us: Sequence[int]
    """Times of all notices, repeated ones included."""

    def notices_by(self, time_us: int) -> int:
        return sum(self.made_us <= each <= time_us for each in self.times_us)

    def missing_at(self, time_us: int) -> int:
        """Owed members that were not notified by a time."""
        missing = len(self.owed - self.notified_us.keys())
        if self.times_us and max(self.times_us) > time_us:
            missing += sum(self.notified_us.get(peer, 0) > time_us for peer in self.owed)
        return missing

    def selected_by(self, time_us: int) -> int:
        return sum(asked_us <= time_us for asked_us in self.selected_us.values())

    def repeated_by(self, time_us: int) -> int:
        """Notices by a time beyond the first of each member."""
        first = sum(each <= time_us for each in self.notified_us.values())
        return self.notices_by(time_us) - first


def falsehood(facts: CastFacts, report: ReceiptReport, exact: bool) -> str | None:
    """Why a receipt is false by the rules that need only the journal; None: it is true."""
    receipt, now_us = report.receipt, report.time_us
    taken = facts.notices_by(now_us)
    if receipt.notified > taken:
        return f"it claims {receipt.notified} notified, and {taken} notices were taken"
    if receipt.declined or receipt.unreachable:
        counted = receipt.notified + receipt.declined + receipt.unreachable
        selected = facts.selected_by(now_us)
        if counted > selected + facts.repeated_by(now_us):
            return f"it counts {counted} members, and {selected} were ever selected"
    if report.open or receipt.uncertain:
        return None
    missing, admitted = facts.missing_at(now_us), receipt.declined + receipt.unreachable
    if missing > admitted:
        return f"it is complete with {admitted} not notified, and {missing} owed were missing"
    if exact and not receipt.unreachable and receipt.notified < taken:
        return f"it claims {receipt.notified} notified, and {taken} notices were taken"
    return None


def overcounts(facts: CastFacts, receipt: CastReceipt) -> str | None:
    """Why a receipt has too many declined; None: it has not."""
    may_decline = len(facts.selected_us.keys() - facts.owed)
    if receipt.declined > may_decline:
        return f"{receipt.declined} declined, and {may_decline} had a reason to"
    return None
