"""Random casts over random rings reach exactly the right ones, each once, in few hops, one message per receiver."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.casting.condcast.split import split, split_by_definition
from implicast.language.aggregate import TargetQuery, aggregate_of
from implicast.language.queries import (
    Above,
    AllOf,
    AnyOf,
    AnyQuery,
    Everything,
    InBox,
    OfCategory,
    PartQuery,
    Within,
    bloom_asks,
)
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.language.values import Bitmap, Box, Bundle, Categories, Interval, Threshold, bloom_of
from implicast.overlay.chord_sharp import FingerValue, Table
from implicast.overlay.links import Ref
from implicast.space.digest import stream
from implicast.space.ring import Arc
from implicast.trials.condcast_spread import ArcSpread, spread
from implicast.world.populations.chord_sharp import settled_tables

WORDS = [f"w{number}" for number in range(40)]


def _value(kind: str, rng: Random) -> FingerValue:
    number = rng.randrange(100)
    if kind == "threshold":
        return Threshold(number)
    if kind == "interval":
        return Interval(number, number)
    if kind == "bitmap":
        return Bitmap.of(number)
    if kind == "box":
        point = (rng.randrange(100), rng.randrange(100), rng.randrange(100))
        return Box(point, point)
    if kind == "categories":
        return Categories.of(*rng.sample(range(12), rng.randrange(4)))
    if kind == "bloom":
        return bloom_of(rng.sample(WORDS, 3), 128, 3)
    if kind == "portrait":
        return aggregate_of(
            Description(tuple(rng.sample(WORDS, 3)), (Value("age", number),)), 128, 3
        )
    return Bundle(
        (
            Threshold(number),
            Interval(rng.randrange(100), 100),
            bloom_of(rng.sample(WORDS, 2), 128, 3),
        )
    )


def _query(kind: str, rng: Random) -> AnyQuery | TargetQuery:
    low = rng.randrange(100)
    high = low + rng.randrange(30)
    if kind == "threshold":
        return Above(low)
    if kind in ("interval", "bitmap"):
        return Within(low, high)
    if kind == "box":
        return InBox((low, low // 2, 0), (high + 20, low // 2 + 50, 90))
    if kind == "categories":
        return OfCategory(rng.randrange(14))
    if kind == "bloom":
        return bloom_asks(rng.sample(WORDS, rng.choice([1, 1, 2])), 128, 3)
    if kind == "portrait":
        return TargetQuery(
            Target((Term((rng.choice(WORDS),), (), (Predicate("age", low, high + 30),)),)), 128, 3
        )
    if kind == "all-of":
        return AllOf(
            (PartQuery(0, Above(low)), PartQuery(2, bloom_asks([rng.choice(WORDS)], 128, 3)))
        )
    if kind == "any-of":
        return AnyOf((PartQuery(0, Above(95)), PartQuery(1, Within(0, low // 4))))
    return Everything()


KINDS = [
    "threshold",
    "interval",
    "bitmap",
    "box",
    "categories",
    "bloom",
    "portrait",
    "all-of",
    "any-of",
    "everything",
]
MODULUS = 10_000


def _ring(kind: str, count: int, rng: Random) -> list[Table]:
    keys = sorted(rng.sample(range(MODULUS), count))
    return settled_tables(
        [Ref(key, at) for at, key in enumerate(keys)], [_value(kind, rng) for _ in keys]
    )


def _range(tables: list[Table], rng: Random) -> Arc:
    """Any arc: between keys, from key to key, wrapping, the whole circle."""
    ends = [rng.randrange(MODULUS), rng.randrange(MODULUS)]
    if rng.random() < 0.4:
        ends[0] = rng.choice(tables).me.key
    if rng.random() < 0.4:
        ends[1] = rng.choice(tables).me.key
    if rng.random() < 0.15:
        ends[1] = ends[0]
    return Arc(*ends)


def _check(
    tables: list[Table], arc: Arc, query: AnyQuery | TargetQuery, result: ArcSpread, replay: str
) -> None:
    due = [table.me.address for table in tables if table.me.key in arc and query.match(table.own)]
    assert sorted(result.delivered) == due, replay
    assert max((sent.hops for sent in result.sent), default=0) <= (len(tables) - 1).bit_length(), (
        replay
    )
    assert max(Counter(sent.receiver for sent in result.sent).values(), default=0) <= 1, replay


def _casts(count: int) -> None:
    """Each number gives one ring and one cast; the failing one replays alone."""
    for number in range(count):
        rng = stream(number, "condcast laws")
        kind = KINDS[number % len(KINDS)]
        tables = _ring(kind, rng.choice([1, 2, 3, rng.randint(4, 20), rng.randint(21, 150)]), rng)
        arc, query, source = _range(tables, rng), _query(kind, rng), rng.randrange(len(tables))

        result = spread(dict(enumerate(tables)), source, (arc,), query.match)

        _check(
            tables,
            arc,
            query,
            result,
            f"number {number}: {kind}, n={len(tables)}, {arc}, {query}, from {source}",
        )


def test_five_thousand_random_casts_equal_brute_force() -> None:
    _casts(5_000)


@settings(deadline=None)
@given(st.integers(0, 1 << 30))
def test_the_short_cut_for_tidy_tables_is_the_procedure_as_written(number: int) -> None:
    rng = stream(number, "short cut")
    kind = KINDS[number % len(KINDS)]
    tables = _ring(kind, rng.randint(1, 40), rng)
    table, query = rng.choice(tables), _query(kind, rng)
    arcs = (_range(tables, rng),)
    for level in range(len(table)):
        if rng.random() < 0.1:
            table.ends[level] = table.values[level] = None

    assert table.is_consistent()
    assert split(table, arcs, query.match) == split_by_definition(table, arcs, query.match)


@settings(deadline=None)
@given(st.integers(0, 1 << 30))
def test_unknown_aggregates_only_add_messages(number: int) -> None:
    rng = stream(number, "unknown")
    kind = KINDS[number % len(KINDS)]
    tables = _ring(kind, rng.randint(2, 40), rng)
    arc, query, source = _range(tables, rng), _query(kind, rng), rng.randrange(len(tables))
    known = spread(dict(enumerate(tables)), source, (arc,), query.match)
    for table in tables:
        for level in range(len(table)):
            if rng.random() < 0.3:
                table.ends[level] = table.values[level] = None

    result = spread(dict(enumerate(tables)), source, (arc,), query.match)

    _check(tables, arc, query, result, f"number {number}")
    assert len(result.sent) >= len(known.sent)


@settings(deadline=None)
@given(st.integers(0, 1 << 30))
def test_names_serve_as_keys_as_well_as_numbers(number: int) -> None:
    rng = stream(number, "names")
    syllables = [f"{first}{second}" for first in "aeiou" for second in "bdfgklmnprst"]
    names = sorted(rng.sample(syllables, rng.randint(1, 30)))
    refs = [Ref(name, at) for at, name in enumerate(names)]
    tables = settled_tables(refs, [_value("threshold", rng) for _ in names])
    arc, query = (
        Arc(rng.choice(names), rng.choice(["b", "ef", "zz", *names])),
        Above(rng.randrange(100)),
    )

    result = spread(dict(enumerate(tables)), rng.randrange(len(names)), (arc,), query.match)

    _check(tables, arc, query, result, f"number {number}")
