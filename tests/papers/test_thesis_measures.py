"""The worked examples of the thesis, chapter 4: load matrix, storage vector, link matrix, Gini coefficient."""

from pathlib import Path

import numpy as np
import pytest

from implicast.world.journal import JOIN, Journal
from implicast.world.tally import gini, tally

MATRIX = ((12, 2, 15), (1, 0, 9), (35, 1, 21))
"""Tables 4.4 and 4.6: casts by peers, or casts by links."""
STORAGE = (2600, 4800, 3100)
"""Table 4.5."""


def table_4_4(directory: Path) -> Path:
    """A run whose outgoing load is Table 4.4: peers 0 to 2 send so many messages for each of three casts.

    Peer 3 publishes: its own first message is not load. Nobody is notified.
    """
    journal = Journal(directory)
    journal.kinds.append("Go")
    serial = 0
    for cast, row in enumerate(MATRIX):
        for sender, count in ((3, 1), *enumerate(row)):
            for _ in range(count):
                serial += 1
                journal.send(serial, 0, cast, cast + 1, sender, 4, cast, 1, 10, 0)
    journal.send(serial + 1, 0, 0, 1, 0, 1, JOIN, 1, 10, 0)
    journal.finish()
    journal.table(
        "casts",
        [{"cast": cast, "publisher": 3, "time_us": cast, "target": "a"} for cast in range(3)],
    )
    journal.table("registrations", [])
    storage = (*STORAGE, 0, 0)
    journal.table(
        "peers",
        [
            {
                "peer": peer,
                "role": "peer",
                "router": 0,
                "access_us": 1,
                "storage_bytes": storage[peer],
                "capacity": 1.0,
            }
            for peer in range(5)
        ],
    )
    journal.table("links", [])
    journal.table("paths", [])
    journal.close()
    return directory


def test_table_4_4_per_cast_and_total_outgoing_load(tmp_path):
    measures = tally(table_4_4(tmp_path / "run"))

    assert measures["POUT_M"] == 35
    assert measures["TOUT_M"] == 48


def test_the_outgoing_load_of_table_4_4_has_a_gini_of_0_3125():
    assert gini(np.array(MATRIX).sum(axis=0)) == 0.3125


def test_the_storage_of_table_4_5_has_a_gini_of_about_0_14():
    assert gini(np.array(STORAGE)) == pytest.approx(0.1397, abs=5e-5)


def test_table_4_6_packets_per_link_and_in_total(tmp_path):
    """The access links of the three senders carry what Table 4.6 says; that of the receiver carries the sum."""
    measures = tally(table_4_4(tmp_path / "run"))

    received = [1 + sum(row) for row in MATRIX]
    assert measures["PINK_M"] == max(received)
    assert measures["TINK_M"] == sum(received)


def test_equal_loads_are_fair_and_one_bearer_is_not():
    assert gini(np.array([7, 7, 7, 7])) == 0
    assert gini(np.array([0, 0, 0, 9])) == 0.75
    assert gini(np.array([0, 0, 0])) == 0


def test_gini_equals_the_area_between_diagonal_and_lorenz_curve():
    loads = np.sort(np.random.default_rng(5).integers(0, 1000, 400))
    lorenz = np.concatenate([[0], np.cumsum(loads) / loads.sum()])
    area = ((lorenz[1:] + lorenz[:-1]) / 2).sum() / len(loads)

    assert gini(loads) == pytest.approx(1 - 2 * area, abs=1e-12)
