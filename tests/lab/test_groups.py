"""Groups by bitmaps against brute force: every peer asked of every cast."""

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from implicast.lab import groups
from implicast.lab.matching import PeerBlock
from implicast.language.parse import description, parse
from implicast.language.target import Description
from implicast.space.digest import stream

TAGS = [f"t{number}" for number in range(30)]
PEERS, CASTS = 2_000, 500


def random_expression(seed: int) -> str:
    """A target of up to four terms with negation and brackets; every term keeps a positive tag."""
    rng = stream(seed, "expression")
    terms = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        has = rng.sample(TAGS, rng.randrange(1, 4))
        lacks = [f"!{tag}" for tag in rng.sample(TAGS, rng.randrange(3)) if tag not in has]
        either = rng.sample(TAGS, 2)
        terms.append(
            " & ".join([*has, *lacks, *([f"({' | '.join(either)})"] if rng.random() < 0.3 else [])])
        )
    return " | ".join(terms)


@pytest.mark.spark
def test_groups_equal_brute_force_on_random_expressions(spark: SparkSession) -> None:
    rng = stream(1, "peers")
    # Numbers far apart, so that several blocks take part.
    numbers = [peer * 97 for peer in range(PEERS)]
    descriptions = [Description(tuple(sorted(rng.sample(TAGS, rng.randrange(9))))) for _ in numbers]
    texts = [random_expression(seed) for seed in range(CASTS)]
    registrations = spark.createDataFrame(
        pa.table(
            {
                "peer": pa.array(numbers, pa.int32()),
                "tags": [list(each.tags) for each in descriptions],
            }
        )
    )
    casts = spark.createDataFrame(
        pa.table({"cast": pa.array(range(CASTS), pa.int32()), "target": texts})
    )

    resolved = groups.groups(registrations.orderBy(F.rand(3)), casts).collect()

    found: dict[int, set[int]] = {cast: set() for cast in range(CASTS)}
    for row in resolved:
        members = BitMap.deserialize(bytes(row["members"]))
        assert len(members) == row["size"]
        assert {member >> groups.BLOCK_BITS for member in members} == {row["block"]}
        found[row["cast"]] |= set(members)
    for cast, text in enumerate(texts):
        target = parse(text)
        assert found[cast] == {
            n for n, each in zip(numbers, descriptions, strict=True) if target.selects(each)
        }, text
    assert len({row["block"] for row in resolved}) > 1


def test_a_block_that_comes_in_parts_and_out_of_order_is_the_block() -> None:
    rng = stream(2, "peers")
    numbers = [number * 3 for number in range(30_000)]  # two blocks
    rng.shuffle(numbers)
    held = [sorted(rng.sample(TAGS, rng.randrange(9))) for _ in numbers]
    table = pa.table(
        {"peer": pa.array(numbers, pa.int32()), "tags": pa.array(held, pa.list_(pa.string()))}
    )
    texts = [random_expression(seed) for seed in range(40)]
    cut = [
        each
        for part in (table[:9_000], table[9_000:])
        for each in groups._turn_over(iter(part.to_batches(1_000)))
    ]

    for block in (0, 1):
        parts = [each["packed"][0].as_py() for each in cut if each["block"][0].as_py() == block]
        rows = pa.table({"packed": [parts], "casts": [list(range(40))], "targets": [texts]})
        resolved = groups._resolve((pa.scalar(block),), rows)

        assert len(parts) == 2
        found = {
            row["cast"]: set(BitMap.deserialize(row["members"])) for row in resolved.to_pylist()
        }
        for cast, text in enumerate(texts):
            selects = parse(text).selects
            asked = {
                number
                for number, tags in zip(numbers, held, strict=True)
                if selects(Description(tuple(tags)))
            }
            assert found.get(cast, set()) == {
                n for n in asked if n >> groups.BLOCK_BITS == block
            }, text


@pytest.mark.spark
def test_sizes_count_casts_that_select_nobody_and_pairs_spell_members_out(
    spark: SparkSession,
) -> None:
    registrations = spark.createDataFrame(
        pa.table({"peer": pa.array([0, 1, 70_000], pa.int32()), "tags": [["a"], ["a", "b"], ["b"]]})
    )
    casts = spark.createDataFrame(
        pa.table({"cast": pa.array([0, 1, 2], pa.int32()), "target": ["a", "b & !a", "c"]})
    )

    resolved = groups.groups(registrations, casts)

    assert {row["cast"]: row["size"] for row in groups.sizes(resolved, casts).collect()} == {
        0: 2,
        1: 1,
        2: 0,
    }
    assert {(row["cast"], row["peer"]) for row in groups.pairs(resolved).collect()} == {
        (0, 0),
        (0, 1),
        (1, 70_000),
    }


def test_attributes_and_ranges_are_matched_as_the_language_matches_them() -> None:
    texts = [
        "jazz",
        "",
        "jazz price=@830",
        'price=@870 exchange="NYSE"',
        "price=@-5",
        "exchange=@5",
        'exchange="@5"',
    ]
    described = [description(text) for text in texts]
    values = [
        [{"attribute": v.attribute, "value": _text(v.value)} for v in each.values]
        for each in described
    ]
    kind = pa.list_(pa.struct([("attribute", pa.string()), ("value", pa.string())]))
    block = PeerBlock.of(
        pa.array([list(each.tags) for each in described], pa.list_(pa.string())),
        pa.array(values, kind),
    )

    for target in (
        "price in @830..@869",
        "price >= @0",
        "price <= @870 | jazz",
        'exchange = "NYSE"',
        "exchange = @5",
        "jazz & price = @830",
    ):
        parsed = parse(target)
        expected = [row for row, each in enumerate(described) if parsed.selects(each)]
        assert np.asarray(block.selected(parsed).to_array()).tolist() == expected, target


def _text(value: int | str) -> str:
    from implicast.language.target import scalar_text

    return scalar_text(value)
