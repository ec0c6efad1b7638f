"""Casts from what people ask for (thesis, section 9.3.2): queries and key phrases, each word a tag,
all conjunctive.

A list has one query per line, repeats kept: how often a query was asked is how likely it is drawn.
A table (`.tsv`, `.csv`) has a header line; the column `phrase` is taken, or the one that is named.

Most queries of a public log ask for words that no registration has, and such casts select no peer.
`back_off` makes of each of them a cast to the rarest of its words that some peer registers.
"""

import csv
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.corpus.papers import draw
from implicast.lab.corpus.pieces import Pieces
from implicast.lab.corpus.words import query_tags
from implicast.lab.errors import CorpusError
from implicast.lab.storage import Location
from implicast.language.tags import written

TAGS_MAX = 6
"""Longer queries are sentences; they would select no peer."""


COLUMN = "phrase"
ROWS = 50_000
"""Rows of a table that are counted at once."""
ASKED = pa.schema([("source", pa.string()), ("query", pa.string()), ("asked", pa.int64())])


def read_queries(
    spark: SparkSession, places: Sequence[Location], column: str = COLUMN
) -> DataFrame:
    """(source, tags, asked): the distinct queries of some lists or tables of phrases (`.tsv`,
    `.tsv.gz`), a task for each file, which reads it piece by piece.
    """
    if not places:
        raise CorpusError("no list of queries was named")
    asked = [(each.url, _column_of(each, column)) for each in places]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _queries(Location(asked[number][0]), asked[number][1])

    rows = spark.range(0, len(asked), 1, len(asked)).mapInArrow(work, tables.schema(ASKED))
    counted = rows.groupBy("source", "query").agg(F.sum("asked").alias("asked"))
    tagged = counted.mapInArrow(_tagged, tables.schema(tables.QUERIES))
    return tagged.groupBy("source", "tags").agg(F.sum("asked").alias("asked"))


def _column_of(place: Location, column: str) -> int | None:
    """Where the column of this name is in a table, or of this number from 1 on; None in a list."""
    if not place.is_file():
        raise CorpusError(f"there is no list of queries {place}")
    if not _is_table(place):
        return None
    header = next(_fields(place), [])
    if column in header:
        return header.index(column)
    if column.isdigit() and 0 < int(column) <= len(header):
        return int(column) - 1
    raise CorpusError(
        f"{place.name} has no column {column!r}; it has {', '.join(header)}: choose one with "
        "--column"
    )


def _is_table(place: Location) -> bool:
    return bool({".tsv", ".csv"} & set(PurePath(place.name).suffixes))


def _fields(place: Location) -> Iterator[list[str]]:
    """The rows of a table; quotes have a meaning in `.csv` alone."""
    lines = (line.rstrip("\r") for some in _texts(place) for line in some)
    if ".tsv" in PurePath(place.name).suffixes:
        return csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    return csv.reader(lines)


def _texts(place: Location) -> Iterator[list[str]]:
    for lines in Pieces(place).lines():
        yield [line.decode("utf-8", "replace") for line in lines]


def _queries(place: Location, column: int | None) -> Iterator[pa.RecordBatch]:
    """(source, query, asked) of a file, counted piece by piece."""
    source = place.name.split(".")[0]
    for phrases in _phrases(place, column):
        counted = Counter(phrases)
        columns = [[source] * len(counted), list(counted), list(counted.values())]
        yield pa.record_batch(columns, schema=ASKED)


def _phrases(place: Location, column: int | None) -> Iterator[list[str]]:
    if column is None:
        for lines in _texts(place):
            yield [line.rstrip("\r") for line in lines]
        return
    rows = itertools.islice(_fields(place), 1, None)
    while some := list(itertools.islice(rows, ROWS)):
        yield [row[column] for row in some if len(row) > column and row[column]]


def _tagged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        tags = [query_tags(query) for query in batch["query"].to_pylist()]
        kept = [index for index, each in enumerate(tags) if 0 < len(each) <= TAGS_MAX]
        columns = [
            batch["source"].take(kept),
            pa.array([tags[index] for index in kept], tables.TAGS),
            batch["asked"].take(kept),
        ]
        yield pa.record_batch(columns, schema=tables.QUERIES)


def casts(queries: DataFrame, count: int, peers: int, seed: int) -> DataFrame:
    """(cast, publisher, target): so many draws from the queries, each as likely as it was asked;
    publishers uniform.
    """
    return with_targets(drawn(queries, count, peers, seed))


def drawn(queries: DataFrame, count: int, peers: int, seed: int) -> DataFrame:
    """(cast, publisher, tags): the same before the tags become a target."""
    order = Window.orderBy(F.desc("asked"), "tags")
    merged = queries.groupBy("tags").agg(F.sum("asked").alias("asked"))
    tickets = merged.select(
        "tags", (F.sum("asked").over(order) - F.col("asked")).alias("start"), "asked"
    ).select(
        "tags", F.explode(F.sequence("start", F.col("start") + F.col("asked") - 1)).alias("ticket")
    )
    total = F.broadcast(merged.agg(F.sum("asked").alias("tickets")))
    numbered = (
        queries.sparkSession.range(count)
        .select(F.col("id").cast("int").alias("cast"))
        .crossJoin(total)
    )
    chosen = numbered.select(
        "cast",
        draw(seed, "publisher", F.col("cast"), F.lit(peers)).cast("int").alias("publisher"),
        draw(seed, "query", F.col("cast"), F.col("tickets")).alias("ticket"),
    )
    return chosen.join(tickets, "ticket").select("cast", "publisher", "tags")


def back_off(asked: DataFrame, sized: DataFrame, registrations: DataFrame) -> DataFrame:
    """(cast, publisher, tags): casts that select no peer ask for the rarest of their tags that
    some peer registers.

    `sized` is (cast, size). A cast none of whose tags is registered stays as it is.
    """
    held = (
        registrations.select(F.explode("tags").alias("tag"))
        .groupBy("tag")
        .agg(F.count("*").alias("holders"))
    )
    empty = asked.join(sized.where("size = 0").select("cast"), "cast", "left_semi")
    known = empty.select("cast", F.explode("tags").alias("tag")).join(held, "tag")
    rarest = known.groupBy("cast").agg(F.min(F.struct("holders", "tag")).alias("rarest"))
    return asked.join(rarest, "cast", "left").select(
        "cast",
        "publisher",
        F.when(F.col("rarest").isNotNull(), F.array("rarest.tag"))
        .otherwise(F.col("tags"))
        .alias("tags"),
    )


def with_targets(chosen: DataFrame) -> DataFrame:
    """(cast, publisher, target) from (cast, publisher, tags): the conjunction as text."""
    return chosen.mapInArrow(_targets, tables.schema(tables.WORKLOAD["casts"]))


def _targets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        texts = [" & ".join(written(tag) for tag in tags) for tags in batch["tags"].to_pylist()]
        yield pa.record_batch(
            [batch["cast"], batch["publisher"], pa.array(texts, pa.string())],
            schema=tables.WORKLOAD["casts"],
        )
