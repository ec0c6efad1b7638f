"""Publish/subscribe workloads: drawn by key, skewed as asked, and from real daily bars."""

import os
from collections import Counter
from pathlib import Path

import pytest

from implicast.language.attributes import Schema
from implicast.workload.knobs import WorkloadError
from implicast.workload.pubsub import Ranges, Stocks
from implicast.world.events_run import EventScenario, run_events

DATA = Path(os.environ.get("IMPLICAST_DATA", Path(__file__).parents[3] / "shared" / "data"))
BARS = DATA / "stocks" / "sp500-daily.csv.gz"
needs_bars = pytest.mark.skipif(
    not BARS.exists(), reason=f"no daily bars at {BARS}; set IMPLICAST_DATA"
)


def test_a_subscription_is_the_same_whoever_draws_it_and_when() -> None:
    ranges = Ranges(seed=4, peers=100)

    assert ranges.subscription(17) == Ranges(seed=4, peers=100).subscription(17)
    assert ranges.subscription(17) != ranges.subscription(18)
    assert ranges.subscription(17).peer == ranges.subscription(17, wording=1).peer
    assert ranges.subscription(17).target != ranges.subscription(17, wording=1).target


def test_predicates_stay_within_the_schema() -> None:
    ranges = Ranges(seed=1, peers=10, domain=50, width=30)
    schema = Schema.read(ranges.schema())

    for number in range(300):
        for term in ranges.subscription(number).target.terms:
            for each in term.where:
                assert each.attribute in schema
                if isinstance(each.low, int) and isinstance(each.high, int):
                    assert 0 <= each.low <= each.high < 50


def test_widths_have_the_mean_that_was_asked_for_and_a_heavy_tail() -> None:
    ranges = Ranges(seed=1, peers=10, domain=100_000, width=30, equal=0.0)
    widths = sorted(
        each.high - each.low + 1
        for number in range(3_000)
        for term in ranges.subscription(number).target.terms
        for each in term.where
        if isinstance(each.low, int) and isinstance(each.high, int)
    )

    assert 22 < sum(widths) / len(widths) < 40
    assert widths[-1] > 20 * widths[len(widths) // 2]


def test_skew_makes_some_attributes_popular() -> None:
    def share(skew: float) -> float:
        ranges = Ranges(seed=1, peers=10, skew=skew)
        terms = [term for number in range(500) for term in ranges.subscription(number).target.terms]
        found = Counter(each.attribute for term in terms for each in term.where)
        return found["a0"] / found.total()

    assert share(0.0) < 0.25 < share(1.5)


@needs_bars
def test_daily_bars_become_events_on_an_exact_grid() -> None:
    stocks = Stocks(seed=1, peers=64, path=BARS, symbols=BARS.parent / "symbols.csv")
    schema = Schema.read(stocks.schema())

    assert len(stocks.bars) > 152_000
    event = stocks.event(5).description
    assert [each.attribute for each in event.values] == [
        "exchange",
        "high",
        "low",
        "price",
        "symbol",
    ]
    assert schema.text("price", event.value("price") or 0).count(".") == 1


@needs_bars
def test_a_day_at_the_exchange_reaches_its_followers() -> None:
    stocks = Stocks(seed=1, peers=40, path=BARS, symbols=BARS.parent / "symbols.csv", width=400)
    outcome = run_events(EventScenario("opchord-pubsub", stocks, 40, subscriptions=60, events=150))

    assert outcome.clean, outcome
    assert outcome.expected > 0


def test_a_table_without_bars_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("a,b\n1,2\n")

    with pytest.raises(WorkloadError, match="no daily bars"):
        Stocks(seed=1, peers=4, path=tmp_path / "empty.csv").event(0)
    with pytest.raises(WorkloadError, match="cannot be read"):
        Stocks(seed=1, peers=4, path=tmp_path / "absent.csv").event(0)
