"""The memory of casts against a table that holds each cast with its time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.peer.contract import CastId
from implicast.peer.memory import PERIOD_US, Seen
from implicast.peer.name import name_of
from implicast.peer.wire import pack

NAMES = [name_of(b"law", number) for number in range(3)]
CASTS = st.builds(
    CastId, st.sampled_from(NAMES), st.integers(1, 2), st.sampled_from([0, 1, 63, 64, 1023, 1024])
)
STEPS = st.lists(
    st.tuples(CASTS, st.integers(0, 8 * PERIOD_US), st.integers(0, PERIOD_US), st.booleans()),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS)
def test_a_cast_is_new_once_until_its_time_and_forgotten_a_period_later(steps) -> None:
    seen, until, now_us = Seen(), dict[CastId, int](), 0
    for cast, lifetime_us, waited_us, restarts in steps:
        now_us += waited_us
        if restarts:
            seen = Seen(seen.blocks(), now_us=now_us)
        is_new = seen.first(cast, now_us + lifetime_us, now_us)
        if until.get(cast, -1) >= now_us:
            assert not is_new, "never forgotten before its time"
        if is_new:
            until[cast] = now_us + lifetime_us
        assert seen.met(cast)
        assert all(map(seen.met, (each for each, end_us in until.items() if end_us >= now_us)))
    later_us = max(until.values(), default=0) + PERIOD_US
    after = Seen(seen.blocks(), now_us=later_us)
    assert not any(map(after.met, until)), "forgotten at the latest a period after its time"
    assert not len(after)


@settings(deadline=None)
@given(
    st.integers(2, 20),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1 << 20), st.integers(0, 3)), max_size=80),
)
def test_the_memory_is_bounded_and_forgets_nothing_for_a_newcomer(bound, steps) -> None:
    seen, taken = Seen(bound=bound), list[CastId]()
    for who, serial, periods in steps:
        cast = CastId(name_of(b"law", who), 1, serial)
        if seen.first(cast, (periods + 1) * PERIOD_US, 0):
            taken.append(cast)
        assert len(seen) <= bound
        assert all(map(seen.met, taken))
    assert len(pack(seen.blocks())) <= 3 + 100 * len(taken)
    assert all(map(Seen(seen.blocks()).met, taken))
