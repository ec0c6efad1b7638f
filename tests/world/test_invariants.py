"""The laws of the contract are told apart, and a broken one is seen."""

from implicast.language.target import Description, Target, Term
from implicast.world import invariants
from implicast.world.application import Cast, Registration
from implicast.world.invariants import FLIGHT_US, ContractReport, Notices

SAMBA = Description(("samba",))
JAZZ = Description(("jazz",))
TO_SAMBA = Target((Term(("samba",)),))


def judge(casts, registrations, told) -> ContractReport:
    return invariants.judge(casts, registrations, Notices.of(told))


def registered(peer, description=SAMBA, version=1, begun=0, completed=5) -> Registration:
    return Registration(peer, version, begun, description, completed)


def cast_at(time_us: int, number: int = 0, target: Target = TO_SAMBA) -> Cast:
    return Cast(number, 9, time_us, target)


def test_everyone_selected_once_is_clean():
    verdict = judge(
        [cast_at(10)], [registered(1), registered(2), registered(3, JAZZ)], [(0, 1, 20), (0, 2, 20)]
    )

    assert verdict.clean
    assert (verdict.expected, verdict.notified) == (2, 2)


def test_who_is_not_told_is_missing():
    assert judge([cast_at(10)], [registered(1)], []).missing == 1


def test_twice_is_repeated():
    assert judge([cast_at(10)], [registered(1)], [(0, 1, 20), (0, 1, 30)]).repeated == 1


def test_who_does_not_fit_is_uninvited():
    assert judge([cast_at(10)], [registered(1, JAZZ)], [(0, 1, 20)]).uninvited == 1


def test_who_never_registered_is_uninvited():
    assert judge([cast_at(10)], [], [(0, 1, 20)]).uninvited == 1


def test_a_cast_of_nobody_or_of_the_future_is_invented():
    assert judge([cast_at(10)], [registered(1)], [(-1, 1, 20), (0, 1, 5)]).invented == 2


def test_a_registration_in_flight_may_or_may_not_be_told():
    inflight = registered(1, begun=8, completed=15)

    assert judge([cast_at(10)], [inflight], []).clean
    assert judge([cast_at(10)], [inflight], [(0, 1, 20)]).clean
    assert judge([cast_at(10)], [registered(1, completed=None)], []).clean


def test_a_change_in_flight_excuses_both_outcomes():
    changing = [registered(1), registered(1, JAZZ, version=2, begun=12, completed=18)]

    assert judge([cast_at(10)], changing, []).clean
    assert judge([cast_at(10)], changing, [(0, 1, 15)]).clean


def test_a_change_between_two_fitting_descriptions_excuses_nothing():
    changing = [
        registered(1),
        registered(1, Description(("jazz", "samba")), version=2, begun=12, completed=18),
    ]

    assert judge([cast_at(10)], changing, []).missing == 1


def test_a_completed_withdrawal_ends_the_invitation():
    gone = [registered(1), registered(1, None, version=2, begun=6, completed=9)]

    assert judge([cast_at(10)], gone, []).clean
    assert judge([cast_at(10)], gone, [(0, 1, 20)]).uninvited == 1


def test_a_change_long_after_the_cast_excuses_nothing():
    late = 10 + FLIGHT_US + 1
    changing = [registered(1), registered(1, JAZZ, version=2, begun=late, completed=late + 5)]

    assert judge([cast_at(10)], changing, []).missing == 1


def test_negation_counts():
    target = Target((Term(("samba",), ("jazz",)),))
    both = Description(("jazz", "samba"))

    verdict = judge(
        [cast_at(10, target=target)], [registered(1), registered(2, both)], [(0, 1, 20), (0, 2, 20)]
    )

    assert (verdict.expected, verdict.uninvited) == (1, 1)
