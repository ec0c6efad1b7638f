"""Both sides of a range handoff: parts, acknowledgements, attempts, abort."""

from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.handoff import TRANSITIONS, IncomingRange, OutgoingRange, RangeState, in_parts


@given(st.lists(st.integers()), st.integers(1, 9))
def test_the_parts_of_a_range_are_the_range(items, most) -> None:
    parts = list(in_parts(items, most))

    assert [part for part, _, _ in parts] == list(range(len(parts)))
    assert {count for _, count, _ in parts} == {len(parts)}
    assert [item for _, _, some in parts for item in some] == items
    assert all(len(some) <= most for _, _, some in parts)


@given(st.lists(st.integers(), max_size=20), st.integers(1, 4), st.integers(0, 3), st.randoms())
def test_a_range_arrives_whatever_parts_are_lost(items, most, window, chance) -> None:
    sender: OutgoingRange[int] = OutgoingRange(tries_max=1_000, window=window)
    receiver, arrived, number = IncomingRange(tries_max=1), {}, 0
    while not sender.is_complete:
        number += 1
        assert sender.start(number, items, most)
        while due := sender.due():
            assert not window or len(due) <= window
            for part, parts, some in due:
                if receiver.state is RangeState.IDLE:
                    receiver.start(1)
                if chance.random() < 0.7:
                    arrived[part] = some
                    receiver.put(1, part, parts)
                    if chance.random() < 0.7:
                        sender.acknowledge(number, part)

    assert receiver.is_complete
    assert [item for _, some in sorted(arrived.items()) for item in some] == items


def test_acknowledgements_of_an_earlier_attempt_do_not_count() -> None:
    sender: OutgoingRange[str] = OutgoingRange(tries_max=2)
    sender.start(1, "ab", 1)
    assert not sender.acknowledge(1, 0)
    sender.start(2, "ab", 1)

    assert not sender.acknowledge(1, 1), "of the first attempt"
    assert not sender.acknowledge(2, 1)
    assert sender.acknowledge(2, 0)
    assert not sender.acknowledge(2, 0), "it is complete once"


def test_a_part_that_cannot_be_is_ignored() -> None:
    receiver = IncomingRange(tries_max=1)
    receiver.start(1)

    assert not receiver.put(1, 3, 3)
    assert receiver.state is RangeState.RUNNING


def test_after_enough_attempts_a_side_gives_up_until_the_handoff_is_aborted() -> None:
    for side, start in (
        (receiver := IncomingRange(2), lambda: receiver.start(1)),
        (sender := OutgoingRange(2), lambda: sender.start(1, "a", 1)),
    ):
        assert [start() for _ in range(3)] == [True, True, False]
        assert side.state is RangeState.FAILED
        side.abort()
        assert start()


def test_one_part_at_a_time_waits_for_its_acknowledgement() -> None:
    sender: OutgoingRange[str] = OutgoingRange(tries_max=1, window=1)
    sender.start(1, "abc", 1)

    assert sender.due() == [(0, 3, ("a",))]
    assert sender.due() == []
    sender.acknowledge(1, 0)
    assert sender.due() == [(1, 3, ("b",))]


def test_every_state_is_reached_by_the_table() -> None:
    assert {*TRANSITIONS.values(), RangeState.IDLE} == set(RangeState)
