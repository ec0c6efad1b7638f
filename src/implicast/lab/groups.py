"""Which peers each cast selects, for millions of peers and hundreds of thousands of casts: the
oracle.

Peers are cut into blocks of 65,536. Where registrations lie, they are turned over: of each block, a
list of peers for every tag. These lists travel packed, one value for many peers, and so do the
casts, so that Spark moves hundreds of values and not tens of millions of words. A task then takes
one block and resolves all casts by set algebra over one compressed bitmap per tag; what comes out
is a bitmap of members per cast and block, not a row per member. Blocks are equal whatever the tags
are, so a tag that four peers in five hold burdens no task more than another.

The other way, a join on the rarest tag of each term, makes a row for every candidate:
`bench/groups_join.py` has it.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab import matching, tables

BLOCK_BITS = 16
"""A block is 2**16 peers: one container of a Roaring bitmap, and some 15 MB of registrations in a
task.
"""
BLOCK = 1 << BLOCK_BITS
CASTS_BITS = 18
"""So many casts, as a power of two, travel together: some megabytes."""

_PACKED = pa.schema([("block", pa.int32()), ("packed", pa.binary())])
_LISTS = pa.schema([("tag", pa.string()), ("peers", pa.list_(pa.uint16()))])
"""The peers of a block that hold a tag, counted from its first; under no tag, all that have
registered.
"""
_PAIRS = pa.schema([("cast", pa.int32()), ("peer", pa.int32())])
EXPLODED_ROWS = 1 << 16
"""Rows per batch when bitmaps are spelled out."""


def groups(registrations: DataFrame, casts: DataFrame) -> DataFrame:
    """(cast, block, size, members) for registrations (peer, tags) and casts (cast, target); no rows
    without members.
    """
    turned = registrations.select("peer", "tags").mapInArrow(_turn_over, tables.schema(_PACKED))
    blocks = turned.groupBy("block").agg(F.collect_list("packed").alias("packed"))
    asked = casts.groupBy(F.shiftright("cast", CASTS_BITS)).agg(
        F.collect_list("cast").alias("casts"), F.collect_list("target").alias("targets")
    )
    return (
        blocks.crossJoin(F.broadcast(asked.select("casts", "targets")))
        .groupBy("block")
        .applyInArrow(_resolve, tables.schema(tables.GROUPS))
    )


def _turn_over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for table in _gathered(batches):
        peers = matching.ints(table, "peer")
        if (peers[1:] < peers[:-1]).any():
            table = table.sort_by("peer")
            peers = matching.ints(table, "peer")
        blocks, starts = np.unique(peers >> BLOCK_BITS, return_index=True)
        for block, start, end in zip(
            blocks.tolist(), starts, [*starts[1:], len(peers)], strict=True
        ):
            packed = _packed(
                matching.column(table.slice(start, end - start), "tags"), peers[start:end] % BLOCK
            )
            yield pa.record_batch([[block], [packed]], schema=_PACKED)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """About a block of registrations at a time: Spark hands over fewer, and names of tags would
    travel more often.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if sum(map(len, held)) + len(batch) > BLOCK:
            yield pa.Table.from_batches(held)
            held = []
        held.append(batch)
    if held:
        yield pa.Table.from_batches(held)


def _packed(tags: pa.ListArray, peers: matching.Ints) -> bytes:
    numbers = peers.astype(np.uint16)
    held, holders, ends = matching.postings(tags, numbers)
    offsets = np.concatenate([[0, len(numbers)], len(numbers) + ends]).astype(np.int32)
    lists = pa.ListArray.from_arrays(offsets, np.concatenate([numbers, holders]))
    batch = pa.record_batch(
        [pa.concat_arrays([pa.nulls(1, pa.string()), held]), lists], schema=_LISTS
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _LISTS) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _resolve(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    where: int = key[0].as_py()
    block = _unpacked(rows["packed"][0])
    numbers: list[int] = []
    sizes: list[int] = []
    members: list[bytes] = []
    for row in range(len(rows)):
        for target, casts in _shared(rows["targets"][row], rows["casts"][row]).items():
            selected = block.selected(matching.parsed(target))
            if selected:
                # Numbers within a block fill one container: shifting it is a copy, cheaper than
                # building it anew.
                found = selected.shift(where << BLOCK_BITS)
                found.run_optimize()
                numbers += casts
                sizes += [len(found)] * len(casts)
                members += [found.serialize()] * len(casts)
    made = pa.table([numbers, [where] * len(numbers), sizes, members], schema=tables.GROUPS)
    return made.sort_by("cast")


def _unpacked(parts: pa.ListScalar) -> matching.PeerBlock:
    """A block from its parts; there are several where its registrations did not lie together."""
    everyone, holders = BitMap(), matching.Holders()
    for part in parts:
        lists = pa.ipc.open_stream(part.as_buffer()).read_next_batch()
        peers, ends = lists["peers"].values.to_numpy(), lists["peers"].offsets.to_numpy()
        everyone |= BitMap(peers[: ends[1]].astype(np.uint32))
        holders.add(lists["tag"].to_pylist()[1:], peers[ends[1] :], (ends[2:] - ends[1]).tolist())
    return matching.PeerBlock(everyone, holders)


def _shared(targets: pa.ListScalar, casts: pa.ListScalar) -> dict[str, list[int]]:
    """The casts of each target: one that several have in common is resolved once for all of them."""
    found: dict[str, list[int]] = {}
    for target, cast in zip(targets.as_py(), casts.as_py(), strict=True):
        found.setdefault(target, []).append(cast)
    return found


def sizes(resolved: DataFrame, casts: DataFrame) -> DataFrame:
    """(cast, size): members of every cast, those without any included."""
    summed = resolved.groupBy("cast").agg(F.sum("size").alias("size"))
    return casts.select("cast").join(summed, "cast", "left").fillna(0, ["size"])


def pairs(resolved: DataFrame) -> DataFrame:
    """(cast, peer): the members spelled out. As many rows as notifications; mind the size before."""
    return resolved.select("cast", "members").mapInArrow(_spell_out, tables.schema(_PAIRS))


def _spell_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for cast, packed in zip(
            batch["cast"].to_pylist(), batch["members"].to_pylist(), strict=True
        ):
            members = pa.array(BitMap.deserialize(packed).to_array(), pa.uint32()).cast(pa.int32())
            for start in range(0, len(members), EXPLODED_ROWS):
                part = members[start : start + EXPLODED_ROWS]
                yield pa.record_batch(
                    [pa.array([cast] * len(part), pa.int32()), part], schema=_PAIRS
                )
