"""The table of what was met: bounded, and without a way back for what it forgot."""

from implicast.casting.bft.seen import SKEW_US, SeenTable

WINDOW_US = 60_000_000


def meet(
    table: SeenTable[str], query: int, sent_us: int, now_us: int, source: bytes = b"s", place: bytes = b""
) -> str | None:
    """As a receiver does: refused or recorded."""
    if table.get((query, source + place)) is not None:
        return "repeated"
    flaw = table.flaw(source, sent_us, now_us)
    if flaw is None:
        table.record((query, source + place), source, sent_us, now_us, "met")
    return flaw


def test_a_repeat_within_the_window_is_known() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US)

    assert meet(table, 1, sent_us=0, now_us=10) is None
    assert meet(table, 1, sent_us=0, now_us=WINDOW_US - 1) == "repeated"


def test_the_same_number_of_another_source_is_another_message() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US)

    assert meet(table, 1, 0, 0, b"one") is None
    assert meet(table, 1, 0, 0, b"other") is None


def test_what_the_table_forgets_is_too_old_to_come_back() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US)
    sent_us = SKEW_US  # a clock that is ahead as far as clocks may be
    assert meet(table, 1, sent_us, now_us=0) is None

    for now_us in range(0, 3 * WINDOW_US, 1_000_000):
        assert meet(table, 1, sent_us, now_us) in ("repeated", "stale")
        meet(table, 2 + now_us, now_us, now_us)  # others come, and the first is forgotten

    assert table.get((1, b"s")) is None


def test_messages_from_the_past_and_from_the_future_are_refused() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US)

    assert meet(table, 1, sent_us=0, now_us=WINDOW_US) == "stale"
    assert meet(table, 2, sent_us=SKEW_US + 1, now_us=0) == "premature"


def test_one_publisher_cannot_fill_the_table_from_however_many_places() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=100, per_publisher_max=10)

    flaws = [meet(table, query, 0, 0, b"flooder", b"%d" % query) for query in range(50)]  # each from another place

    assert flaws == [None] * 10 + ["flooding"] * 40
    assert meet(table, 1, 0, 0, b"honest") is None
    assert meet(table, 99, 2 * WINDOW_US, 2 * WINDOW_US, b"flooder") is None, "the share is free again after the window"


def test_a_full_table_moves_its_horizon_instead_of_forgetting() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=100)
    for each in range(150):
        assert meet(table, each, sent_us=each, now_us=200, source=b"%d" % each) is None

    assert len(table) == 100
    assert [meet(table, each, each, 200, b"%d" % each) for each in range(50)] == ["stale"] * 50
    assert meet(table, 1000, sent_us=49, now_us=200, source=b"late but honest") == "stale"
    assert meet(table, 1001, sent_us=60, now_us=200, source=b"newer than the horizon") is None


def test_memory_stays_flat_in_a_flood() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=1_000, per_publisher_max=100)
    for each in range(20_000):
        meet(table, each, sent_us=each, now_us=each, source=b"%d" % (each % 500))

    assert len(table) <= 1_000
    assert len(table._per_publisher) <= 500
    assert len(table._order) <= 1_000
