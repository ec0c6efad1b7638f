"""At most once per cast, only what fits, in bounded memory."""

from random import Random

from implicast.casting.inbox import PUBLISHERS_MAX, WINDOW, Seen
from implicast.peer.contract import CastId


def test_the_first_meeting_counts_and_no_other():
    seen = Seen()

    assert seen.first(CastId(1, 5))
    assert not seen.first(CastId(1, 5))
    assert seen.first(CastId(2, 5))


def test_casts_may_overtake_each_other_within_the_window():
    rng = Random(4)
    seen, met = Seen(), set()
    for start in range(0, 2000, 50):
        serials = [rng.randrange(start, start + 200) for _ in range(100)]
        for serial in serials:
            assert seen.first(CastId(1, serial)) == (serial not in met)
            met.add(serial)


def test_what_lies_below_the_window_counts_as_heard():
    seen = Seen()
    seen.first(CastId(1, 1000))

    assert not seen.first(CastId(1, 1000 - WINDOW))
    assert seen.first(CastId(1, 1000 - WINDOW + 1))


def test_the_publisher_idle_for_longest_is_forgotten_first():
    seen = Seen()
    for publisher in range(PUBLISHERS_MAX + 1):
        seen.first(CastId(publisher, 1))

    assert not seen.first(CastId(1, 1))
    assert seen.first(CastId(0, 1))
