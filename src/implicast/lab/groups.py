"""Which peers each cast selects, for millions of peers and hundreds of thousands of casts: the oracle.

Peers are cut into blocks of 65,536. A task takes one block, builds one compressed bitmap per tag and resolves all casts
by set algebra; what comes out is a bitmap of members per cast and block, not a row per member. Blocks are equal
whatever the tags are, so a tag that four peers in five hold burdens no task more than another.

The other way, a join on the rarest tag of each term, makes a row for every candidate: `bench/groups_join.py` has it
(100,000 peers, 1,000 casts, skew 1: 13.6 s of processor time against 8.6 s).
"""

from collections.abc import Iterator

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab import matching, tables

BLOCK_BITS = 16
"""A block is 2**16 peers: one container of a Roaring bitmap, and some 15 MB of registrations in a task."""

_PAIRS = pa.schema([("cast", pa.int32()), ("peer", pa.int32())])
EXPLODED_ROWS = 1 << 16
"""Rows per batch when bitmaps are spelled out."""


def groups(registrations: DataFrame, casts: DataFrame) -> DataFrame:
    """(cast, block, size, members) for registrations (peer, tags) and casts (cast, target); no rows without members."""
    block = F.shiftright("peer", BLOCK_BITS).alias("block")
    blocked = registrations.select(block, "peer", "tags")
    # A target that several casts have in common travels, is read and is resolved once for all of them.
    asked = casts.groupBy("target").agg(F.array_sort(F.collect_list("cast")).alias("casts"))
    everywhere = asked.crossJoin(F.broadcast(blocked.select(F.col("block").alias("there")).distinct()))
    return (
        blocked.groupBy("block").cogroup(everywhere.groupBy("there"))
        .applyInArrow(_resolve, tables.schema(tables.GROUPS))
    )  # fmt: skip


def _resolve(registrations: pa.Table, asked: pa.Table) -> pa.Table:
    # Row order may differ from one execution to the next; bitmaps of peers in ascending order do not.
    registrations, asked = registrations.sort_by("peer"), asked.sort_by("target")
    peers = matching.ints(registrations, "peer")
    where = int(peers[0]) >> BLOCK_BITS if len(peers) else 0
    base = where << BLOCK_BITS
    block = matching.Block(matching.column(registrations, "tags"), numbers=peers - base)
    numbers, sizes, members = [], [], []
    for casts, target in zip(matching.column(asked, "casts").to_pylist(), matching.targets(asked), strict=True):
        selected = block.selected(target)
        if selected:
            # Numbers within a block fill one container: shifting it is a copy, cheaper than building it anew.
            found = selected.shift(base)
            found.run_optimize()
            numbers += casts
            sizes += [len(found)] * len(casts)
            members += [found.serialize()] * len(casts)
    made = pa.table([numbers, [where] * len(numbers), sizes, members], schema=tables.GROUPS)
    return made.sort_by("cast")


def sizes(resolved: DataFrame, casts: DataFrame) -> DataFrame:
    """(cast, size): members of every cast, those without any included."""
    summed = resolved.groupBy("cast").agg(F.sum("size").alias("size"))
    return casts.select("cast").join(summed, "cast", "left").fillna(0, ["size"])


def pairs(resolved: DataFrame) -> DataFrame:
    """(cast, peer): the members spelled out. As many rows as notifications; mind the size before."""
    return resolved.select("cast", "members").mapInArrow(_spell_out, tables.schema(_PAIRS))


def _spell_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for cast, packed in zip(batch["cast"].to_pylist(), batch["members"].to_pylist(), strict=True):
            members = pa.array(BitMap.deserialize(packed).to_array(), pa.uint32()).cast(pa.int32())
            for start in range(0, len(members), EXPLODED_ROWS):
                part = members[start : start + EXPLODED_ROWS]
                yield pa.record_batch([pa.array([cast] * len(part), pa.int32()), part], schema=_PAIRS)
