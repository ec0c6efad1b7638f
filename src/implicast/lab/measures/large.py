"""The load of a large journal, block of casts by block, each in a task of its own: one pass over its messages.

A task reads the row groups that may hold its casts straight from Parquet into Arrow columns; casts come nearly in
order, so that each row group is read about once. It returns a few rows for each peer, link and cast, and none for a
message: rows of messages never pass through the JVM.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.journals import Source
from implicast.lab.measures import blocks
from implicast.lab.measures.blocks import KINDS, Block, Ways
from implicast.lab.places import Place

BLOCK_ROWS = 2_000_000
"""Messages of a block, about."""
LINK, CAST, PHASE = "link", "cast", "phase "

PARTS = pa.schema(
    [("run", pa.string()), ("of", pa.string()), ("key", pa.int64()), ("load", pa.int64()), ("peak", pa.int64()),
     ("hops", pa.int64()), ("deepest", pa.int64())]
)  # fmt: skip
"""What a block comes to. `of`: a kind of load by peer, `link`, `cast` (load: messages, peak: members), or `phase NAME`
(load: messages, peak: bytes)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The casts from `first` to before `last` of a journal; and, of all its messages, every so-manieth row group."""

    run: str
    place: str
    experiment: str
    first: int
    last: int
    turn: int
    turns: int

    @property
    def source(self) -> Source:
        return Source(self.run, Place(self.place), self.experiment)


def parts(spark: SparkSession, sources: Sequence[Source]) -> DataFrame:
    """The rows of `PARTS` of all these journals, a task for each block of casts."""
    asked = [json.dumps(asdict(piece)) for source in sources for piece in pieces(source)]
    return spark.range(0, len(asked), 1, len(asked)).mapInArrow(_carry_out(asked), tables.schema(PARTS))


def pieces(source: Source) -> list[Piece]:
    """So many that none has many more messages than `BLOCK_ROWS`, as far as casts are alike."""
    with source.opened("sends") as sends, source.opened("casts") as made:
        rows, numbers = sends.metadata.num_rows, made.read(["cast"])["cast"].to_numpy()
    turns = max(1, -(-rows // BLOCK_ROWS))
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=-1)) + 1
    cuts = np.linspace(low, high, turns + 1).round().astype(int).tolist()
    return [
        Piece(source.run, source.place.url, source.experiment, cuts[turn], cuts[turn + 1], turn, turns)
        for turn in range(turns)
    ]


def _carry_out(asked: Sequence[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                piece = Piece(**json.loads(asked[number]))
                yield from _rows(piece.run, summed_up(piece), costs(piece)).to_batches(max_chunksize=50_000)

    return work


def summed_up(piece: Piece) -> Block:
    """The block of casts of a piece; casts that warm up are not measured."""
    source = piece.source
    sends = _within(source, "sends", blocks.SENDS, piece)
    notices = _within(source, "notices", blocks.NOTICES, piece)
    casts, peers, paths = (source.read(name) for name in ("casts", "peers", "paths"))
    mine = pc.and_(pc.greater_equal(casts["cast"], piece.first), pc.less(casts["cast"], piece.last))
    return blocks.block(sends, notices, casts.filter(pc.and_(mine, pc.invert(casts["warm_up"]))), peers, Ways(paths))


def _within(source: Source, name: str, columns: list[str], piece: Piece) -> pa.Table:
    """The rows of these casts, from the row groups that may hold any."""
    with source.opened(name) as file:
        groups = [group for group in range(file.num_row_groups) if _may_hold(file.metadata.row_group(group), piece)]
        table = file.read_row_groups(groups, columns) if groups else file.schema_arrow.empty_table().select(columns)
    cast = table["cast"]
    return table.filter(pc.and_(pc.greater_equal(cast, piece.first), pc.less(cast, piece.last)))


def _may_hold(group: Any, piece: Piece) -> bool:
    found = next(group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == "cast")
    told: pq.Statistics | None = found.statistics
    if told is None or not told.has_min_max:
        return told is None or not told.has_null_count or told.null_count < group.num_rows
    return bool(told.max >= piece.first and told.min < piece.last)


def costs(piece: Piece) -> list[dict[str, Any]]:
    """Messages and bytes by phase, of every so-manieth row group."""
    with piece.source.opened("sends") as file:
        groups = list(range(piece.turn, file.num_row_groups, piece.turns))
        if not groups:
            return []
        table = file.read_row_groups(groups, ["phase", "bytes"])
    counted: list[dict[str, Any]] = (
        table.group_by("phase").aggregate([("bytes", "count"), ("bytes", "sum")]).to_pylist()
    )
    return counted


def _rows(run: str, found: Block, by_phase: list[dict[str, Any]]) -> pa.Table:
    made = [_part(run, kind, found.peers[kind].key, found.peers[kind].load, found.peers[kind].peak) for kind in KINDS]
    made.append(_part(run, LINK, found.links.key, found.links.load, found.links.peak))
    casts = found.casts
    made.append(_part(run, CAST, casts["cast"], casts["messages"], casts["members"], casts["hops"], casts["deepest"]))
    for row in by_phase:
        sums = (np.array([0]), np.array([row["bytes_count"]]), np.array([row["bytes_sum"]]))
        made.append(_part(run, f"{PHASE}{row['phase']}", *sums))
    return pa.concat_tables(made)


def _part(run: str, of: str, key: Any, load: Any, peak: Any, hops: Any = None, deepest: Any = None) -> pa.Table:
    none = np.zeros(len(key), np.int64)
    columns = [
        [run] * len(key),
        [of] * len(key),
        key,
        load,
        peak,
        *(none if each is None else each for each in (hops, deepest)),
    ]
    return pa.table([pa.array(each, kind.type) for each, kind in zip(columns, PARTS, strict=True)], schema=PARTS)


def borne(found: DataFrame, kind: str) -> DataFrame:
    """(run, peer, load, peak): what each peer bore in all casts, and in its worst."""
    mine = found.where(F.col("of") == kind).groupBy("run", F.col("key").cast("int").alias("peer"))
    return mine.agg(F.sum("load").alias("load"), F.max("peak").alias("peak"))


def carried(found: DataFrame) -> DataFrame:
    """(run, link, load, peak): what each link carried; access links have numbers below zero."""
    named = F.when(F.col("of") == "up", -1 - 2 * F.col("key")).when(F.col("of") == "down", -2 - 2 * F.col("key"))
    link = F.coalesce(named, F.col("key")).alias("link")
    mine = found.where(F.col("of").isin("up", "down", LINK)).groupBy("run", link)
    return mine.agg(F.sum("load").alias("load"), F.max("peak").alias("peak")).where("load > 0")


def between(found: DataFrame) -> DataFrame:
    """(run, link, load): what each link between routers carried."""
    mine = found.where(F.col("of") == LINK).groupBy("run", F.col("key").alias("link"))
    return mine.agg(F.sum("load").alias("load")).where("load > 0")


def per_cast(found: DataFrame) -> DataFrame:
    """(run, cast, messages, members, hops, deepest)."""
    return found.where(F.col("of") == CAST).select(
        "run", F.col("key").alias("cast"), F.col("load").alias("messages"), F.col("peak").alias("members"), "hops",
        "deepest",
    )  # fmt: skip


def by_phase(found: DataFrame, everybody: DataFrame) -> DataFrame:
    """(run, phase, messages, bytes, messages_per_peer, bytes_per_peer)."""
    named = found.where(F.col("of").startswith(PHASE)).withColumn("phase", F.substring("of", len(PHASE) + 1, 99))
    counted = named.groupBy("run", "phase").agg(F.sum("load").alias("messages"), F.sum("peak").alias("bytes"))
    return counted.join(everybody, "run").select(
        "run", "phase", "messages", "bytes", (F.col("messages") / F.col("population")).alias("messages_per_peer"),
        (F.col("bytes") / F.col("population")).alias("bytes_per_peer"),
    )  # fmt: skip
