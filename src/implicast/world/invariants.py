"""The five laws of the contract, checked from outside over the trace of a run.

    liveness             once a registration is complete, every later cast that selects it is notified
    at most once         no peer is notified twice of one cast
    no invention         a notified cast was cast by someone, before
    only the selected    the target selects the registration of whoever is notified
    only the registered  a notified peer had registered

A version of a description is *possibly in force* from when it was asked for until its successor is complete. A peer
must be notified of a cast when something was complete at the time of the cast and every version possibly in force
during the cast's flight is selected; it may be notified when one of them is. The selection is computed here from the
posting lists of all versions ever registered; it shares no code with any design.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from implicast.language.target import Description, Target, Term
from implicast.world.application import Cast, Registration

FLIGHT_US = 60_000_000
"""How long a cast may be under way: a change of description within this time excuses both outcomes."""
NEVER_US = 1 << 62

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Notices:
    """Who was told of which cast (-1: of nobody's), and when: columns of equal length."""

    cast: Ints
    peer: Ints
    time_us: Ints

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]]) -> "Notices":
        """From (cast, peer, time_us)."""
        columns = np.array(list(rows), np.int64).reshape(-1, 3)
        return cls(columns[:, 0], columns[:, 1], columns[:, 2])

    def __len__(self) -> int:
        return len(self.cast)

    def by_cast(self, casts: int) -> list[tuple[list[int], list[int]]]:
        """For each cast the peers told, in order of time, and when. Notices of unknown casts are in none."""
        order = np.lexsort((self.time_us, self.cast))
        cuts = np.searchsorted(self.cast[order], np.arange(casts + 1))
        parts = [order[start:end] for start, end in pairwise(cuts)]
        return [(self.peer[part].tolist(), self.time_us[part].tolist()) for part in parts]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run kept the contract. Clean when the last four are zero."""

    expected: int
    notified: int
    missing: int
    repeated: int
    uninvited: int
    invented: int

    @property
    def clean(self) -> bool:
        return not (self.missing or self.repeated or self.uninvited or self.invented)


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
        self.lasting = {versions[0].index for versions in self.by_peer.values() if len(versions) == 1}
        """Versions of peers that never changed theirs."""

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
        return {index for index in found if (one := self.all[index].description) is not None and term.selects(one)}


def _bound(versions: list[Version]) -> None:
    """A version ends when some later one is complete."""
    until_us = NEVER_US
    for version in reversed(versions):
        version.until_us = until_us
        if version.completed_us is not None:
            until_us = min(until_us, version.completed_us)


def judge(
    casts: Sequence[Cast], registrations: Iterable[Registration], notices: Notices,
    gone_us: dict[int, int] | None = None,
) -> Verdict:  # fmt: skip
    """Compare what was notified with what had to be. `gone_us`: peers that left or crashed, and when."""
    versions = Versions(registrations)
    told = notices.by_cast(len(casts))
    count: Counter[str] = Counter(invented=len(notices) - sum(len(peers) for peers, _ in told))
    for cast, (peers, times_us) in zip(casts, told, strict=True):
        first: dict[int, int] = {}
        for peer, time_us in zip(peers, times_us, strict=True):
            if time_us < cast.time_us:
                count["invented"] += 1
            elif peer in first:
                count["repeated"] += 1
            else:
                first[peer] = time_us
        _judge_cast(cast, versions, first, gone_us or {}, count)
    return Verdict(
        count["expected"], len(notices), count["missing"], count["repeated"], count["uninvited"], count["invented"]
    )


def _judge_cast(
    cast: Cast, versions: Versions, told: dict[int, int], gone_us: dict[int, int], count: Counter[str]
) -> None:
    selected = versions.selected(cast.target)
    end_us = cast.time_us + FLIGHT_US
    # Nearly everybody has one version only, complete before the cast: those are compared as whole sets.
    lasting = selected & versions.lasting
    steady = {versions.all[index].peer for index in lasting if versions.settled(index, cast.time_us)}
    if gone_us:
        steady -= {peer for peer, left_us in gone_us.items() if left_us <= end_us}
    possible: dict[int, list[int]] = {}
    for index in selected:
        peer = versions.all[index].peer
        if peer not in steady:
            possible.setdefault(peer, []).append(index)
    must = steady | {
        peer
        for peer, indices in possible.items()
        if gone_us.get(peer, NEVER_US) > end_us and _must(versions, peer, set(indices), cast.time_us, end_us)
    }
    count["expected"] += len(must)
    count["missing"] += len(must - told.keys())
    for peer in told.keys() - steady:
        invited = any(versions.all[index].during(cast.time_us, told[peer]) for index in possible.get(peer, ()))
        count["uninvited"] += not invited


def _must(versions: Versions, peer: int, selected: set[int], start_us: int, end_us: int) -> bool:
    mine = versions.by_peer[peer]
    if not any(each.completed_us is not None and each.completed_us <= start_us for each in mine):
        return False
    return all(each.index in selected for each in mine if each.during(start_us, end_us))
