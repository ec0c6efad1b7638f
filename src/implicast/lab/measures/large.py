"""A large journal, cut into pieces by its casts, each in a task of its own: one pass over its
messages.

A task reads the row groups that may hold its casts straight from Parquet into Arrow columns; casts
come nearly in order, so that each row group is read about once. It returns a few rows for each
peer, link, cast and latency, and none for a message: rows of messages never pass through the JVM.
What the pieces of a journal come to is added up by Spark and becomes its measures in one task more.
The contract is judged by pieces too: whom a cast selects and reaches has nothing to do with other
casts.

What makes no sense in a journal becomes the reason why it was not measured; the others are measured
all the same.
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
from implicast.lab.dictionary import CONTRACT
from implicast.lab.installed_code import CodeRule
from implicast.lab.journals import JournalSource
from implicast.lab.measures import blocks, change, small
from implicast.lab.measures.blocks import CAME, KINDS, Block, Sums, Ways, ints
from implicast.lab.measures.facets import Phases, facets
from implicast.lab.storage import Location

BLOCK_ROWS = 2_000_000
"""Messages of a block, about."""
EVERY = 1 << 40
"""Beyond any number of a cast."""
LINK, CAST, WAIT, PHASE, LAW, WRONG, PIECE, SENT, UPKEEP = (
    "link",
    "cast",
    "wait",
    "phase ",
    "law ",
    "wrong ",
    "piece",
    "sent",
    "upkeep",
)

PARTS = pa.schema(
    [
        ("run", pa.string()),
        ("of", pa.string()),
        ("key", pa.int64()),
        ("load", pa.int64()),
        ("peak", pa.int64()),
        ("hops", pa.int64()),
        ("deepest", pa.int64()),
    ]
)
"""What a piece comes to. `of`: a kind of load by peer, `link`, `cast` (load: messages, peak:
members), `wait` (load: how often), `phase NAME` (load: messages, hops: bytes), `law NAME` (load:
count), `wrong REASON`, or `piece`, once.
"""
FINISHED = pa.schema([("run", pa.string()), ("rows", pa.string()), ("reason", pa.string())])
"""The rows of a journal's tables, by table, as JSON; or why there are none."""
NONSENSE = (ValueError, LookupError, TypeError, AssertionError)
"""What comes of columns that do not hang together. Anything else is the cluster's fault, and Spark
tries again.
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """The casts from `first` to before `last` of a journal; and, of all its messages, every
    so-manieth row group.
    """

    run: str
    place: str
    experiment: str
    first: int
    last: int
    turn: int
    turns: int

    @property
    def source(self) -> JournalSource:
        return JournalSource(self.run, Location(self.place), self.experiment)


def finished(spark: SparkSession, sources: Sequence[JournalSource], rule: CodeRule) -> DataFrame:
    """(run, rows, reason): the tables `measures`, `costs` and `lorenz` of these journals."""
    return _added_up(_in_pieces(spark, sources, _load, rule), sources, _finish)


def judged(spark: SparkSession, sources: Sequence[JournalSource], rule: CodeRule) -> DataFrame:
    """(run, rows, reason): the tables `contract` and `change` of these journals."""
    return _added_up(_in_pieces(spark, sources, _laws, rule), sources, _verdict)


def _in_pieces(
    spark: SparkSession,
    sources: Sequence[JournalSource],
    found: Callable[[Piece], pa.Table],
    rule: CodeRule,
) -> DataFrame:
    """The rows of `PARTS` of all these journals, a task for each piece."""
    asked = [json.dumps(asdict(piece)) for source in sources for piece in pieces(source)]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rule.check()
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _tried(found, Piece(**json.loads(asked[number]))).to_batches(
                    max_chunksize=50_000
                )

    return spark.range(0, len(asked), 1, len(asked)).mapInArrow(work, tables.schema(PARTS))


def _tried(found: Callable[[Piece], pa.Table], piece: Piece) -> pa.Table:
    try:
        return pa.concat_tables([_part(piece.run, PIECE, [piece.turn]), found(piece)])
    except NONSENSE as wrong:
        return _part(piece.run, f"{WRONG}{_told(wrong)}", [0])


def _told(wrong: BaseException) -> str:
    return (
        f"it does not hang together: {type(wrong).__name__}: {' '.join(str(wrong).split())[:200]}"
    )


Finish = Callable[[JournalSource, dict[str, pa.Table]], dict[str, list[dict[str, Any]]]]


def _added_up(parts: DataFrame, sources: Sequence[JournalSource], finish: Finish) -> DataFrame:
    """Loads of the same key in all pieces together, and a task for each journal that makes rows of
    them.
    """
    asked = {each.run: (each.place.url, each.experiment) for each in sources}

    def work(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        run, kinds = key[0].as_py(), pc.unique(rows["of"]).to_pylist()
        by_kind = {of: rows.filter(pc.equal(rows["of"], of)).sort_by("key") for of in kinds}
        place, experiment = asked[run]
        reason = min((of.removeprefix(WRONG) for of in kinds if of.startswith(WRONG)), default=None)
        made = None
        try:
            made = (
                json.dumps(finish(JournalSource(run, Location(place), experiment), by_kind))
                if reason is None
                else None
            )
        except NONSENSE as wrong:
            reason = _told(wrong)
        return pa.table([[run], [made], [reason]], schema=FINISHED)

    sums = [F.sum("load").alias("load"), F.max("peak").alias("peak"), F.sum("hops").alias("hops")]
    whole = parts.groupBy("run", "of", "key").agg(*sums, F.max("deepest").alias("deepest"))
    return whole.groupBy("run").applyInArrow(work, tables.schema(FINISHED))


def pieces(source: JournalSource) -> list[Piece]:
    """So many that none has many more messages than `BLOCK_ROWS`, as far as casts are alike."""
    with source.opened("sends") as sends, source.opened("casts") as made:
        rows, numbers = sends.metadata.num_rows, made.read(["cast"])["cast"].to_numpy()
    turns = max(1, -(-rows // BLOCK_ROWS))
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=-1)) + 1
    cuts = np.linspace(low, high, turns + 1).round().astype(int).tolist()
    cuts[0], cuts[-1] = (
        min(low, -EVERY),
        max(high, EVERY),
    )  # notifications of casts that no peer made belong somewhere
    return [
        Piece(
            source.run, source.place.url, source.experiment, cuts[turn], cuts[turn + 1], turn, turns
        )
        for turn in range(turns)
    ]


def summed_up(piece: Piece) -> Block:
    """The block of casts of a piece; casts that warm up are not measured."""
    source = piece.source
    sends = _within(source, "sends", blocks.SENDS, piece)
    notices = _within(source, "notices", blocks.NOTICES, piece)
    casts = _casts(piece)
    measured = casts.filter(pc.invert(casts["warm_up"]))
    return blocks.block(sends, notices, measured, source.read("peers"), Ways(source.read("paths")))


def _within(source: JournalSource, name: str, columns: list[str], piece: Piece) -> pa.Table:
    """The rows of these casts, from the row groups that may hold any."""
    with source.opened(name) as file:
        told = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
        groups = [group for group, each in enumerate(told) if _may_hold(each, piece)]
        columns = [
            each
            for each in columns
            if each != CAME or any(_may_lack(told[group], each) for group in groups)
        ]
        table = (
            file.read_row_groups(groups, columns)
            if groups
            else file.schema_arrow.empty_table().select(columns)
        )
    cast = table["cast"]
    return table.filter(pc.and_(pc.greater_equal(cast, piece.first), pc.less(cast, piece.last)))


def _may_hold(group: Any, piece: Piece) -> bool:
    told = _statistics(group, "cast")
    if told is None or not told.has_min_max:
        return told is None or not told.has_null_count or told.null_count < group.num_rows
    return bool(told.max >= piece.first and told.min < piece.last)


def _may_lack(group: Any, column: str) -> bool:
    """May a value of this column be missing? Where the file says that none is, the column need not
    be read for it.
    """
    told = _statistics(group, column)
    return told is None or not told.has_null_count or told.null_count > 0


def _statistics(group: Any, column: str) -> pq.Statistics | None:
    named = (group.column(at) for at in range(group.num_columns))
    return next(each.statistics for each in named if each.path_in_schema == column)


def _load(piece: Piece) -> pa.Table:
    found, run = summed_up(piece), piece.run
    made = [_part(run, kind, sums.key, sums.load, sums.peak) for kind, sums in found.peers.items()]
    made.append(_part(run, LINK, found.links.key, found.links.load, found.links.peak))
    made.append(
        _part(
            run,
            CAST,
            *(found.casts[name] for name in ("cast", "messages", "members", "hops", "deepest")),
        )
    )
    made.append(_part(run, WAIT, *found.waits))
    made += [
        _part(run, f"{PHASE}{phase}", [0], [count], [0], [volume])
        for phase, count, volume in _phases(piece)
    ]
    return pa.concat_tables(made)


def _phases(piece: Piece) -> Phases:
    """Messages and bytes by phase, of every so-manieth row group."""
    with piece.source.opened("sends") as file:
        groups = list(range(piece.turn, file.num_row_groups, piece.turns))
        return small.phases(file.read_row_groups(groups, ["phase", "bytes"])) if groups else []


def _laws(piece: Piece) -> pa.Table:
    source = piece.source
    notices = _within(source, "notices", ["cast", "peer", "time_us", "altered"], piece)
    changed = source.changed()
    count = small.laws(source.read("registrations"), _casts(piece), notices, changed)
    made = [_part(piece.run, f"{LAW}{name}", [0], [number]) for name, number in count.items()]
    if changed is not None and changed.timeline is not None:
        with source.opened("sends") as file:
            groups = list(range(piece.turn, file.num_row_groups, piece.turns))
            sends = file.read_row_groups(groups, change.TRAFFIC)
        moved = change.traffic(sends, changed.timeline)
        made.append(_part(piece.run, SENT, moved.second, moved.sent))
        made.append(_part(piece.run, UPKEEP, [0], [moved.upkeep], [0], [moved.rest]))
    return pa.concat_tables(made)


def _casts(piece: Piece) -> pa.Table:
    casts = piece.source.read("casts")
    return casts.filter(
        pc.and_(pc.greater_equal(casts["cast"], piece.first), pc.less(casts["cast"], piece.last))
    )


def _part(run: str, of: str, *numbers: Any) -> pa.Table:
    columns = [pa.array(each, pa.int64()) for each in numbers]
    nothing = pa.array(np.zeros(len(columns[0]), np.int64))
    columns += [nothing] * (len(PARTS) - 2 - len(columns))
    return pa.table([pa.repeat(name, len(nothing)) for name in (run, of)] + columns, schema=PARTS)


def _finish(source: JournalSource, parts: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    none = PARTS.empty_table()
    loads = {of: parts.get(of, none) for of in (*KINDS, LINK, CAST, WAIT)}
    sums = {
        of: Sums(*(ints(rows, name) for name in ("key", "load", "peak")))
        for of, rows in loads.items()
    }
    casts = {name: ints(loads[CAST], name) for name in ("hops", "deepest")}
    casts |= {"cast": sums[CAST].key, "messages": sums[CAST].load, "members": sums[CAST].peak}
    whole = Block(
        {kind: sums[kind] for kind in KINDS}, sums[LINK], casts, (sums[WAIT].key, sums[WAIT].load)
    )
    costs = [
        (of.removeprefix(PHASE), rows["load"][0].as_py(), rows["hops"][0].as_py())
        for of, rows in parts.items()
        if of.startswith(PHASE)
    ]
    return facets(whole, costs, source.read("peers"), source.read("links"))


def _verdict(source: JournalSource, parts: dict[str, pa.Table]) -> dict[str, list[dict[str, Any]]]:
    count = {
        of.removeprefix(LAW): rows["load"][0].as_py()
        for of, rows in parts.items()
        if of.startswith(LAW)
    }
    rows = {"contract": [{name: count[name] for name in CONTRACT}]}
    changed = source.changed()
    if changed is not None and changed.timeline is not None:
        moved = _traffic(parts)
        row = change.change(small.by_period(count), moved, changed, source.read("registrations"))
        rows["change"] = [row]
    return rows


def _traffic(parts: dict[str, pa.Table]) -> change.Traffic:
    sent, upkeep = parts.get(SENT, PARTS.empty_table()), parts[UPKEEP]
    second, count = ints(sent, "key"), ints(sent, "load")
    return change.Traffic(second, count, upkeep["load"][0].as_py(), upkeep["hops"][0].as_py())
