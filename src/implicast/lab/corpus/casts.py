"""Casts from what people ask for (thesis, section 9.3.2): queries and key phrases, each word a tag,
all conjunctive.

A list has one query per line, repeats kept: how often a query was asked is how likely it is drawn.
A table (`.tsv`, `.csv`) has a header line; the column `phrase` is taken, or the one that is named.

Most queries of a public log ask for words that no registration has, and such casts select no peer.
`back_off` makes of each of them a cast to the rarest of its words that some peer registers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.corpus.papers import draw
from implicast.lab.corpus.words import query_tags
from implicast.lab.errors import CorpusError
from implicast.language.tags import written

TAGS_MAX = 6
"""Longer queries are sentences; they would select no peer."""


COLUMN = "phrase"


def read_queries(spark: SparkSession, paths: Sequence[Path], column: str = COLUMN) -> DataFrame:
    """(source, tags, asked): the distinct queries of some lists or tables of phrases (`.tsv`,
    `.tsv.gz`).
    """
    lines = None
    for path in paths:
        if not path.is_file():
            raise CorpusError(f"there is no list of queries {path}")
        table = {".tsv", ".csv"} & set(path.suffixes)
        found = _phrases(spark, path, column) if table else spark.read.text(str(path.absolute()))
        named = found.select(
            F.lit(path.name.split(".")[0]).alias("source"), F.col("value").alias("query")
        )
        lines = named if lines is None else lines.unionByName(named)
    if lines is None:
        raise CorpusError("no list of queries was named")
    counted = lines.groupBy("source", "query").agg(F.count("*").alias("asked"))
    tagged = counted.mapInArrow(_tagged, tables.schema(tables.QUERIES))
    return tagged.groupBy("source", "tags").agg(F.sum("asked").alias("asked"))


def _phrases(spark: SparkSession, path: Path, column: str) -> DataFrame:
    """The column of this name, or of this number from 1 on."""
    separator, quote = ("\t", "") if ".tsv" in path.suffixes else (",", '"')
    table = (
        spark.read.option("header", True)
        .option("sep", separator)
        .option("quote", quote)
        .csv(str(path.absolute()))
    )
    name = (
        table.columns[int(column) - 1]
        if column.isdigit() and 0 < int(column) <= len(table.columns)
        else column
    )
    if name not in table.columns:
        there = ", ".join(table.columns)
        raise CorpusError(
            f"{path.name} has no column {column!r}; it has {there}: choose one with --column"
        )
    return table.select(F.col(f"`{name}`").alias("value")).where("value is not null")


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
