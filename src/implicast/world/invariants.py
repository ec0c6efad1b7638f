"""The contract, checked from outside over the trace of a run.

    liveness             a cast notifies every member it selects whose registration was complete
    at most once         no member is notified twice of one cast
    no invention         a notified cast was made before
    only the selected    the target selects the registration of a notified member
    only the registered  a notified member had registered
    unaltered            the payload of a notice is that of the cast
    true receipts        the final receipt of a cast is true

A version of a description is possibly in force from when it was asked for until a later one is
complete. A member must be notified of a cast if a version was complete at the time of the cast and
the target selects every version possibly in force during the cast's flight. It may be notified if
the target selects one of them. The selection is computed here from posting lists of all versions;
it shares no code with any design.

Under churn, a member that crashed during a cast's flight need not be notified; a leaver has
withdrawn. A returned member is absent from its crash until the first registration of its new
incarnation is complete: until then a notice that fits its last description is allowed, and none is
required. A member that returns with an empty disk is another member with another number. One that
returns with an old copy of its disk has forgotten later notices and may get them again. A missing
notice is excused if the publisher was gone before it knew the outcome of the cast: crashed, or
leaving in a run with faults. A repeated, uninvited, invented or altered notice is never excused.

The rules of receipts are in `receipts.py`; what a design promises about time is checked by
`promises.py`.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from implicast.language.target import Description, Target, Term
from implicast.world.application import Cast, Registration
from implicast.world.notices import Notices as Notices
from implicast.world.receipts import CastFacts, ReceiptReport, falsehood

FLIGHT_US = 60_000_000
"""Longest flight of a cast. A change of description within this time allows both outcomes."""
LATE_US = 10_000_000
"""A notice later than this after its cast is late."""
NEVER_US = 1 << 62

Away = Mapping[int, Sequence[tuple[int, int]]]
"""By member, the intervals of its absence; `NEVER_US` as the end if it does not return."""


Forgotten = Mapping[int, tuple[int, Sequence[int]]]
"""By member that returned with an old copy of its disk: when the copy was made, and its returns in
order.
"""


def for_good(gone_us: Mapping[int, int]) -> Away:
    """Absences of members that do not return."""
    return {peer: ((at_us, NEVER_US),) for peer, at_us in gone_us.items()}


@dataclass(frozen=True, slots=True)
class ContractReport:
    """How a run met the contract. Clean if all numbers but expected, notified, excused and late are
    zero.
    """

    expected: int
    notified: int
    missing: int
    repeated: int
    uninvited: int
    invented: int
    excused: int = 0
    """Missing notices of casts whose publisher was gone before their end; counted neither as
    expected nor as missing.
    """
    late: int = 0
    altered: int = 0
    """Notices with another payload than the cast."""
    misreported: int = 0
    """Casts with a false final receipt."""

    @property
    def delivery_ratio(self) -> float:
        """Share of the expected notices that came; 1 if none was expected."""
        return 1 - self.missing / self.expected if self.expected else 1.0

    @property
    def harmless(self) -> bool:
        """Whether no notice or receipt was wrong, whatever is missing. This must hold during change
        too.
        """
        return not (
            self.repeated or self.uninvited or self.invented or self.altered or self.misreported
        )

    @property
    def clean(self) -> bool:
        return self.harmless and not self.missing


@dataclass(slots=True)
class Version:
    """A registration and the time during which it is possibly in force; `index` is its position in
    `Versions.all`.
    """

    index: int
    peer: int
    begun_us: int
    completed_us: int | None
    until_us: int
    description: Description | None

    def during(self, start_us: int, end_us: int) -> bool:
        return self.begun_us <= end_us and start_us < self.until_us


class Versions:
    """All versions of all descriptions, by peer and by tag."""

    def __init__(self, registrations: Iterable[Registration]) -> None:
        in_order = sorted(registrations, key=lambda one: (one.peer, one.version))
        self.all = [
            Version(index, each.peer, each.begun_us, each.completed_us, NEVER_US, each.description)
            for index, each in enumerate(in_order)
        ]
        self.by_peer: dict[int, list[Version]] = {}
        self._holders: dict[str, set[int]] = {}
        for version in self.all:
            self.by_peer.setdefault(version.peer, []).append(version)
            for tag in version.description.tags if version.description else ():
                self._holders.setdefault(tag, set()).add(version.index)
        for versions in self.by_peer.values():
            end_versions(versions)
        self.lasting = {
            versions[0].index for versions in self.by_peer.values() if len(versions) == 1
        }
        """Versions of peers that registered only once."""
        self.peers = [version.peer for version in self.all]
        completed_us = [self.all[index].completed_us for index in self.lasting]
        self.settled_us = max(
            (NEVER_US if each is None else each for each in completed_us), default=0
        )
        """Time from which on all of these are complete."""

    def settled(self, index: int, time_us: int) -> bool:
        """Whether a version was complete by a time."""
        completed_us = self.all[index].completed_us
        return completed_us is not None and completed_us <= time_us

    def selected(self, target: Target) -> set[int]:
        """Indices into `all` of the versions that the target selects."""
        return set().union(*(self._selected_by(term) for term in target.terms))

    def _selected_by(self, term: Term) -> set[int]:
        none: set[int] = set()
        lists = sorted((self._holders.get(tag, none) for tag in term.has), key=len)
        found = lists[0].intersection(*lists[1:]) if lists else set(range(len(self.all)))
        found = found.difference(*(self._holders.get(tag, none) for tag in term.lacks))
        if not term.where and term.has:
            return found
        return {
            index
            for index in found
            if (one := self.all[index].description) is not None and term.selects(one)
        }


def end_versions(versions: list[Version]) -> None:
    """Let each version end when a later one is complete."""
    until_us = NEVER_US
    for version in reversed(versions):
        version.until_us = until_us
        if version.completed_us is not None:
            until_us = min(until_us, version.completed_us)


def judge(
    casts: Sequence[Cast],
    registrations: Iterable[Registration],
    notices: Notices,
    away: Away | None = None,
    exact: bool = True,
) -> ContractReport:
    """Check a whole run. `away`: by member, when it had crashed or was leaving."""
    return ContractChecker(casts, registrations, notices, away or {}, exact).report()


class ContractChecker:
    """Checks the casts of a run, or of a period of it. `exact`: there is no churn, so receipts must
    be exact.
    """

    def __init__(
        self,
        casts: Sequence[Cast],
        registrations: Iterable[Registration],
        notices: Notices,
        away: Away,
        exact: bool = False,
        forgotten: Forgotten | None = None,
    ) -> None:
        self.forgotten = forgotten or {}
        self.casts, self.versions, self.away = casts, Versions(registrations), away
        self.notices, self.exact = notices, exact

    def report(self, from_us: int = 0, to_us: int = NEVER_US) -> ContractReport:
        """Check the casts made in [from_us, to_us). Notices of casts that were never made count in
        every period.
        """
        stray = self.notices.stray(len(self.casts))
        count: Counter[str] = Counter(invented=stray, notified=stray)
        count["altered"] = self.notices.otherwise(self._made(from_us, to_us))
        for cast, peers, times_us in self._by_cast():
            if from_us <= cast.time_us < to_us:
                count["notified"] += len(peers)
                notified_us = self._first(cast, peers, times_us, count)
                owed = self._weigh(cast, notified_us, count)
                count["misreported"] += self.is_misreported(
                    cast, self._facts(cast, owed, notified_us, times_us)
                )
        return ContractReport(**{each.name: count[each.name] for each in fields(ContractReport)})

    def _by_cast(self) -> Iterator[tuple[Cast, list[int], list[int]]]:
        """Each cast with the notified peers, in order of time, and the times."""
        by_cast = self.notices.by_cast(len(self.casts))
        return ((cast, *notified) for cast, notified in zip(self.casts, by_cast, strict=True))

    def facts(self) -> Iterator[tuple[Cast, CastFacts]]:
        """Each cast with what the journal shows of it."""
        count: Counter[str] = Counter()
        for cast, peers, times_us in self._by_cast():
            notified_us = self._first(cast, peers, times_us, count)
            owed = self._weigh(cast, notified_us, count)
            yield cast, self._facts(cast, owed, notified_us, times_us)

    def _facts(
        self, cast: Cast, owed: set[int], notified_us: dict[int, int], times_us: list[int]
    ) -> CastFacts:
        """Who was ever selected is found only for casts whose receipts count more members than
        notified ones.
        """
        receipts = [cast.receipt, *(each.receipt for each in cast.reports)]
        counts_others = any(each and (each.declined or each.unreachable) for each in receipts)
        selected_us: dict[int, int] = {}
        for index in self.versions.selected(cast.target) if counts_others or cast.silent else ():
            version = self.versions.all[index]
            asked_us = selected_us.get(version.peer, NEVER_US)
            selected_us[version.peer] = min(asked_us, version.begun_us)
        return CastFacts(cast.time_us, owed, selected_us, notified_us, times_us)

    def _made(self, from_us: int, to_us: int) -> set[int]:
        return {cast.number for cast in self.casts if from_us <= cast.time_us < to_us}

    def is_misreported(self, cast: Cast, facts: CastFacts) -> bool:
        """Whether the last final receipt, which is in the journal, is false."""
        if cast.receipt is None:
            return False
        assert cast.settled_us is not None, "a receipt comes when a cast has ended"
        last = ReceiptReport(cast.settled_us, cast.receipt, 0)
        return falsehood(facts, last, self.exact) is not None

    def missed(self, publishers: Container[int]) -> dict[int, int]:
        """By cast of these publishers, the number of missing notices, where there are any."""
        found = {}
        for cast, peers, times_us in self._by_cast():
            if cast.publisher in publishers:
                count: Counter[str] = Counter()
                self._weigh(cast, self._first(cast, peers, times_us, count), count)
                found[cast.number] = count["missing"]
        return {number: missing for number, missing in found.items() if missing}

    def _weigh(self, cast: Cast, notified_us: dict[int, int], count: Counter[str]) -> set[int]:
        """Count what is expected, missing, late and uninvited; the result is who was owed."""
        steady, possible = self._selected(cast)
        end_us = cast.begun_us + FLIGHT_US
        must = steady | {
            peer
            for peer, indices in possible.items()
            if not self.is_away(peer, cast.time_us, end_us)
            and must_notify(self.versions, peer, set(indices), cast.time_us, end_us)
        }
        missing = len(must - notified_us.keys())
        excused = missing if missing and self.is_abandoned(cast) else 0
        count["excused"] += excused
        count["expected"] += len(must) - excused
        count["missing"] += missing - excused
        if notified_us and max(notified_us.values()) > cast.time_us + LATE_US:
            count["late"] += sum(
                time_us > cast.time_us + LATE_US for time_us in notified_us.values()
            )
        for peer in notified_us.keys() - steady:
            versions = (self.versions.all[index] for index in possible.get(peer, ()))
            count["uninvited"] += not any(
                each.during(cast.time_us, notified_us[peer]) for each in versions
            )
        return must

    def _first(
        self, cast: Cast, peers: list[int], times_us: list[int], count: Counter[str]
    ) -> dict[int, int]:
        """By peer, the time of its first notice. Counts notices that came before the cast and
        repeated ones.
        """
        first = dict(zip(peers, times_us, strict=True))
        if len(first) == len(peers) and (not times_us or times_us[0] >= cast.time_us):
            return first
        first.clear()
        met: set[tuple[int, int]] = set()
        for peer, time_us in zip(peers, times_us, strict=True):
            if time_us < cast.time_us:
                count["invented"] += 1
                continue
            count["repeated"] += (peer, self.memory_of(peer, time_us)) in met
            met.add((peer, self.memory_of(peer, time_us)))
            first.setdefault(peer, time_us)
        return first

    def memory_of(self, peer: int, time_us: int) -> int:
        """0 if a member remembers what it received at this time; otherwise the number of the return
        at which it forgot it.
        """
        copied_us, returned_us = self.forgotten.get(peer, (0, ()))
        after = bisect_right(returned_us, time_us)
        return 0 if time_us <= copied_us or after == len(returned_us) else 1 + after

    def _selected(self, cast: Cast) -> tuple[set[int], dict[int, list[int]]]:
        """Selected peers with a single version that was complete before the cast; and, by other
        peer, its selected versions.

        Nearly all peers are among the first, so these are compared as sets.
        """
        versions = self.versions
        selected = versions.selected(cast.target)
        lasting = selected & versions.lasting
        if cast.time_us < versions.settled_us:
            lasting = {index for index in lasting if versions.settled(index, cast.time_us)}
        steady = {versions.peers[index] for index in lasting}
        if self.away:
            end_us = cast.begun_us + FLIGHT_US
            steady -= {peer for peer in self.away if self.is_away(peer, cast.time_us, end_us)}
        possible: dict[int, list[int]] = {}
        for index in selected - lasting if not self.away else selected:
            peer = versions.peers[index]
            if peer not in steady:
                possible.setdefault(peer, []).append(index)
        return steady, possible

    def is_abandoned(self, cast: Cast) -> bool:
        """Whether the publisher was gone before it could know the outcome of its cast."""
        finished_us = cast.settled_us if cast.settled_us is not None else cast.begun_us + FLIGHT_US
        return any(
            cast.begun_us <= from_us < finished_us
            for from_us, _ in self.away.get(cast.publisher, ())
        )

    def is_away(self, peer: int, start_us: int, end_us: int) -> bool:
        """Whether a peer was absent at some time of a cast's flight."""
        return any(
            from_us <= end_us and start_us < to_us for from_us, to_us in self.away.get(peer, ())
        )


def must_notify(
    versions: Versions, peer: int, selected: set[int], start_us: int, end_us: int
) -> bool:
    mine = versions.by_peer[peer]
    if not any(each.completed_us is not None and each.completed_us <= start_us for each in mine):
        return False
    return all(each.index in selected for each in mine if each.during(start_us, end_us))
