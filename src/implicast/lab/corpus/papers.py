"""Bibliographies on Spark, and the thesis's Listing 13: a peer's registration from what its owner
reads.

A peer is given one bibliography at random and thirty papers at random from it (a paper may come
twice, as in the listing); the eighteen commonest words are its registration. Draws are hashes of
seed and peer, so that no partitioning changes them; among words equally common the one read first
wins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.corpus.bibtex import SHOWN, BibliographyReader, Paper, text_of
from implicast.lab.corpus.pieces import Pieces
from implicast.lab.errors import CorpusError
from implicast.lab.storage import Location

PAPERS_READ = 30
TAGS_KEPT = 18
SUFFIXES = (".bib", ".bib.gz")


def bibliographies(places: Sequence[Location]) -> list[Location]:
    """The BibTeX files among and below these places; `CorpusError` when there are none."""
    found: list[Location] = []
    for place in places:
        if not place.exists():
            raise CorpusError(f"there is no bibliography {place}")
        if place.is_file():
            found.append(place)
        else:
            found += [each for each in place.files() if each.name.endswith(SUFFIXES)]
    if not found:
        raise CorpusError(
            f"no BibTeX file ({' or '.join(SUFFIXES)}) in {', '.join(map(str, places))}"
        )
    return found


def read_entries(spark: SparkSession, files: Sequence[Location]) -> DataFrame:
    """(bibliography, number, line, key, kind, words, reason, text): every entry of the files, a
    task for each file, which reads it piece by piece.
    """
    urls = [each.url for each in files]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from _entries(Location(urls[number]))

    asked = spark.range(0, len(urls), 1, len(urls))
    return asked.mapInArrow(work, tables.schema(tables.ENTRIES))


def _entries(place: Location) -> Iterator[pa.RecordBatch]:
    name = place.name.removesuffix(".gz").removesuffix(".bib")
    for found in papers_of(place):
        rows = [asdict(each) | {"bibliography": name} for each in found]
        yield from pa.Table.from_pylist(rows, tables.ENTRIES).to_batches(max_chunksize=10_000)


def papers_of(place: Location) -> Iterator[list[Paper]]:
    """The entries of a file, piece by piece; a flaw of the file as a whole or of a piece is a row
    of its own, and the rest is used.
    """
    pieces, reader, shown = Pieces(place), BibliographyReader(), ""
    flaws: list[str] = []
    for number, piece in enumerate(pieces.records()):
        text, flaw = text_of(piece)
        shown = text[:SHOWN] if not number else shown
        try:
            yield list(reader.papers(text))
        except Exception as broken:  # whatever a parser makes of noise: this file's fault alone
            flaw = f"cannot be read: {type(broken).__name__}"
        flaws += [] if flaw is None else [flaw]
    flaws += [] if pieces.flaw is None else [pieces.flaw]
    if not flaws and not reader.number:
        flaws = ["no entry in the whole file"]
    yield [Paper(-1, 1, "", "", (), flaw, shown) for flaw in flaws]


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
