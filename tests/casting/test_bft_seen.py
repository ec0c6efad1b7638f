"""The table of what was met: bounded, and without a way back for what it forgot."""

from implicast.casting.bft.validator import SKEW_US, SeenTable

WINDOW_US = 60_000_000


def meet(
    table: SeenTable[str],
    query: int,
    sent_us: int,
    now_us: int,
    source: bytes = b"s",
    place: bytes = b"",
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

    for now_us in range(0, WINDOW_US + 3 * SKEW_US, 1_000_000):
        assert meet(table, 1, sent_us, now_us) in ("repeated", "stale")
        meet(table, 2 + now_us, now_us, now_us)  # others come, and the first is forgotten

    assert table.get((1, b"s")) is None


def test_messages_from_the_past_and_from_the_future_are_refused() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US)

    assert meet(table, 1, sent_us=0, now_us=WINDOW_US + SKEW_US) == "stale"
    assert meet(table, 2, sent_us=SKEW_US + 1, now_us=0) == "premature"


def test_one_publisher_cannot_fill_the_table_from_however_many_places() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=100, per_publisher_max=10)

    flaws = [
        meet(table, query, 0, 0, b"flooder", b"%d" % query) for query in range(50)
    ]  # each from another place

    assert flaws == [None] * 10 + ["flooding"] * 40
    assert meet(table, 1, 0, 0, b"honest") is None
    later_us = WINDOW_US + 2 * SKEW_US + 1
    assert meet(table, 99, later_us, later_us, b"flooder") is None, (
        "the share is free again after the window"
    )


def test_a_full_table_hurts_those_who_fill_it_and_nobody_else() -> None:
    """A gang that dates its casts ahead once moved everybody's horizon there: all others were stale for as long. Red
    when all publishers share one horizon."""
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=100, per_publisher_max=20)
    assert meet(table, 0, sent_us=0, now_us=0, source=b"honest") is None
    for each in range(16 * 20):
        meet(
            table,
            10_000 + each,
            sent_us=SKEW_US - 100_000,
            now_us=1,
            source=b"liar %d" % (each % 16),
        )

    assert len(table) <= 100
    assert meet(table, 0, sent_us=0, now_us=1, source=b"honest") == "repeated", (
        "what it cast before is still known"
    )
    assert meet(table, 1, sent_us=1, now_us=1, source=b"honest") is None
    assert meet(table, 2, sent_us=1, now_us=1, source=b"a newcomer") is None
    assert meet(table, 3, sent_us=2, now_us=2, source=b"liar 0") == "stale", "it has moved its own"


def test_what_a_full_table_forgets_does_not_come_back() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=100)
    for each in range(150):
        assert meet(table, each, sent_us=each, now_us=200) is None

    known = [meet(table, each, each, 200) for each in range(150)]
    assert set(known) == {"stale", "repeated"}
    assert len(table) <= 100


def test_long_payloads_count_for_more() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, per_publisher_max=100)
    for each in range(3):
        table.record((each, b"s"), b"s", each, 10, "met", 32 * 1_024)

    assert table.flaw(b"s", 10, 10) is None
    table.record((3, b"s"), b"s", 3, 10, "met", 32 * 1_024)
    assert table.flaw(b"s", 10, 10) == "flooding"


def test_memory_stays_flat_in_a_flood() -> None:
    table: SeenTable[str] = SeenTable(WINDOW_US, entries_max=1_000, per_publisher_max=100)
    for each in range(20_000):
        meet(table, each, sent_us=each, now_us=each, source=b"%d" % (each % 500))

    assert len(table) <= 1_000
    assert len(table._weights) <= 500
    assert sum(map(len, table._theirs.values())) == len(table)
