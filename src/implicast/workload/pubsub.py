"""Publish/subscribe workloads: who subscribes to what, what is published. Drawn by key, so any part
can be drawn alone.

`Ranges` is synthetic: numeric attributes of one domain and one text attribute, popular attributes
and values chosen more often (`skew`), widths of ranges heavy-tailed around a mean. `Stocks` takes
its events from daily bars of shares given by path, and subscribes to symbols, exchanges and ranges
of prices as their followers would.
"""

import csv
import gzip
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.space.digest import stream
from implicast.workload.knobs import WorkloadError

TAIL = 1.5
"""Exponent of the widths' Pareto tail: a few subscriptions are many times as wide as most."""


class Request(NamedTuple):
    """A peer subscribes to a target."""

    peer: int
    target: Target


class Publication(NamedTuple):
    """A peer publishes something of this description."""

    peer: int
    description: Description


class PubSubWorkload(Protocol):
    """What a run of publish/subscribe needs."""

    def schema(self) -> str: ...

    def subscription(self, number: int, wording: int = 0) -> Request:
        """Subscription `number`; `wording` above 0: what its peer says later instead."""

    def event(self, number: int) -> Publication: ...


@dataclass(frozen=True, slots=True)
class Ranges:
    """Synthetic subscriptions with ranges."""

    seed: int
    peers: int
    attributes: int = 4
    domain: int = 1000
    """Grid values of each numeric attribute."""
    skew: float = 1.0
    """0: all attributes and values equally popular."""
    width: float = 16.0
    """Mean number of values that a range admits."""
    equal: float = 0.25
    """Share of constraints that ask for one value."""
    words: int = 20
    """Values of the text attribute."""

    def schema(self) -> str:
        numbers = "; ".join(f"a{index}: 0..{self.domain - 1}" for index in range(self.attributes))
        return f"{numbers}; kind: text"

    def subscription(self, number: int, wording: int = 0) -> Request:
        """One to three constrained attributes; every eighth is a disjunction of two such terms."""
        chance = stream(self.seed, "subscription", number, wording)
        terms = {self._term(chance) for _ in range(2 if chance.random() < 0.125 else 1)}
        peer = stream(self.seed, "subscriber", number).randrange(self.peers)
        return Request(peer, Target(tuple(sorted(terms))))

    def event(self, number: int) -> Publication:
        chance = stream(self.seed, "event", number)
        values = [Value(f"a{index}", self._value(chance)) for index in range(self.attributes)]
        values.append(Value("kind", self._word(chance)))
        return Publication(chance.randrange(self.peers), Description((), tuple(sorted(values))))

    def _term(self, chance: Random) -> Term:
        weights = [1 / (index + 1) ** self.skew for index in range(self.attributes + 1)]
        chosen = {
            chance.choices(range(self.attributes + 1), weights)[0]
            for _ in range(chance.randrange(1, 4))
        }
        return Term(where=tuple(sorted(self._predicate(chance, index) for index in sorted(chosen))))

    def _predicate(self, chance: Random, index: int) -> Predicate:
        if index == self.attributes:
            word = self._word(chance)
            return Predicate("kind", word, word)
        middle = self._value(chance)
        if chance.random() < self.equal:
            return Predicate(f"a{index}", middle, middle)
        width = pareto_width(chance, self.width, self.domain // 2)
        low = max(0, min(middle - width // 2, self.domain - width))
        return Predicate(f"a{index}", low, low + width - 1)

    def _value(self, chance: Random) -> int:
        return int(self.domain * float(chance.random() ** (1 + self.skew)))

    def _word(self, chance: Random) -> str:
        return f"word{int(self.words * chance.random() ** (1 + self.skew))}"


def pareto_width(chance: Random, mean: float, longest: int) -> int:
    """A whole width of at least 1, heavy-tailed, with about this mean."""
    least = mean * (TAIL - 1) / TAIL
    drawn: float = least * (1 - chance.random()) ** (-1 / TAIL)
    return max(1, min(longest, round(drawn)))


class Bar(NamedTuple):
    """One day of one share, in cents."""

    symbol: str
    exchange: str
    close: int
    high: int
    low: int


@dataclass(frozen=True)
class Stocks:
    """Events are daily bars read from `path` (`date,open,high,low,close,volume,Name`, gzipped or
    not).
    """

    seed: int
    peers: int
    path: Path
    symbols: Path | None = None
    """A table `symbol,exchange,...`; an empty exchange or no table: NASDAQ, where those without an
    entry are traded.
    """
    skew: float = 1.0
    width: float = 100.0
    """Mean width of a range of prices, in cents."""

    def schema(self) -> str:
        top = max(bar.high for bar in self.bars)
        price = f"0.00..{top // 100 + 1}.00 by 0.01"
        return f"exchange: text; symbol: text; price: {price}; high: {price}; low: {price}"

    @cached_property
    def bars(self) -> Sequence[Bar]:
        exchanges = self._exchanges()
        bars = [bar for row in _rows(self.path) if (bar := _bar(row, exchanges)) is not None]
        if not bars:
            raise WorkloadError(
                f"{self.path} has no daily bars: expected columns "
                "date,open,high,low,close,volume,Name"
            )
        return bars

    @cached_property
    def _by_symbol(self) -> dict[str, list[Bar]]:
        found: dict[str, list[Bar]] = {}
        for bar in self.bars:
            found.setdefault(bar.symbol, []).append(bar)
        return dict(sorted(found.items()))

    @cached_property
    def _popularity(self) -> tuple[list[str], list[float]]:
        """Symbols in a random order of popularity, with their cumulated weights."""
        names = list(self._by_symbol)
        stream(self.seed, "popularity").shuffle(names)
        return names, list(accumulate(1 / (rank + 1) ** self.skew for rank in range(len(names))))

    def _exchanges(self) -> dict[str, str]:
        return (
            {row["symbol"]: row["exchange"] for row in _rows(self.symbols)} if self.symbols else {}
        )

    def subscription(self, number: int, wording: int = 0) -> Request:
        """A popular share within a range of prices; some add its exchange or a range of its daily
        low.
        """
        chance = stream(self.seed, "subscription", number, wording)
        names, weights = self._popularity
        bars = self._by_symbol[names[bisect_left(weights, chance.random() * weights[-1])]]
        bar = bars[chance.randrange(len(bars))]
        where = [
            Predicate("symbol", bar.symbol, bar.symbol),
            self._near(chance, "price", bar.close),
        ]
        if chance.random() < 0.3:
            where.append(Predicate("exchange", bar.exchange, bar.exchange))
        if chance.random() < 0.2:
            where.append(self._near(chance, "low", bar.low))
        peer = stream(self.seed, "subscriber", number).randrange(self.peers)
        return Request(peer, Target((Term(where=tuple(sorted(where))),)))

    def _near(self, chance: Random, attribute: str, cents: int) -> Predicate:
        width = pareto_width(chance, self.width, 2_000)
        low = max(0, cents - chance.randrange(width))
        return Predicate(attribute, low, low + width - 1)

    def event(self, number: int) -> Publication:
        chance = stream(self.seed, "event", number)
        bar = self.bars[chance.randrange(len(self.bars))]
        values = (
            Value("exchange", bar.exchange),
            Value("high", bar.high),
            Value("low", bar.low),
            Value("price", bar.close),
            Value("symbol", bar.symbol),
        )
        return Publication(chance.randrange(self.peers), Description((), values))


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", newline="") as text:
                return list(csv.DictReader(text))
        with path.open(newline="") as text:
            return list(csv.DictReader(text))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"{path} cannot be read as a table: {error}") from None


def _bar(row: dict[str, str], exchanges: dict[str, str]) -> Bar | None:
    """None for rows with an empty or unreadable number."""
    try:
        close, high, low = (_cents(row[column]) for column in ("close", "high", "low"))
        return Bar(row["Name"], exchanges.get(row["Name"]) or "NASDAQ", close, high, low)
    except (KeyError, InvalidOperation):
        return None


def _cents(price: str) -> int:
    return int((Decimal(price) * 100).to_integral_value(ROUND_HALF_UP))
