"""The laws of the contract, checked from outside over the trace of a run.

    liveness             once a registration is complete, every later cast that selects it is notified
    at most once         no peer is notified twice of one cast
    no invention         a notified cast was cast by someone, before
    only the selected    the target selects the registration of whoever is notified
    only the registered  a notified peer had registered
    unaltered            what a notified peer was told is what was cast
    true receipts        what a publisher is told of its cast when it has ended is so

A version of a description is *possibly in force* from when it was asked for until its successor is complete. A peer
must be notified of a cast when something was complete at the time of the cast and every version possibly in force
during the cast's flight is selected; it may be notified when one of them is. The selection is computed here from the
posting lists of all versions ever registered; it shares no code with any design.

Where peers come and go: whoever crashed within a cast's flight need not be notified (who left has withdrawn). A member
that comes back is *away* from its crash until its first registration of the new life is complete: until then what its
last description says may still reach it, and nothing is owed. A member that comes back without its disk is another
member, with a number of its own; one that comes back with an old copy of its disk has forgotten what it heard since the
copy was made, and may hear it again. What a cast owes is *excused* when its publisher was gone before it knew how the
cast ended: dead, or on its way out in a world in which worse happens than coming and going. Nothing excuses a repeated,
uninvited, invented or altered notification.

A receipt is final when nothing is open. It never says that more were notified than were; where nobody comes or goes and
nobody was out of reach, it says exactly how many.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from implicast.language.target import Description, Target, Term
from implicast.world.application import Cast, Receipt, Registration

FLIGHT_US = 60_000_000
"""How long a cast may be under way: a change of description within this time excuses both outcomes."""
LATE_US = 10_000_000
"""Whoever is notified later than this after the cast is notified late."""
NEVER_US = 1 << 62

Ints = npt.NDArray[np.int64]
Away = Mapping[int, Sequence[tuple[int, int]]]
"""By member, when it was away: from when to when; `NEVER_US` for those who stay away."""


Forgotten = Mapping[int, tuple[int, Sequence[int]]]
"""By member that came back with an old copy of its disk: when the copy was made, and when it came back, in order."""


def for_good(gone_us: Mapping[int, int]) -> Away:
    """Of members that go and do not come back."""
    return {peer: ((at_us, NEVER_US),) for peer, at_us in gone_us.items()}


@dataclass(frozen=True, slots=True)
class Notices:
    """Who was told of which cast (-1: of nobody's), when, and whether of something else: columns of equal length."""

    cast: Ints
    peer: Ints
    time_us: Ints
    altered: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]], altered: Sequence[int] = ()) -> "Notices":
        """From (cast, peer, time_us); and which of them came with another payload."""
        columns = np.array(list(rows), np.int64).reshape(-1, 3)
        other = np.zeros(len(columns), bool)
        other[list(altered)] = True
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], other)

    def __len__(self) -> int:
        return len(self.cast)

    def by_cast(self, casts: int) -> Iterator[tuple[list[int], list[int]]]:
        """For each cast the peers told, in order of time, and when. Notices of unknown casts are in none."""
        order = np.lexsort((self.time_us, self.cast))
        for start, end in pairwise(np.searchsorted(self.cast[order], np.arange(casts + 1))):
            part = order[start:end]
            yield self.peer[part].tolist(), self.time_us[part].tolist()

    def otherwise(self, casts: Collection[int]) -> int:
        """How many are of something else than these casts said; what nobody cast has no payload to compare."""
        numbers = self.cast[self.altered].tolist()
        return sum(number in casts for number in numbers)

    def stray(self, casts: int) -> int:
        """How many are of casts that nobody made."""
        return int(np.count_nonzero((self.cast < 0) | (self.cast >= casts)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run kept the contract. Clean when everything but expected, notified, excused and late is zero."""

    expected: int
    notified: int
    missing: int
    repeated: int
    uninvited: int
    invented: int
    excused: int = 0
    """Not notified, of casts whose publisher was gone before they were finished; neither expected nor missing."""
    late: int = 0
    altered: int = 0
    """Notified of something else than was cast."""
    misreported: int = 0
    """Casts whose publisher was told in the end what is not so."""

    @property
    def delivery_ratio(self) -> float:
        """Share of what was expected that was notified; 1 when nothing was."""
        return 1 - self.missing / self.expected if self.expected else 1.0

    @property
    def harmless(self) -> bool:
        """Whatever is missing, nobody was told what it should not have been: that must hold during change too."""
        return not (
            self.repeated or self.uninvited or self.invented or self.altered or self.misreported
        )

    @property
    def clean(self) -> bool:
        return self.harmless and not self.missing


@dataclass(slots=True)
class Version:
    """A registration with the time during which it is possibly in force; `index` is its place among all."""

    index: int
    peer: int
    begun_us: int
    completed_us: int | None
    until_us: int
    description: Description | None

    def during(self, start_us: int, end_us: int) -> bool:
        return self.begun_us <= end_us and start_us < self.until_us


class Versions:
    """All versions, by peer and by tag."""

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
            _bound(versions)
        self.lasting = {
            versions[0].index for versions in self.by_peer.values() if len(versions) == 1
        }
        """Versions of peers that never changed theirs."""
        self.peers = [version.peer for version in self.all]
        completed_us = [self.all[index].completed_us for index in self.lasting]
        self.settled_us = max(
            (NEVER_US if each is None else each for each in completed_us), default=0
        )
        """From when on all that last are complete."""

    def settled(self, index: int, time_us: int) -> bool:
        """Complete by this time?"""
        completed_us = self.all[index].completed_us
        return completed_us is not None and completed_us <= time_us

    def selected(self, target: Target) -> set[int]:
        """Indices into `all` of the versions that the target selects."""
        return set().union(*(self._selected_by(term) for term in target.terms))

    def _selected_by(self, term: Term) -> set[int]:
        nobody: set[int] = set()
        lists = sorted((self._holders.get(tag, nobody) for tag in term.has), key=len)
        found = lists[0].intersection(*lists[1:]) if lists else set(range(len(self.all)))
        found = found.difference(*(self._holders.get(tag, nobody) for tag in term.lacks))
        if not term.where and term.has:
            return found
        return {
            index
            for index in found
            if (one := self.all[index].description) is not None and term.selects(one)
        }


def _bound(versions: list[Version]) -> None:
    """A version ends when some later one is complete."""
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
) -> Verdict:
    """Compare what was notified with what had to be. `away`: who crashed or was leaving, from when to when."""
    return Judge(casts, registrations, notices, away or {}, exact).verdict()


class Judge:
    """Weighs the casts of a run, all or those of one period. `exact`: nobody comes or goes, so receipts are exact."""

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

    def verdict(self, from_us: int = 0, to_us: int = NEVER_US) -> Verdict:
        """Of the casts made in [from_us, to_us); notices of casts that nobody made count in every period."""
        stray = self.notices.stray(len(self.casts))
        count: Counter[str] = Counter(invented=stray, notified=stray)
        count["altered"] = self.notices.otherwise(self._made(from_us, to_us))
        for cast, (peers, times_us) in zip(
            self.casts, self.notices.by_cast(len(self.casts)), strict=True
        ):
            if from_us <= cast.time_us < to_us:
                count["notified"] += len(peers)
                told = self._first(cast, peers, times_us, count)
                self._weigh(cast, told, count)
                count["misreported"] += cast.receipt is not None and self._misreported(
                    cast, cast.receipt, times_us
                )
        return Verdict(**{each.name: count[each.name] for each in fields(Verdict)})

    def _made(self, from_us: int, to_us: int) -> set[int]:
        return {cast.number for cast in self.casts if from_us <= cast.time_us < to_us}

    def _misreported(self, cast: Cast, receipt: Receipt, times_us: Sequence[int]) -> bool:
        """Notices are counted, not members: who has forgotten a cast takes it again, and says so."""
        assert cast.settled_us is not None, "a receipt comes when a cast has ended"
        knew = sum(cast.time_us <= time_us <= cast.settled_us for time_us in times_us)
        if receipt.notified > knew:
            return True
        return self.exact and not receipt.unreachable and receipt.notified < knew

    def missed(self, publishers: Container[int]) -> dict[int, int]:
        """How many were missed by each cast of these publishers that missed anybody."""
        found = {}
        for cast, (peers, times_us) in zip(
            self.casts, self.notices.by_cast(len(self.casts)), strict=True
        ):
            if cast.publisher in publishers:
                count: Counter[str] = Counter()
                self._weigh(cast, self._first(cast, peers, times_us, count), count)
                found[cast.number] = count["missing"]
        return {number: missing for number, missing in found.items() if missing}

    def _weigh(self, cast: Cast, told: dict[int, int], count: Counter[str]) -> None:
        steady, possible = self._selected(cast)
        end_us = cast.begun_us + FLIGHT_US
        must = steady | {
            peer
            for peer, indices in possible.items()
            if not self._is_away(peer, cast.time_us, end_us)
            and _must(self.versions, peer, set(indices), cast.time_us, end_us)
        }
        missing = must - told.keys()
        if missing and self._abandoned(cast):
            count["excused"] += len(missing)
            must -= missing
        count["expected"] += len(must)
        count["missing"] += len(must - told.keys())
        if told and max(told.values()) > cast.time_us + LATE_US:
            count["late"] += sum(time_us > cast.time_us + LATE_US for time_us in told.values())
        for peer in told.keys() - steady:
            versions = (self.versions.all[index] for index in possible.get(peer, ()))
            count["uninvited"] += not any(
                each.during(cast.time_us, told[peer]) for each in versions
            )

    def _first(
        self, cast: Cast, peers: list[int], times_us: list[int], count: Counter[str]
    ) -> dict[int, int]:
        """When each peer was told first; what came before the cast, or again, is counted."""
        first = dict(zip(peers, times_us, strict=True))
        if len(first) == len(peers) and (not times_us or times_us[0] >= cast.time_us):
            return first
        first.clear()
        met: set[tuple[int, int]] = set()
        for peer, time_us in zip(peers, times_us, strict=True):
            if time_us < cast.time_us:
                count["invented"] += 1
                continue
            count["repeated"] += (peer, self._memory(peer, time_us)) in met
            met.add((peer, self._memory(peer, time_us)))
            first.setdefault(peer, time_us)
        return first

    def _memory(self, peer: int, time_us: int) -> int:
        """0 for what a member never forgets; else which of its returns made it forget what it heard at this time."""
        copied_us, returned_us = self.forgotten.get(peer, (0, ()))
        after = bisect_right(returned_us, time_us)
        return 0 if time_us <= copied_us or after == len(returned_us) else 1 + after

    def _selected(self, cast: Cast) -> tuple[set[int], dict[int, list[int]]]:
        """Peers with one version, complete before the cast and selected; and the selected versions of all others.

        Nearly everybody is among the first: those are compared as whole sets.
        """
        versions = self.versions
        selected = versions.selected(cast.target)
        lasting = selected & versions.lasting
        if cast.time_us < versions.settled_us:
            lasting = {index for index in lasting if versions.settled(index, cast.time_us)}
        steady = {versions.peers[index] for index in lasting}
        if self.away:
            end_us = cast.begun_us + FLIGHT_US
            steady -= {peer for peer in self.away if self._is_away(peer, cast.time_us, end_us)}
        possible: dict[int, list[int]] = {}
        for index in selected - lasting if not self.away else selected:
            peer = versions.peers[index]
            if peer not in steady:
                possible.setdefault(peer, []).append(index)
        return steady, possible

    def _abandoned(self, cast: Cast) -> bool:
        """Was the publisher gone before it could know how its cast ended?"""
        finished_us = cast.settled_us if cast.settled_us is not None else cast.begun_us + FLIGHT_US
        return any(
            cast.begun_us <= from_us < finished_us
            for from_us, _ in self.away.get(cast.publisher, ())
        )

    def _is_away(self, peer: int, start_us: int, end_us: int) -> bool:
        """At some time of a cast's flight?"""
        return any(
            from_us <= end_us and start_us < to_us for from_us, to_us in self.away.get(peer, ())
        )


def _must(versions: Versions, peer: int, selected: set[int], start_us: int, end_us: int) -> bool:
    mine = versions.by_peer[peer]
    if not any(each.completed_us is not None and each.completed_us <= start_us for each in mine):
        return False
    return all(each.index in selected for each in mine if each.during(start_us, end_us))
