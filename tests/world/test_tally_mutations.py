"""A journal so small that every measure can be counted by hand; and each rule of the tally switched off is noticed.

Four peers at routers 0 0 1 1, one link each way between the routers. A cast to warm up, then two casts of peer 0:

    cast 1   0 -> 1 -> 2     1 and 2 are told after 10 and 30 ms, at depths 1 and 2; 1 sends 2 a second message
    cast 2   0 -> 3, lost; 0 -> 3 again, told after 50 ms, depth 1; 3 -> 2, for nothing
"""

from pathlib import Path

import numpy as np
import pytest

from implicast.language.parse import parse
from implicast.world import tally as tallying
from implicast.world.application import Cast, _cast_columns
from implicast.world.journal import UPKEEP, Journal
from implicast.world.tally import Loads, _median, _quantile, messages, tally

WARM, FIRST, SECOND = 0, 1, 2
SENDS = [
    # purpose, sender, receiver, arrives
    (WARM, 3, 2, True),
    (WARM, 2, 1, True),
    (WARM, 2, 0, True),
    (FIRST, 0, 1, True),
    (FIRST, 1, 2, True),
    (FIRST, 1, 2, True),
    (SECOND, 0, 3, False),
    (SECOND, 0, 3, True),
    (SECOND, 3, 2, True),
    (UPKEEP, 2, 3, True),
]
NOTICES = [
    # cast, peer, milliseconds after it, depth
    (WARM, 2, 900, 9),
    (FIRST, 1, 10, 1),
    (FIRST, 2, 30, 2),
    (SECOND, 3, 50, 1),
    (-1, 3, 700, 7),
]


def written(directory: Path) -> Path:
    journal = Journal(directory / "run", warm_up=1)
    journal.kinds.append("Word")
    for serial, (purpose, sender, receiver, arrives) in enumerate(SENDS):
        journal.send(
            serial, 0, serial, serial + 1 if arrives else -1, sender, receiver, purpose, 1, 40, 0
        )
    for cast, peer, later_ms, depth in NOTICES:
        journal.notice(0, 1_000_000 * max(0, cast) + later_ms * 1000, peer, cast, depth)
    casts = [
        Cast(number, 3 if number == WARM else 0, number * 1_000_000, parse("jazz"))
        for number in range(3)
    ]
    casts[WARM].warm_up = True
    journal.columns("casts", _cast_columns(casts))
    journal.table("registrations", [])
    journal.table(
        "peers",
        [
            {
                "peer": peer,
                "role": "peer",
                "router": peer // 2,
                "access_us": 0,
                "storage_bytes": size,
                "capacity": capacity,
            }
            for peer, (size, capacity) in enumerate(((0, 1.0), (10, 2.0), (20, 1.0), (50, 4.0)))
        ],
    )
    journal.table(
        "links",
        [
            {"link": 0, "source": 0, "target": 1, "latency_us": 1},
            {"link": 1, "source": 1, "target": 0, "latency_us": 1},
        ],
    )
    journal.table(
        "paths",
        [
            {"source_router": 0, "target_router": 1, "position": 0, "link": 0},
            {"source_router": 1, "target_router": 0, "position": 0, "link": 1},
        ],
    )
    journal.finish()
    journal.close()
    return directory / "run"


def gini(*loads: float) -> float:
    """Mean difference of all pairs over twice the mean."""
    differences = sum(abs(one - other) for one in loads for other in loads)
    return differences / (2 * len(loads) * sum(loads))


BY_HAND = {
    # out: cast 1: 0 sends its own first; 1 sends two. Cast 2: 0 sends one beyond its first (lost, but sent); 3 one.
    "TOUT_M": 2,
    "POUT_M": 2,
    "TOUT_G": gini(1, 2, 0, 1),
    # in: 1 expects its one; 2 gets two and expects one; in cast 2 3 expects the one that came; 2 expects nothing.
    "TIN_M": 2,
    "PIN_M": 1,
    "TIN_G": gini(0, 0, 2, 0),
    "TOUT_capacity_G": gini(1, 1, 0, 0.25),
    "STOR_M": 50,
    "STOR_G": gini(0, 10, 20, 50),
    # links: 0 -> 1 between routers carries two of each cast; access links up: 0 one and two, 1 two, 3 one; down:
    # 1 one, 2 two and one, 3 two, the lost one included.
    "PINK_M": 2,
    "TINK_M": 4,
    "TINK_G": gini(4, 0, 3, 2, 0, 1, 0, 1, 3, 2),
    "TINK_used_G": gini(4, 3, 2, 1, 1, 3, 2),
    "TINK_router_G": gini(4, 0),
    "RTH": (3 / 3 + 3 / 2) / 2,
    "RAH": (1.5 / 2 + 1 / 2) / 2,
    "RMH": (2 / 2 + 1 / 2) / 2,
    "latency_ms_mean": 30.0,
    "latency_ms_median": 30.0,
    "latency_ms_p99": 49.6,
    "latency_ms_max": 50.0,
}


def test_every_measure_is_what_one_counts_by_hand(tmp_path):
    found = tally(written(tmp_path))

    assert found == pytest.approx(BY_HAND)
    assert messages(tmp_path / "run")["messages"] == {"cast": 6, "upkeep": 1, "warm-up": 3}


load = tallying.load


def loaded(**columns):
    """A trace with some columns made of the others."""
    from dataclasses import replace

    return lambda journal: (
        lambda trace: replace(trace, **{name: of(trace) for name, of in columns.items()})
    )(load(journal))


def floorless(self, keys):
    return Loads(self.key, self.count - np.isin(self.key, keys) - 1)


MUTATIONS = {
    "a publisher's own message is load": ("_publishers_first", lambda trace: np.empty(0, np.int64)),
    "what is lost came in": ("load", loaded(lost=lambda trace: np.zeros_like(trace.lost))),
    "what is lost was not sent": (
        "load",
        loaded(
            cast=lambda trace: trace.cast[~trace.lost],
            sender=lambda trace: trace.sender[~trace.lost],
            receiver=lambda trace: trace.receiver[~trace.lost],
            lost=lambda trace: trace.lost[~trace.lost],
        ),
    ),
    "notices count as load": ("load", loaded(notice_peer=lambda trace: trace.notice_peer * 0)),
    "depths do not matter": ("load", loaded(notice_depth=lambda trace: trace.notice_depth * 0 + 1)),
    "casts begin at once": ("load", loaded(cast_us=lambda trace: trace.cast_us * 0)),
    "everybody behind one router": ("load", loaded(router=lambda trace: trace.router * 0)),
    "the idle do not count": ("gini", lambda values: float(tallying_gini(values[values > 0]))),
    "the largest is the last": ("_largest", lambda values: int(values[-1]) if len(values) else 0),
    "means of nothing": ("_mean", lambda values: 0.0),
}
tallying_gini = tallying.gini


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_tally_that_is_bent_is_noticed(name, tmp_path, monkeypatch):
    attribute, value = MUTATIONS[name]
    monkeypatch.setattr(tallying, attribute, value)

    assert tally(written(tmp_path)) != pytest.approx(BY_HAND)


def test_loads_below_zero_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(Loads, "less", floorless)

    assert tally(written(tmp_path)) != pytest.approx(BY_HAND)


def test_casts_to_warm_up_that_are_measured_are_noticed(tmp_path):
    journal = written(tmp_path)
    assert tally(journal) == pytest.approx(BY_HAND)
    found = load(journal)

    assert len(found.publisher) == 2
    assert found.notice_cast.min() == 0


@pytest.mark.parametrize("count", [1, 2, 3, 4, 17, 100, 101, 202])
def test_median_and_quantile_are_numpys_to_the_last_bit(count: int) -> None:
    chance = np.random.default_rng(count)
    for _ in range(20):
        values = chance.integers(0, 10**6, count) / 1000

        assert _median(values) == float(np.median(values))
        assert _quantile(values, 0.99) == float(np.percentile(values, 99))
    assert (_median(values[:0]), _quantile(values[:0], 0.99)) == (0.0, 0.0)
