"""The slotted agenda keeps exactly the order of one plain heap."""

from heapq import heappop, heappush

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
            assert agenda.take(expected[0] - 1) is None
            assert agenda.take(expected[0]) == expected
            now_us = expected[0]
    rest = []
    while agenda:
        rest.append(agenda.take())
    assert rest == sorted(heap)
    assert agenda.take() is None
