"""What change did to a run, on journals written by hand; and the contract where peers come and go."""

from math import isnan

import pytest

from implicast.language.target import Description, Target, Term
from implicast.world.application import Cast, Registration
from implicast.world.change import (
    PeerIncarnation,
    Timeline,
    change,
    repair_times_s,
    storm,
    upkeep_per_peer_minute,
    write_change_tables,
)
from implicast.world.invariants import FLIGHT_US, LATE_US, ContractChecker, Notices, for_good
from implicast.world.journal import JOIN, UPKEEP, Journal, read
from implicast.world.scripted_events import LASTING, ScriptedEvent

S = 1_000_000
SAMBA = Description(("samba",))
TO_SAMBA = Target((Term(("samba",)),))
COURSE = Timeline(10 * S, 20 * S, 30 * S, 70 * S)


def journal(tmp_path, sends=(), events=(), incarnations=None, samples=((20 * S, []),)):
    """`sends`: (second, purpose)."""
    written = Journal(tmp_path / "run")
    written.kinds.append("Word")
    for serial, (second, purpose) in enumerate(sends):
        written.send(serial, 0, int(second * S), int(second * S) + 1, 0, 1, purpose, 1, 5, 0)
    write_change_tables(written, COURSE, tuple(events), (incarnations or {}).items(), list(samples))
    written.finish()
    written.close()
    return tmp_path / "run"


def test_repair_lasts_from_an_event_to_the_first_clean_check(tmp_path):
    events = [
        ScriptedEvent(0, 0, "crash", (1,)),
        ScriptedEvent(3, 5, "freeze", (2,)),
        ScriptedEvent(58, 58, "crash", (3,)),
    ]
    wrong = {11, 12, 16, 68, 69, 70}
    samples = [(second * S, ["a hole"] if second in wrong else []) for second in range(11, 71)]

    directory = journal(tmp_path, events=events, samples=samples)
    ends_us = read(directory, "scripted_events")["to_us"].to_numpy()
    repairs_s, unrepaired = repair_times_s(directory, ends_us, 70 * S)

    assert repairs_s == [3.0, 0.0, 2.0], "what was never repaired lasts until the end"
    assert unrepaired == 1


def found_of(tmp_path, events, wrong, timeline=COURSE):
    samples = [(second * S, ["a hole"] if second in wrong else []) for second in range(10, 71)]
    return change(
        journal(tmp_path, events=events, samples=samples),
        timeline,
        ContractChecker([], [], Notices.of([]), {}),
        [],
    )


def test_joins_and_leaves_do_not_hide_how_long_the_repair_after_a_crash_takes(tmp_path):
    """A crash at 10 s, repaired at 30; four joins and leaves later on, in order after a second, one after three."""
    joins = [ScriptedEvent(at, at, "join", (8,)) for at in (25, 30, 35)]
    events = [ScriptedEvent(0, 0, "crash", (1,)), *joins, ScriptedEvent(40, 40, "leave", (2,))]
    found = found_of(tmp_path, events, {*range(10, 30), 35, 40, 45, 50, 51, 52})

    assert (found.repair_s_median, found.repair_s_max) == (20.0, 20.0)
    assert found.settle_s_max == 3.0
    assert (found.sudden, found.unrepaired) == (1, 0)


@pytest.mark.parametrize("kind", ["crash", "fail", "restart", "freeze", "split"])
def test_whatever_comes_without_a_word_has_to_be_repaired(tmp_path, kind):
    to_s = 4 if kind in LASTING else 0
    events = [ScriptedEvent(0, to_s, kind, (1,)), ScriptedEvent(20, 20, "join", (8,))]
    found = found_of(tmp_path, events, {*range(10, 10 + to_s + 5)})

    assert (found.repair_s_max, found.settle_s_max, found.sudden) == (5.0, 0.0, 1)


def test_where_peers_only_join_and_leave_repair_is_theirs(tmp_path):
    events = [
        ScriptedEvent(0, 0, "join", (8,)),
        ScriptedEvent(5, 5, "leave", (1,)),
        ScriptedEvent(9, 9, "leave", (2,)),
    ]
    found = found_of(tmp_path, events, {10, 15, 16, 19})

    assert (found.repair_s_median, found.repair_s_max, found.settle_s_max, found.sudden) == (
        1.0,
        2.0,
        2.0,
        0,
    )


def test_a_rest_of_less_than_a_minute_says_nothing_about_upkeep(tmp_path):
    incarnations, sends = (
        {0: PeerIncarnation(0, 0)},
        [(second, UPKEEP) for second in range(10, 100)],
    )
    written, judge = (
        journal(tmp_path, sends, incarnations=incarnations),
        ContractChecker([], [], Notices.of([]), {}),
    )

    short = change(written, Timeline(10 * S, 20 * S, 30 * S, 90 * S - 1), judge, [])
    long = change(written, Timeline(10 * S, 20 * S, 30 * S, 90 * S), judge, [])

    assert isnan(short.upkeep_at_rest)
    assert short.described()["upkeep_at_rest"] is None
    assert short.upkeep_per_peer_minute == pytest.approx(60, rel=0.02), (
        "over the whole time it is known"
    )
    assert long.upkeep_at_rest == long.described()["upkeep_at_rest"] == pytest.approx(60)


def test_upkeep_counts_over_the_time_that_peers_were_there(tmp_path):
    incarnations = {
        0: PeerIncarnation(0, 0),
        1: PeerIncarnation(0, 0, to_us=40 * S, end="crashed"),
        2: PeerIncarnation(55 * S, 56 * S),
        3: PeerIncarnation(0, 0, 4 * S, 5 * S, "left"),
    }
    sends = [(5, UPKEEP), (15, UPKEEP), (20, JOIN), (30, UPKEEP), (60, UPKEEP), (61, 0)]

    found = upkeep_per_peer_minute(
        journal(tmp_path, sends, incarnations=incarnations), COURSE.from_us, COURSE.end_us
    )

    assert found == pytest.approx(3 / ((60 + 30 + 15) / 60))


def test_a_storm_is_the_busiest_second_over_the_mean(tmp_path):
    sends = [(5, UPKEEP)] * 50 + [(second, UPKEEP) for second in range(10, 70)] + [(33.5, 0)] * 29

    assert storm(journal(tmp_path, sends), COURSE) == pytest.approx(30 / ((60 + 29) / 60))


def registered(peer, version=1, completed=5, description=SAMBA, begun=0):
    return Registration(peer, version, begun, description, completed)


def test_casts_are_judged_during_and_after_change(tmp_path):
    casts = [Cast(0, 9, 15 * S, TO_SAMBA), Cast(1, 9, 40 * S, TO_SAMBA)]
    told = Notices.of([(0, 1, 16 * S), (1, 1, 41 * S), (1, 2, 41 * S)])
    judge = ContractChecker(casts, [registered(1), registered(2)], told, {})

    found = change(journal(tmp_path), COURSE, judge, [])

    assert (found.during.missing, found.during.delivery_ratio) == (1, 0.5)
    assert (found.after.missing, found.after.delivery_ratio) == (0, 1.0)
    assert found.contract_held, "what is missing during change is measured, not promised"


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ([(0, 1, 16), (0, 1, 17), (1, 1, 41)], False),
        ([(0, 1, 16), (0, 3, 17), (1, 1, 41)], False),
        ([(0, 1, 16)], False),
        ([(1, 1, 41)], True),
    ],
)
def test_nobody_is_told_wrongly_even_during_change(tmp_path, told, kept):
    casts = [Cast(0, 9, 15 * S, TO_SAMBA), Cast(1, 9, 40 * S, TO_SAMBA)]
    notices = Notices.of([(cast, peer, time * S) for cast, peer, time in told])

    found = change(
        journal(tmp_path), COURSE, ContractChecker(casts, [registered(1)], notices, {}), []
    )

    assert found.contract_held is kept


@pytest.mark.parametrize(("clean_s", "kept"), [(25, True), (30, True), (31, False), (99, False)])
def test_invariants_must_hold_again_in_time(tmp_path, clean_s, kept):
    """The last event was over at 20 s, and the design allows itself 10."""
    samples = [(second * S, ["a hole"] if second < clean_s else []) for second in range(10, 71)]

    found = change(
        journal(tmp_path, samples=samples), COURSE, ContractChecker([], [], Notices.of([]), {}), []
    )

    assert found.contract_held is kept


def test_a_complaint_breaks_the_promise(tmp_path):
    assert not change(
        journal(tmp_path), COURSE, ContractChecker([], [], Notices.of([]), {}), ["7 never joined"]
    ).contract_held


def test_who_crashed_within_the_flight_is_not_expected():
    cast = Cast(0, 9, 10 * S, TO_SAMBA)

    for crashed_us, expected in ((5 * S, 0), (20 * S, 0), (10 * S + FLIGHT_US + 1, 1)):
        report = ContractChecker(
            [cast], [registered(1)], Notices.of([]), for_good({1: crashed_us})
        ).report()
        assert report.expected == report.missing == expected


def test_a_cast_is_excused_when_its_publisher_was_gone_before_it_was_finished():
    def judged(gone_us, settled_us=None):
        cast = Cast(0, 9, 10 * S, TO_SAMBA, settled_us)
        told = Notices.of([(0, 1, 11 * S)])
        return ContractChecker(
            [cast], [registered(1), registered(2)], told, for_good({9: gone_us})
        ).report()

    assert (judged(12 * S).missing, judged(12 * S).excused, judged(12 * S).expected) == (0, 1, 1)
    assert judged(12 * S, settled_us=11 * S).missing == 1, (
        "it knew how the cast ended, so nothing excuses it"
    )
    assert judged(12 * S, settled_us=13 * S).excused == 1
    assert judged(10 * S + FLIGHT_US + 1).missing == 1


def test_nothing_excuses_a_repeat():
    cast = Cast(0, 9, 10 * S, TO_SAMBA)

    twice = Notices.of([(0, 1, 11 * S)] * 2)
    assert (
        ContractChecker([cast], [registered(1)], twice, for_good({9: 10 * S})).report().repeated
        == 1
    )


def test_late_is_counted():
    cast = Cast(0, 9, 10 * S, TO_SAMBA)
    told = [(0, 1, 10 * S + LATE_US), (0, 2, 10 * S + LATE_US + 1)]

    assert (
        ContractChecker([cast], [registered(1), registered(2)], Notices.of(told), {}).report().late
        == 1
    )


def test_who_has_left_must_not_be_told():
    left = [registered(1), registered(1, 2, completed=9 * S, description=None, begun=8 * S)]
    cast = Cast(0, 9, 10 * S, TO_SAMBA)

    assert (
        ContractChecker([cast], left, Notices.of([(0, 1, 11 * S)]), for_good({1: 8 * S}))
        .report()
        .uninvited
        == 1
    )
    assert ContractChecker([cast], left, Notices.of([]), for_good({1: 8 * S})).report().clean
