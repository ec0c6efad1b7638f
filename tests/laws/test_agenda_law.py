"""The slotted agenda keeps exactly the order of one plain heap."""

from heapq import heappop, heappush
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.world.agenda import Agenda

HISTORY = st.lists(st.one_of(st.integers(0, 5_000), st.none()), max_size=300)


@settings(max_examples=400)
@given(HISTORY)
def test_any_history_comes_out_as_from_a_plain_heap(history):
    agenda, heap = Agenda(), []
    now_us = 0
    for delay_us in history:
        if delay_us is not None:
            serial = agenda.at(now_us + delay_us, "what")
            heappush(heap, (now_us + delay_us, serial, "what"))
        elif heap:
            expected = heappop(heap)
            assert next(agenda.due(expected[0] - 1), None) is None
            assert next(agenda.due(expected[0])) == expected
            now_us = expected[0]
    assert list(agenda.due()) == sorted(heap)
    assert not agenda


@settings(max_examples=400)
@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=300))
def test_what_is_added_while_one_works_comes_in_its_turn(delays_us):
    agenda, heap, added = Agenda(), [], iter(delays_us)
    heappush(heap, (0, agenda.at(0, "what"), "what"))
    for entry in agenda.due():
        assert entry == heappop(heap)
        for delay_us in islice(added, 2):
            heappush(heap, (entry[0] + delay_us, agenda.at(entry[0] + delay_us, "what"), "what"))
    assert heap == []
