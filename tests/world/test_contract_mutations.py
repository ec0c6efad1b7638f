"""Each rule of the judge has a world that breaks just it; and each rule switched off is noticed by its world.

A case is a trace made by hand with what the judge has to say of it. Times are in seconds, and written out: a rule that
is bent together with its constant is bent all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from implicast.language.target import Description, Target, Term
from implicast.world import invariants
from implicast.world.application import Cast, CastReceipt, Registration
from implicast.world.invariants import NEVER_US, ContractChecker, Notices, Version
from implicast.world.receipts import CastFacts, falsehood

S = 1_000_000
SAMBA, JAZZ = Description(("samba",)), Description(("jazz",))
PUBLISHER = 9


def said(
    peer: int,
    begun_s: float,
    completed_s: float | None,
    what: Description | None = SAMBA,
    version: int = 1,
):
    return Registration(
        peer, version, int(begun_s * S), what, None if completed_s is None else int(completed_s * S)
    )


@dataclass
class Case:
    """A trace: casts to `samba` by 9 at the times given, registrations, and who was told when."""

    expect: dict[str, int]
    """Counts of the verdict that are not what they are in a clean run: zero, but for expected and notified."""
    casts_s: tuple[float, ...] = (100,)
    said: list[Registration] = field(default_factory=lambda: [said(1, 0, 1)])
    told: list[tuple[int, int, float]] = field(default_factory=list)
    """(cast, peer, second)."""
    altered: tuple[int, ...] = ()
    away: dict[int, list[tuple[float, float | None]]] = field(default_factory=dict)
    settled: dict[int, tuple[float, CastReceipt | None]] = field(default_factory=dict)
    exact: bool = True
    forgotten: dict[int, tuple[float, list[float]]] = field(default_factory=dict)
    period_s: tuple[float, float] = (0, 10_000)

    def report(self) -> dict[str, int]:
        casts = [
            Cast(number, PUBLISHER, int(at_s * S), Target((Term(("samba",)),)))
            for number, at_s in enumerate(self.casts_s)
        ]
        for number, (at_s, receipt) in self.settled.items():
            casts[number].settled_us, casts[number].receipt = int(at_s * S), receipt
        notices = Notices.of(
            ((cast, peer, int(at_s * S)) for cast, peer, at_s in self.told), self.altered
        )
        away = {
            peer: [
                (int(from_s * S), NEVER_US if to_s is None else int(to_s * S))
                for from_s, to_s in spans
            ]
            for peer, spans in self.away.items()
        }
        forgotten = {
            peer: (int(copied_s * S), [int(at_s * S) for at_s in back_s])
            for peer, (copied_s, back_s) in self.forgotten.items()
        }
        found = ContractChecker(casts, self.said, notices, away, self.exact, forgotten).report(
            int(self.period_s[0] * S), int(self.period_s[1] * S)
        )
        return {name: getattr(found, name) for name in self.expect}


TOLD = [(0, 1, 100.1)]
CHANGED = [said(1, 0, 1), said(1, 161, 162, JAZZ, 2)]
OPEN = [said(1, 0, 1), said(1, 50, None, JAZZ, 2)]
BOTH = [said(1, 0, 1), said(2, 0, 1)]
TWO = [(0, 1, 100.1), (0, 2, 100.1)]

CASES: dict[str, Case] = {
    "told": Case(
        {"expected": 1, "missing": 0, "repeated": 0, "uninvited": 0, "invented": 0}, told=TOLD
    ),
    "not told": Case({"missing": 1, "expected": 1}),
    "told twice": Case({"repeated": 1, "missing": 0}, told=TOLD * 2),
    "told what is not for it": Case({"uninvited": 1}, said=[said(1, 0, 1, JAZZ)], told=TOLD),
    "told though it never registered": Case({"uninvited": 1}, said=[], told=TOLD),
    "told before it registered": Case({"uninvited": 1}, said=[said(1, 105, 106)], told=TOLD),
    "told of nobody's cast": Case({"invented": 1, "missing": 1}, told=[(-1, 1, 100.1)]),
    "told before the cast": Case({"invented": 1, "missing": 1}, told=[(0, 1, 99.9)]),
    "told of something else": Case({"altered": 1}, told=TOLD, altered=(0,)),
    "told late": Case({"late": 1}, told=[(0, 1, 110.1)]),
    "told just in time": Case({"late": 0}, told=[(0, 1, 109.9)]),
    "registering when the cast came": Case({"missing": 0, "expected": 0}, said=[said(1, 99, 101)]),
    "a change 61 s after the cast": Case({"missing": 1}, said=CHANGED),
    "a change 59 s after the cast": Case(
        {"missing": 0}, said=[said(1, 0, 1), said(1, 159, 162, JAZZ, 2)]
    ),
    "an unfinished description does not end the one before": Case(
        {"uninvited": 0}, said=OPEN, told=TOLD
    ),
    "nor is anything owed while it is unfinished": Case({"missing": 0, "expected": 0}, said=OPEN),
    "a finished one does end it": Case(
        {"uninvited": 1}, said=[said(1, 0, 1), said(1, 50, 51, JAZZ, 2)], told=TOLD
    ),
    "crashed 61 s after the cast": Case({"missing": 1}, away={1: [(161, None)]}),
    "crashed 59 s after the cast": Case({"missing": 0, "expected": 0}, away={1: [(159, None)]}),
    "crashed before the cast": Case({"missing": 0}, away={1: [(50, None)]}),
    "back and registered before the cast": Case({"missing": 1}, away={1: [(50, 99)]}),
    "back, but registered only after the cast": Case({"missing": 0}, away={1: [(50, 101)]}),
    "told while it was away": Case({"uninvited": 0}, away={1: [(50, 101)]}, told=TOLD),
    "away later on, back in between": Case({"missing": 1}, away={1: [(50, 99), (170, None)]}),
    "its publisher died before it was over": Case(
        {"excused": 1, "missing": 0}, away={PUBLISHER: [(101, None)]}
    ),
    "its publisher died when all was over": Case(
        {"excused": 0, "missing": 1}, away={PUBLISHER: [(105, None)]}, settled={0: (104, None)}
    ),
    "its publisher died long after": Case(
        {"excused": 0, "missing": 1}, away={PUBLISHER: [(161, None)]}
    ),
    "its publisher had been away before": Case(
        {"excused": 0, "missing": 1}, away={PUBLISHER: [(50, 101)]}
    ),
    "told again what it forgot": Case(
        {"repeated": 0}, told=[(0, 1, 100.1), (0, 1, 120)], forgotten={1: (90, [110])}
    ),
    "told again what was on the old copy": Case(
        {"repeated": 1}, told=[(0, 1, 100.1), (0, 1, 120)], forgotten={1: (105, [110])}
    ),
    "told twice since it is back": Case(
        {"repeated": 1}, told=[(0, 1, 115), (0, 1, 120)], forgotten={1: (90, [110])}
    ),
    "a receipt of too many": Case(
        {"misreported": 1}, told=TOLD, settled={0: (101, CastReceipt(2, 0, 0))}, exact=False
    ),
    "a receipt of one told only later": Case(
        {"misreported": 1},
        said=BOTH,
        told=[(0, 1, 100.1), (0, 2, 130)],
        settled={0: (101, CastReceipt(2, 0, 0))},
    ),
    "an incomplete receipt of one told only later": Case(
        {"misreported": 1},
        said=BOTH,
        told=[(0, 1, 100.1), (0, 2, 130)],
        settled={0: (101, CastReceipt(2, 0, 0, 1))},
        exact=False,
    ),
    "a receipt of too few": Case(
        {"misreported": 1}, said=BOTH, told=TWO, settled={0: (101, CastReceipt(1, 0, 0))}
    ),
    "a receipt of too few, and one out of reach": Case(
        {"misreported": 0}, said=BOTH, told=TWO, settled={0: (101, CastReceipt(1, 0, 1))}
    ),
    "a receipt of too few where peers come and go": Case(
        {"misreported": 0},
        said=BOTH,
        told=TWO,
        settled={0: (101, CastReceipt(1, 0, 0))},
        exact=False,
    ),
    "a receipt of one who forgot, and took it again": Case(
        {"misreported": 0, "repeated": 0},
        told=[(0, 1, 100.1), (0, 1, 120)],
        settled={0: (130, CastReceipt(2, 0, 0))},
        forgotten={1: (90, [110])},
    ),
    "a complete receipt without one that was owed": Case(
        {"misreported": 1, "missing": 1},
        said=BOTH,
        told=TOLD,
        settled={0: (101, CastReceipt(1, 0, 0))},
        exact=False,
    ),
    "a complete receipt before one that was owed is told": Case(
        {"misreported": 1, "missing": 0},
        said=BOTH,
        told=[(0, 1, 100.1), (0, 2, 130)],
        settled={0: (101, CastReceipt(1, 0, 0))},
        exact=False,
    ),
    "one is out of reach, and counted": Case(
        {"misreported": 0}, said=BOTH, told=TOLD, settled={0: (101, CastReceipt(1, 0, 1))}
    ),
    "one has declined, and is counted": Case(
        {"misreported": 0}, said=BOTH, told=TOLD, settled={0: (101, CastReceipt(1, 1, 0))}
    ),
    "one is missing in a region that is not known": Case(
        {"misreported": 0}, said=BOTH, told=TOLD, settled={0: (101, CastReceipt(1, 0, 0, 1))}
    ),
    "two are out of reach where one is selected": Case(
        {"misreported": 1}, told=[], settled={0: (101, CastReceipt(0, 0, 2))}, exact=False
    ),
    "one is out of reach that registered only later": Case(
        {"misreported": 1},
        said=[said(1, 0, 1), said(2, 102, 103)],
        told=TOLD,
        settled={0: (101, CastReceipt(1, 0, 1))},
        exact=False,
    ),
    "a true receipt": Case(
        {"misreported": 0}, said=BOTH, told=TWO, settled={0: (101, CastReceipt(2, 0, 0))}
    ),
    "only casts of the period": Case(
        {"missing": 1, "altered": 0},
        casts_s=(100, 200),
        told=[(0, 1, 100.1)],
        altered=(0,),
        period_s=(150, 300),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_judge_says_of_it(name):
    assert CASES[name].report() == CASES[name].expect


Put = Callable[[pytest.MonkeyPatch], None]


def with_attribute(owner: Any, name: str, value: Any) -> Put:
    return lambda patch: patch.setattr(owner, name, value)


def ends_with_the_next(versions: list[Version]) -> None:
    for version, later in pairwise(versions):
        version.until_us = later.begun_us


def never_ends(versions: list[Version]) -> None:
    """All stay possibly in force."""


def without(*names: str) -> Put:
    """The judge does not count these."""
    report = ContractChecker.report

    def blind(self, *period):
        found = report(self, *period)
        return type(found)(
            **{
                **{each: getattr(found, each) for each in found.__slots__},
                **dict.fromkeys(names, 0),
            }
        )

    return with_attribute(ContractChecker, "report", blind)


missing_at = CastFacts.missing_at

MUTATIONS: dict[str, Put] = {
    "flights of ten minutes": with_attribute(invariants, "FLIGHT_US", 600 * S),
    "flights of six seconds": with_attribute(invariants, "FLIGHT_US", 6 * S),
    "anybody who ever crashes is excused": with_attribute(
        ContractChecker, "is_away", lambda self, peer, start_us, end_us: peer in self.away
    ),
    "nobody is ever away": with_attribute(
        ContractChecker, "is_away", lambda self, peer, start_us, end_us: False
    ),
    "who came back is away for ever": with_attribute(
        ContractChecker,
        "is_away",
        lambda self, peer, start, end: any(one <= end for one, _ in self.away.get(peer, ())),
    ),
    "who comes back is owed at once": with_attribute(
        ContractChecker,
        "is_away",
        lambda self, peer, start, end: any(
            start <= one <= end for one, _ in self.away.get(peer, ())
        ),
    ),
    "an unfinished description ends the one before": with_attribute(
        invariants, "end_versions", ends_with_the_next
    ),
    "no description ends the one before": with_attribute(invariants, "end_versions", never_ends),
    "one selected version is enough": with_attribute(invariants, "must_notify", lambda *args: True),
    "nothing is owed to who changed": with_attribute(
        invariants, "must_notify", lambda *args: False
    ),
    "every cast of who dies is excused": with_attribute(
        ContractChecker, "is_abandoned", lambda self, cast: cast.publisher in self.away
    ),
    "no cast is excused": with_attribute(ContractChecker, "is_abandoned", lambda self, cast: False),
    "nothing is ever forgotten": with_attribute(
        ContractChecker, "memory_of", lambda self, peer, time_us: 0
    ),
    "everything is forgotten with a return": with_attribute(
        ContractChecker,
        "memory_of",
        lambda self, peer, time_us: time_us if peer in self.forgotten else 0,
    ),
    "late after an hour": with_attribute(invariants, "LATE_US", 3_600 * S),
    "late at once": with_attribute(invariants, "LATE_US", 0),
    "no receipt is looked at": with_attribute(
        ContractChecker, "is_misreported", lambda self, cast, facts: False
    ),
    "receipts of too few are true": with_attribute(
        invariants, "falsehood", lambda facts, report, exact: falsehood(facts, report, False)
    ),
    "receipts may look ahead": with_attribute(
        CastFacts, "notices_by", lambda self, time_us: len(self.times_us)
    ),
    "receipts are always exact": with_attribute(
        invariants, "falsehood", lambda facts, report, exact: falsehood(facts, report, True)
    ),
    "a complete receipt may lack one member": with_attribute(
        CastFacts, "missing_at", lambda self, time_us: max(0, missing_at(self, time_us) - 1)
    ),
    "a complete receipt may lack what came later": with_attribute(
        CastFacts, "missing_at", lambda self, time_us: len(self.owed - self.notified_us.keys())
    ),
    "declined and unreachable are ignored": with_attribute(
        invariants,
        "falsehood",
        lambda facts, report, exact: falsehood(
            facts, replace(report, receipt=CastReceipt(report.receipt.notified, 0, 0)), exact
        ),
    ),
    "uncertain regions are ignored": with_attribute(
        invariants,
        "falsehood",
        lambda facts, report, exact: falsehood(
            facts, replace(report, receipt=replace(report.receipt, uncertain=0)), exact
        ),
    ),
    "a receipt may count any number of others": with_attribute(
        CastFacts, "selected_by", lambda self, time_us: 1 << 30
    ),
    "blind to what is missing": without("missing"),
    "blind to what is repeated": without("repeated"),
    "blind to the uninvited": without("uninvited"),
    "blind to what is invented": without("invented"),
    "blind to what was altered": without("altered"),
    "what was altered counts in every period": with_attribute(
        Notices, "otherwise", lambda self, casts: int(self.altered.sum())
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_judge_that_is_bent_is_noticed(name, monkeypatch):
    MUTATIONS[name](monkeypatch)
    noticed = [case for case, each in CASES.items() if each.report() != each.expect]

    assert noticed, "no case needs this rule"
