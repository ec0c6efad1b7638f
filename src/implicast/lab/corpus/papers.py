"""Bibliographies on Spark, and the thesis's Listing 13: a peer's registration from what its owner
reads.

A peer is given one bibliography at random and thirty papers at random from it (a paper may come
twice, as in the listing); the eighteen commonest words are its registration. Draws are hashes of
seed and peer, so that no partitioning changes them; among words equally common the one read first
wins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.corpus.bibtex import SHOWN, Paper, papers, text_of
from implicast.lab.errors import CorpusError

PAPERS_READ = 30
TAGS_KEPT = 18
SUFFIXES = (".bib", ".bib.gz")


def bibliographies(paths: Sequence[Path]) -> list[Path]:
    """The BibTeX files among and below these paths; `CorpusError` when there are none."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise CorpusError(f"there is no bibliography {path}")
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [
            each
            for each in below
            if each.is_file() and (each == path or each.name.endswith(SUFFIXES))
        ]
    if not found:
        raise CorpusError(
            f"no BibTeX file ({' or '.join(SUFFIXES)}) in {', '.join(map(str, paths))}"
        )
    return found


def read_entries(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """(bibliography, number, line, key, kind, words, reason, text): every entry of the files, a
    file at a time.
    """
    paths = [str(each.absolute()) for each in files]
    content = spark.read.format("binaryFile").load(paths).select("path", "content")
    return content.repartition(len(paths), "path").mapInArrow(
        _entries, tables.schema(tables.ENTRIES)
    )


def _entries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
            name = path.rsplit("/", 1)[-1].removesuffix(".gz").removesuffix(".bib")
            rows = [asdict(each) | {"bibliography": name} for each in _of_file(content.as_py())]
            yield from pa.Table.from_pylist(rows, tables.ENTRIES).to_batches(max_chunksize=10_000)


def _of_file(content: bytes) -> list[Paper]:
    """The entries of a file; a flaw of the file as a whole is a row of its own, and the rest is
    used.
    """
    text, flaw = text_of(content)
    try:
        found = list(papers(text))
    except Exception as broken:  # whatever a parser makes of noise: this file's fault alone
        found, flaw = [], f"cannot be read: {type(broken).__name__}"
    if flaw is None and not found:
        flaw = "no entry in the whole file"
    return found if flaw is None else [Paper(-1, 1, "", "", (), flaw, text[:SHOWN]), *found]


def reasons(entries: DataFrame) -> DataFrame:
    """(reason, entries): how many entries are used, and how many are not, by why."""
    kind = F.regexp_replace(
        F.coalesce(F.concat(F.lit("left out: "), "reason"), F.lit("used")), " of entry \\d+$", ""
    )
    return (
        entries.groupBy(kind.alias("reason"))
        .agg(F.count("*").alias("entries"))
        .orderBy(F.desc("entries"), "reason")
    )


def registrations(entries: DataFrame, peers: int, seed: int) -> DataFrame:
    """(peer, tags), commonest tag first: Listing 13 for every peer."""
    numbered_papers = _numbered(entries.where("reason is null"))
    papers_of = numbered_papers.groupBy("bibliography").agg(F.count("*").alias("papers"))
    ordered = papers_of.select(
        "*", (F.row_number().over(Window.orderBy("bibliography")) - 1).alias("shelf")
    )
    count = ordered.agg(F.count("*").alias("shelves"))
    who = entries.sparkSession.range(peers).select(F.col("id").cast("int").alias("peer"))
    chosen = who.crossJoin(F.broadcast(count)).withColumn(
        "shelf", draw(seed, "shelf", F.col("peer"), F.col("shelves"))
    )
    reading = chosen.join(F.broadcast(ordered), "shelf").select(
        "peer",
        "bibliography",
        "papers",
        F.explode(F.sequence(F.lit(0), F.lit(PAPERS_READ - 1))).alias("turn"),
    )
    place = draw(seed, "paper", F.col("peer"), F.col("papers"), F.col("turn"))
    read = reading.withColumn("place", place).join(numbered_papers, ["bibliography", "place"])
    seen = read.select("peer", "turn", F.posexplode("words").alias("at", "word"))
    bag = seen.groupBy("peer", "word").agg(F.count("*").alias("times"), F.min(met()).alias("first"))
    return top_tags(bag.select("peer", F.col("word").alias("tag"), "times", "first"))


def met() -> Column:
    """When a word is met, as one number: among words of equal numbers the least is the one read
    first.

    A number of `turn` and `at`, not a pair: Spark adds up by numbers in a hash table, and has to
    sort for pairs.
    """
    return F.shiftleft(F.col("turn").cast("long"), 32) + F.col("at")


def top_tags(bag: DataFrame, kept: int = TAGS_KEPT) -> DataFrame:
    """(peer, tags): the commonest tags of each peer from (peer, tag, times, first); ties go to the
    one met first.
    """
    ranked = F.sort_array(F.collect_list(F.struct((-F.col("times")).alias("rank"), "first", "tag")))
    cut = bag.groupBy("peer").agg(F.slice(ranked, 1, kept).alias("top"))
    return cut.select("peer", F.col("top.tag").alias("tags"))


def _numbered(kept: DataFrame) -> DataFrame:
    """Papers counted from 0 within their bibliography, without those that were skipped."""
    place = F.row_number().over(Window.partitionBy("bibliography").orderBy("number")) - 1
    return kept.select("bibliography", place.alias("place"), "words")


def draw(seed: int, purpose: str, key: Column, among: Column, turn: Column | None = None) -> Column:
    """A number from 0 to `among` - 1 that depends on nothing but seed, purpose and keys."""
    keys = [key] if turn is None else [key, turn]
    return F.pmod(F.xxhash64(F.lit(seed), F.lit(purpose), *keys), among)
