"""Coverage: which regions of an overlay a peer owes a report for, and what is known of them.

Theory of operation. A cast spreads from peer to peer. A peer that accepts it for some *regions*
(arcs of a ring, sides of a tree) owes its requester one report. It answers for the regions in which
it stands itself, and passes the others on to *children*, peers that owe it a report in turn. So
responsibility never ends at a peer that may crash with it, and the root of the tree, the publisher,
learns how many members were reached without a message of its own.

State: a `Coverage` for each cast and requester, with the tally of what is known, the children that
have not ended, and the regions that wait because no peer can be asked for them now. `Coverages` are
those of one peer.

Invariants:
- every region of a coverage is exactly one of: answered for here, with a child, waiting, counted in
  a final report, or counted as uncertain;
- of each child one final report counts. A child has an id of its own for each attempt, so that a
  report to an older attempt finds no child;
- `expected = notified + declined + unreachable + full + held + open`. Regions whose members are not
  known stand outside this sum, in `uncertain`, and their number counts regions, not members.

| state of a region | event | next state |
|---|---|---|
| new | `split` names it as own | answered for by `local` |
| new | `split` names a next peer | child (`pass_on`) |
| new | `split` finds no peer for it | waiting (`wait`) |
| child | report with open members | child; the newest report counts |
| child | final report | counted |
| child | lost: no answer, suspected, refused | new: split again, around the lost peer |
| waiting | `retry`: a neighbour has changed, or time has passed | new |
| new, child, waiting | past `until_us`, or given up | uncertain |

A coverage is complete when it has no child without a final report, nothing that waits, and no open
member. Its design then sends the report, once, and repeats it when it is asked again.

A *value* may travel with the tally: an element of a commutative monoid (`combining.py`). Since each
final report counts once, it combines each member's answer once, whatever the tree and however often
messages were repeated.

A design supplies a `Carrier`. This module sends nothing, knows no time but `now_us`, and keeps no
alarm.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from implicast.casting.combining import Value, combined
from implicast.casting.inbox import Outcome
from implicast.peer.contract import Name

SILENT_MAX = 64
"""Unreachable members that a tally names."""
NEVER_US = 1 << 62
"""Deadline of a coverage that its requester ends."""

Region = TypeVar("Region")


@dataclass(slots=True)
class CastTally:
    """What became of the members that a cast selects."""

    open: int = 0
    notified: int = 0
    declined: int = 0
    unreachable: int = 0
    silent: tuple[Name, ...] = ()
    """Names of some of the unreachable members."""
    uncertain: int = 0
    """Regions whose members are not known."""
    full: int = 0
    """Members without room for the cast."""
    held: int = 0
    """Absent members for which the cast is kept."""
    value: Value | None = None
    """The answers of the notified members, combined."""

    @property
    def expected(self) -> int:
        """Members that are selected."""
        reached = self.notified + self.declined + self.unreachable
        return reached + self.full + self.held + self.open

    def add(self, other: "CastTally") -> None:
        """Add what is known of other members."""
        self.open += other.open
        self.notified += other.notified
        self.declined += other.declined
        self.unreachable += other.unreachable
        self.uncertain += other.uncertain
        self.full += other.full
        self.held += other.held
        if other.silent:
            self.silent = (*self.silent, *other.silent)[:SILENT_MAX]
        if other.value is not None:
            self.value = combined(self.value, other.value)

    def count(self, outcome: Outcome | None, name: Name = b"") -> None:
        """Count the outcome at one open member; None: the member with this name never answered."""
        self.open -= 1
        if outcome in (Outcome.TAKEN, Outcome.REPEAT):
            self.notified += 1
        elif outcome in (None, Outcome.EXPIRED):
            self.unreachable += 1
            if len(self.silent) < SILENT_MAX and name:
                self.silent = (*self.silent, name)
        elif outcome not in (Outcome.ELSEWHERE, Outcome.UNSELECTED):
            self.declined += 1

    def add_known(self, notified: int, unreachable: int) -> None:
        """Add members whose outcome is known."""
        self.notified += notified
        self.unreachable += unreachable

    def mark_uncertain(self) -> None:
        """The members of the one region that this counts are not all known."""
        self.uncertain = 1

    def add_uncertain(self, regions: int) -> None:
        """The members of so many more regions are not known."""
        self.uncertain += regions


def total(tallies: Iterable[CastTally]) -> CastTally:
    """The sum of several tallies."""
    found = CastTally()
    for each in tallies:
        found.add(each)
    return found


@dataclass(slots=True, eq=False)
class Child(Generic[Region]):
    """Regions that another peer owes a report for."""

    to: Any
    """The peer, as the design names it."""
    regions: tuple[Region, ...]
    report: CastTally | None = None
    """Its newest report."""

    @property
    def is_open(self) -> bool:
        return self.report is None or self.report.open > 0

    def set_report(self, report: CastTally) -> None:
        self.report = report


@dataclass(slots=True, eq=False)
class Coverage(Generic[Region]):
    """One cast over some regions, for one or more requesters. Designs add fields of their own."""

    until_us: int = NEVER_US
    """After this time open regions count as uncertain."""
    here: CastTally = field(default_factory=CastTally)
    """Of the members that this peer answers for, and of regions given up."""
    children: dict[Hashable, Child[Region]] = field(default_factory=dict)
    waiting: tuple[Region, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a region may still be reported on."""
        if self.waiting:
            return True
        for each in self.children.values():  # noqa: SIM110 - a loop takes half of the time of `any`
            if each.report is None or each.report.open:
                return True
        return False

    def tally(self, without: Hashable = None) -> CastTally | None:
        """All that is known, without the regions of one child; None while another child has not
        reported at all.
        """
        found = total((self.here,))
        for id_, each in self.children.items():
            if id_ != without:
                if each.report is None:
                    return None
                found.add(each.report)
        return found

    def set_here(self, tally: CastTally) -> None:
        """A tally that changes as the members answer for whom this peer answers."""
        self.here = tally

    def check_value(self, report: CastTally) -> None:
        """`RemoteError` if the value of a report does not combine with the others."""
        if report.value is not None:
            for each in (self.here, *[child.report for child in self.children.values()]):
                combined(report.value, each.value if each is not None else None)

    def take_waiting(self) -> tuple[Region, ...]:
        waiting, self.waiting = self.waiting, ()
        return waiting

    def set_waiting(self, regions: tuple[Region, ...]) -> None:
        self.waiting += regions


class Split(NamedTuple, Generic[Region]):
    """Where regions lead from one peer."""

    own: tuple[Region, ...]
    """Those in which this peer stands itself."""
    onward: Sequence[tuple[Any, tuple[Region, ...]]]
    """By next peer, the regions to pass on to it."""
    waiting: tuple[Region, ...] = ()
    """Those for which no peer can be asked now."""


Cover = TypeVar("Cover", bound=Coverage[Any])


CoverIn = TypeVar("CoverIn", bound=Coverage[Any], contravariant=True)


class Carrier(Protocol[CoverIn, Region]):
    """What a design supplies. No method re-enters `Coverages`, but `changed`."""

    def split(self, coverage: CoverIn, regions: tuple[Region, ...]) -> Split[Region]:
        """Divide regions among this peer and its next peers."""

    def local(self, coverage: CoverIn, regions: tuple[Region, ...]) -> None:
        """Notify the members that this peer answers for; their outcomes go to `coverage.here`."""

    def pass_on(self, coverage: CoverIn, to: Any, regions: tuple[Region, ...]) -> Hashable:
        """Ask another peer to cover regions, until it reports. Returns an id that no other attempt
        has; None if there is no room for the request.
        """

    def stop(self, child: Hashable) -> None:
        """Ask this child no longer."""

    def wait(self, coverage: CoverIn) -> None:
        """Call `retry` later: regions wait."""

    def changed(self, coverage: CoverIn) -> None:
        """More is known of a coverage; it may be complete."""


class Coverages(Generic[Cover, Region]):
    """The coverages of one peer that are under way, by child."""

    __slots__ = ("_carrier", "_now_us", "children")

    def __init__(self, carrier: Carrier[Cover, Region], now_us: Callable[[], int]) -> None:
        self._carrier, self._now_us = carrier, now_us
        self.children: dict[Hashable, Cover] = {}
        """By child that has not ended, the coverage that it belongs to."""

    def cover(self, coverage: Cover, regions: tuple[Region, ...]) -> None:
        """Answer for the own part of regions, and pass the rest on."""
        if self._now_us() > coverage.until_us:
            coverage.here.add_uncertain(len(regions))
            self.give_up(coverage)
            return
        split = self._carrier.split(coverage, regions)
        if split.own:
            self._carrier.local(coverage, split.own)
        for to, part in split.onward:
            child = self._carrier.pass_on(coverage, to, part)
            if child is None:
                coverage.here.add_uncertain(len(part))
            else:
                self.children[child] = coverage
                coverage.children[child] = Child(to, part)
        if split.waiting:
            coverage.set_waiting(split.waiting)
            self._carrier.wait(coverage)
        self._carrier.changed(coverage)

    def child(self, child: Hashable) -> tuple[Cover, Child[Region]] | None:
        """A child that has not ended, and its coverage."""
        coverage = self.children.get(child)
        return None if coverage is None else (coverage, coverage.children[child])

    def report(self, child: Hashable, tally: CastTally) -> None:
        """A child reports. Without open members the report is final."""
        coverage = self.children.get(child)
        if coverage is not None:
            if tally.value is not None:
                coverage.check_value(tally)
            coverage.children[child].set_report(tally)
            if not tally.open:
                del self.children[child]
                self._carrier.stop(child)
            self._carrier.changed(coverage)

    def lose(self, child: Hashable) -> None:
        """A child will not report: split its regions again."""
        coverage = self.children.pop(child, None)
        if coverage is not None:
            self._carrier.stop(child)
            self.cover(coverage, coverage.children.pop(child).regions)

    def lose_peer(self, to: Any) -> None:
        """All children at one peer will not report."""
        lost = [id_ for id_, each in self.children.items() if each.children[id_].to == to]
        for child in lost:
            self.lose(child)

    def retry(self, coverage: Cover) -> None:
        """Try the waiting regions again."""
        self.cover(coverage, coverage.take_waiting())

    def give_up(self, coverage: Cover) -> None:
        """Count all open regions as uncertain."""
        coverage.here.add_uncertain(len(coverage.take_waiting()))
        for regions in self._stop_children(coverage):
            coverage.here.add_uncertain(len(regions))
        self._carrier.changed(coverage)

    def drop(self, coverage: Cover) -> None:
        """Forget a coverage without a report: its requesters ask again, here or elsewhere."""
        coverage.take_waiting()
        self._stop_children(coverage)

    def _stop_children(self, coverage: Cover) -> list[tuple[Region, ...]]:
        """Ask the open children no longer. Returns their regions."""
        stopped = [id_ for id_ in coverage.children if self.children.pop(id_, None) is not None]
        for child in stopped:
            self._carrier.stop(child)
        return [coverage.children.pop(child).regions for child in stopped]
