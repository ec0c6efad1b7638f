"""Each promise to publishers and members has a trace that breaks just it; and a judge that does not look is noticed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from implicast.language.target import Description, Target, Term
from implicast.world import promises
from implicast.world.application import Cast, Registration
from implicast.world.change import PeerIncarnation, Timeline
from implicast.world.invariants import ContractChecker, Notices
from implicast.world.promised_times import PromisedTimes, is_power_cut, repair_us
from implicast.world.promises import PromiseChecker, RunFacts
from implicast.world.receipts import CastReceipt, ReceiptReport, falsehood
from implicast.world.scripted_events import ScriptedEvent

S = 1_000_000
SAMBA, JAZZ = Description(("samba",)), Description(("jazz",))
PUBLISHER = 9
BOTH = [Registration(1, 1, 0, SAMBA, S), Registration(2, 1, 0, SAMBA, S)]
TOLD = [(0, 1, 100 * S + 1), (0, 2, 110 * S)]
ENDED, FALSE, DECLINED, LOSS, STRANGE, REFUSED, REGISTERED, RELAPSED = (
    "no final receipt in time",
    "false receipts before the last",
    "too many declined",
    "admit a loss",
    "name members that were not selected",
    "refused although",
    "not complete in time",
    "relapses after calm",
)


def at(time_s: float, *counts: int, pending: int = 0) -> ReceiptReport:
    """(notified, declined, unreachable, uncertain) at a time."""
    return ReceiptReport(int(time_s * S), CastReceipt(*counts), pending)


@dataclass
class Case:
    """One cast to `samba` at 100 s by 9, two members, and what the publisher was told. It ends at 400 s."""

    broken: tuple[str, ...] = ()
    reports: list[ReceiptReport] = field(default_factory=lambda: [at(120, 2, 0, 0)])
    said: list[Registration] = field(default_factory=lambda: list(BOTH))
    told: list[tuple[int, int, int]] = field(default_factory=lambda: list(TOLD))
    lives: list[tuple[int, PeerIncarnation]] = field(default_factory=list)
    script: tuple[str, ...] = ()
    refused_s: float | None = None
    silent: tuple[int, ...] = ()
    assured: bool = True
    undisturbed: bool = False
    limited: bool = False
    wrong_s: tuple[int, ...] = ()
    """Checks that found a violation; there is one each second from 150 s on, calm is at 250 s."""
    carried_s: float | None = None
    end_s: float = 400

    def found(self) -> list[str]:
        cast = Cast(0, PUBLISHER, 100 * S, Target((Term(("samba",)),)), reports=self.reports)
        finals = [each for each in self.reports if not each.open]
        if finals:
            cast.settled_us, cast.receipt = finals[-1].time_us, finals[-1].receipt
        cast.refused_us = None if self.refused_s is None else int(self.refused_s * S)
        cast.carried_us = None if self.carried_s is None else int(self.carried_s * S)
        cast.silent = set(self.silent)
        judge = ContractChecker([cast], self.said, Notices.of(self.told), {})
        events = tuple(map(ScriptedEvent.parse, self.script))
        run = RunFacts(
            self.lives,
            PromisedTimes.of(events, 0, 24),
            int(self.end_s * S),
            self.assured,
            self.undisturbed,
            self.limited,
            [(time_s * S, ["open"] * (time_s in self.wrong_s)) for time_s in range(150, 400)],
            Timeline(0, 150 * S, 250 * S, 400 * S),
        )
        return PromiseChecker(judge, self.said, run).broken()

    def kinds(self) -> tuple[str, ...]:
        found = self.found()
        return tuple(each for each in KINDS if any(each in one for one in found))


KINDS = (ENDED, REGISTERED, RELAPSED, FALSE, DECLINED, LOSS, STRANGE, REFUSED)
UNENDED = Registration(3, 1, 50 * S, JAZZ)
CASES: dict[str, Case] = {
    "all is well": Case(undisturbed=True),
    "no receipt": Case((ENDED,), []),
    "no receipt, where none is promised": Case((), [], assured=False),
    "a receipt that stays open": Case((ENDED,), [at(120, 2, 0, 0, pending=1)]),
    "a receipt after 101 s": Case((ENDED,), [at(201, 2, 0, 0)]),
    "a receipt after 99 s": Case((), [at(199, 2, 0, 0)]),
    "no receipt yet when the run ends": Case((), [], end_s=199),
    "a receipt 99 s after a freeze": Case((), [at(248, 2, 0, 0)], script=("110..149:freeze:7",)),
    "a receipt 101 s after a freeze": Case(
        (ENDED,), [at(251, 2, 0, 0)], script=("110..149:freeze:7",)
    ),
    "a freeze that was over before": Case(
        (ENDED,), [at(201, 2, 0, 0)], script=("50..99:freeze:7",)
    ),
    "a resumed cast": Case((), [at(298, 2, 0, 0)], carried_s=199),
    "a resumed cast that does not end": Case((ENDED,), [], carried_s=199),
    "the publisher crashed": Case(
        (), [], lives=[(PUBLISHER, PeerIncarnation(0, 0, None, 105 * S, "crashed"))]
    ),
    "the publisher left": Case(
        (), [], lives=[(PUBLISHER, PeerIncarnation(0, 0, 105 * S, 130 * S, "left"))]
    ),
    "the publisher crashed long after": Case(
        (ENDED,), [], lives=[(PUBLISHER, PeerIncarnation(0, 0, None, 205 * S, "crashed"))]
    ),
    "a refusal ends a cast": Case((), [], told=[], refused_s=150),
    "a refusal of a cast that all heard of": Case((REFUSED,), [], refused_s=150),
    "a refusal before the last one heard of it": Case((), [], refused_s=105),
    "a refusal of a cast for no member": Case((), [], said=[], told=[], refused_s=150),
    "progress that is true": Case((), [at(105, 1, 0, 0, pending=1), at(120, 2, 0, 0)]),
    "progress that is false": Case((FALSE,), [at(105, 2, 0, 0, pending=1), at(120, 2, 0, 0)]),
    "progress of more members than there are": Case(
        (FALSE,), [at(105, 1, 0, 2, pending=1), at(120, 2, 0, 0)]
    ),
    "a first final receipt that is false": Case((FALSE,), [at(105, 2, 0, 0), at(120, 2, 0, 0)]),
    "a first final receipt that is wrongly complete": Case(
        (FALSE,), [at(105, 1, 0, 0), at(120, 2, 0, 0)]
    ),
    "a first final receipt that admits it": Case((), [at(105, 1, 0, 0, 1), at(120, 2, 0, 0)]),
    "a second final receipt of three that is false": Case(
        (FALSE,), [at(112, 2, 0, 0), at(115, 3, 0, 0), at(120, 2, 0, 0)]
    ),
    "one declined without a reason": Case((DECLINED,), [at(120, 1, 1, 0)]),
    "one declined at its limit": Case((), [at(120, 1, 1, 0)], limited=True),
    "one declined that had changed": Case(
        (),
        [at(120, 2, 1, 0)],
        said=[*BOTH, Registration(3, 1, 0, SAMBA, S), Registration(3, 2, 90 * S, JAZZ, 91 * S)],
    ),
    "one out of reach where nothing happened": Case((LOSS,), [at(120, 1, 0, 1)], undisturbed=True),
    "an unknown region where nothing happened": Case(
        (LOSS,), [at(120, 2, 0, 0, 1)], undisturbed=True
    ),
    "one out of reach among faults": Case((), [at(120, 1, 0, 1)]),
    "one out of reach by name": Case((), [at(120, 1, 0, 1)], silent=(2,)),
    "another by name": Case((STRANGE,), [at(120, 1, 0, 1)], silent=(5,)),
    "a name that no member has": Case((STRANGE,), [at(120, 1, 0, 1)], silent=(-1,)),
    "a registration that never ends": Case((REGISTERED,), said=[*BOTH, UNENDED]),
    "a registration of 41 s": Case(
        (REGISTERED,), said=[*BOTH, replace(UNENDED, completed_us=91 * S)]
    ),
    "a registration of 39 s": Case((), said=[*BOTH, replace(UNENDED, completed_us=89 * S)]),
    "a registration 39 s after a partition": Case(
        (),
        said=[*BOTH, replace(UNENDED, completed_us=109 * S)],
        script=("60..70:split:1+2",),
    ),
    "a registration that another replaced": Case(
        (), said=[*BOTH, UNENDED, Registration(3, 2, 60 * S, JAZZ, 70 * S)]
    ),
    "a registration that another replaced too late": Case(
        (REGISTERED,), said=[*BOTH, UNENDED, Registration(3, 2, 95 * S, JAZZ, 96 * S)]
    ),
    "a registration of one that crashed": Case(
        (),
        said=[*BOTH, UNENDED],
        lives=[(3, PeerIncarnation(0, 0, None, 60 * S, "crashed"))],
    ),
    "registered again after 41 s": Case(
        (REGISTERED,), lives=[(3, PeerIncarnation(50 * S, 51 * S, returned=True, back_us=91 * S))]
    ),
    "registered again after 39 s": Case(
        (), lives=[(3, PeerIncarnation(50 * S, 51 * S, returned=True, back_us=89 * S))]
    ),
    "violations before calm": Case((), wrong_s=tuple(range(180, 249))),
    "a violation for some seconds after calm": Case((), wrong_s=tuple(range(300, 314))),
    "fifteen checks in a row after calm": Case((RELAPSED,), wrong_s=tuple(range(300, 315))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_judge_says_of_it(name: str) -> None:
    assert CASES[name].kinds() == CASES[name].broken


Put = Callable[[pytest.MonkeyPatch], None]


def instead(name: str, value: Any, owner: Any = promises) -> Put:
    return lambda patch: patch.setattr(owner, name, value)


def only(which: slice) -> Put:
    """The judge heeds only some of the final receipts, and no progress."""
    return instead("_reports", lambda cast: [each for each in cast.reports if not each.open][which])


MUTATIONS: dict[str, Put] = {
    "only the first final receipt is heeded": only(slice(1)),
    "only the last final receipt is heeded": only(slice(-1, None)),
    "progress is not looked at": only(slice(None)),
    "declined and unreachable are ignored": instead(
        "falsehood",
        lambda facts, report, exact: falsehood(
            facts, replace(report, receipt=CastReceipt(report.receipt.notified, 0, 0, 1)), exact
        ),
    ),
    "anyone may decline": instead("overcounts", lambda facts, receipt: None),
    "none may decline": instead(
        "overcounts", lambda facts, receipt: "one" if receipt.declined else None
    ),
    "no cast need end": instead("unended", lambda self: iter(()), PromiseChecker),
    "open receipts end a cast": instead(
        "_first_end_us", lambda cast: min((each.time_us for each in cast.reports), default=1 << 62)
    ),
    "no member is ever gone": instead("is_gone", lambda *args: False, PromiseChecker),
    "every member that ever went is excused": instead(
        "is_gone", lambda self, peer, begun, due: bool(self.gone_us.get(peer)), PromiseChecker
    ),
    "disturbances do not count": instead(
        "_due_us", lambda self, begun_us, allowed_us: begun_us + allowed_us, PromisedTimes
    ),
    "casts have an hour": instead(
        "ended_by_us", lambda self, begun_us: begun_us + 3_600 * S, PromisedTimes
    ),
    "registrations have an hour": instead(
        "registered_by_us", lambda self, begun_us: begun_us + 3_600 * S, PromisedTimes
    ),
    "no registration need end": instead("unregistered", lambda self: iter(()), PromiseChecker),
    "relapses are allowed": instead("relapses", lambda self: iter(()), PromiseChecker),
    "every violation is a relapse": instead("RELAPSE_CHECKS", 1),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_judge_that_is_bent_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    noticed = [case for case, each in CASES.items() if each.kinds() != each.broken]

    assert noticed, "no case needs this rule"


def test_disturbances_one_after_the_other_extend_a_promise() -> None:
    times = PromisedTimes([(10 * S, 20 * S), (55 * S, 80 * S), (300 * S, 400 * S)])

    assert times.registered_by_us(0) == 120 * S
    assert times.registered_by_us(90 * S) == 130 * S


@pytest.mark.parametrize(
    ("script", "is_cut"),
    [
        (("5..10:return:0+1+2+3+4+5",), True),
        (("5..10:return:0+1+2+3+4",), False),
        (("5..10:return:0+1+2", "7:crash:3+4+5"), True),
        (("5..10:return:0+1+2", "17:crash:3+4+5"), False),
        (("5..10:freeze:0+1+2+3+4+5",), False),
    ],
)
def test_a_power_cut_stops_more_than_half_at_once(script: tuple[str, ...], is_cut: bool) -> None:
    events = tuple(map(ScriptedEvent.parse, script))

    assert is_power_cut(events, 10) == is_cut
    assert repair_us(60 * S, events, 10) == (80 if is_cut else 60) * S
    assert PromisedTimes.of(events, 0, 10).registered_by_us(200 * S) == (260 if is_cut else 240) * S
