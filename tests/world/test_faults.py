"""Hardship is drawn as often as it was asked for, the same every time, and nonsense is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicast.peer.errors import ParameterError
from implicast.world.faults import Faults, FaultStream, Partition

MESSAGES = 20_000


def fates(faults: Faults, seed: int = 1) -> list[tuple[int, ...]]:
    stream = FaultStream(faults, seed)
    return [
        stream.copy_delays_us(number, number % 7, number % 5, 10_000) for number in range(MESSAGES)
    ]


def share(found: list[bool]) -> float:
    return sum(found) / len(found)


def test_a_kind_network_carries_everything_once_and_in_time():
    assert set(fates(Faults())) == {(10_000,)}


def test_messages_are_lost_as_often_as_said():
    assert share(
        [not copy_delays_us for copy_delays_us in fates(Faults(loss=0.1))]
    ) == pytest.approx(0.1, rel=0.1)


def test_messages_are_repeated_as_often_as_said_and_the_copy_is_never_first():
    found = fates(Faults(duplicate=0.05))

    assert share([len(copy_delays_us) == 2 for copy_delays_us in found]) == pytest.approx(
        0.05, rel=0.15
    )
    assert all(copy_delays_us[0] <= copy_delays_us[-1] for copy_delays_us in found)


def test_some_messages_are_held_back_within_the_range():
    found = [
        copy_delays_us[0] - 10_000 for copy_delays_us in fates(Faults(delay=0.2, delay_ms=(50, 70)))
    ]

    late = [us for us in found if us]
    assert share([bool(us) for us in found]) == pytest.approx(0.2, rel=0.1)
    assert 50_000 <= min(late) < 51_000 < 69_000 < max(late) <= 70_000


def test_reordering_lets_messages_overtake_and_jitter_spreads_them():
    overtaken = [copy_delays_us[0] for copy_delays_us in fates(Faults(reorder=0.3))]
    spread = [copy_delays_us[0] for copy_delays_us in fates(Faults(jitter=0.5))]

    assert share([us > 10_000 for us in overtaken]) == pytest.approx(0.3, rel=0.1)
    assert max(overtaken) <= 40_000
    assert min(spread) >= 10_000
    assert max(spread) <= 15_000


def test_the_same_seed_draws_the_same_fates():
    faults = Faults.parse("loss=0.1,duplicate=0.1,reorder=0.5,delay=0.1")

    assert fates(faults, 3) == fates(faults, 3)
    assert fates(faults, 3) != fates(faults, 4)


def test_a_partition_cuts_two_sides_apart_while_it_lasts():
    stream = FaultStream(Faults(partitions=(Partition(1.0, 2.0, apart=(1, 2)),)), 1)

    def arrives(now_s: float, sender: int, receiver: int) -> bool:
        return bool(stream.copy_delays_us(int(now_s * 1e6), sender, receiver, 10))

    assert arrives(0.999, 1, 3)
    assert not arrives(1.0, 1, 3)
    assert not arrives(1.5, 3, 2)
    assert arrives(1.5, 1, 2)
    assert arrives(1.5, 3, 4)
    assert arrives(2.0, 1, 3)


def test_a_partition_by_share_keeps_each_host_on_one_side():
    stream = FaultStream(Faults(partitions=(Partition(0, 10, 0.3),)), 5)
    with_zero = [bool(stream.copy_delays_us(1, 0, host, 10)) for host in range(1, 2000)]

    assert share(with_zero) == pytest.approx(0.3, abs=0.04) or share(with_zero) == pytest.approx(
        0.7, abs=0.04
    )
    for a, b in ((1, 2), (3, 4), (5, 6)):
        assert bool(stream.copy_delays_us(1, a, b, 10)) == (with_zero[a - 1] == with_zero[b - 1])


shares = st.floats(0, 1)
times = st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)).map(sorted).map(tuple)
partitions = st.builds(
    lambda time, share, apart: Partition(*time, 0.5 if apart else share, apart),
    times,
    shares,
    st.lists(st.integers(0, 9), unique=True).map(tuple),
)


@given(
    st.builds(
        Faults,
        loss=shares,
        duplicate=shares,
        delay=shares.filter(bool),
        delay_ms=times,
        reorder=shares,
        jitter=shares,
        partitions=st.lists(partitions, max_size=3).map(tuple),
    )
)
def test_what_is_written_is_read_back(faults):
    assert Faults.parse(faults.text()) == faults


def test_a_kind_network_is_written_as_nothing():
    assert Faults().text() == ""
    assert Faults.parse("") == Faults()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("loss=2", "loss=2 is out of range; it takes a share from 0 to 1"),
        ("loss=-0.1", "out of range"),
        ("loss=nan", "not a number"),
        ("loss=many", "loss=many is not a number"),
        ("loss", "'loss' is not understood"),
        ("rain=0.5", "'rain=0.5' is not understood; it takes loss, duplicate"),
        ("delay_ms=5", "takes LOW..HIGH"),
        ("delay_ms=9..5", "the lower first"),
        ("partition=5..1", "the earlier first"),
        ("partition=1..5:1.5", "a share from 0 to 1"),
        ("partition=1..5:@a+b", "takes hosts as @1"),
        ("jitter=-1", "jitter=-1 is out of range"),
    ],
)
def test_nonsense_is_refused(text, says):
    with pytest.raises(ParameterError, match=says):
        Faults.parse(text)
