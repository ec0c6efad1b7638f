"""Registrations and casts from people who tag: tables of users, their articles, and the articles'
tags.

The layout is that of CiteULike data sets: `users.dat` (articles of each user), `item-tag.dat` (tags
of each article), where line i is user or article i and starts with a count, and `tags.dat`, the
text of tag i on line i, all perhaps gzipped. A registration is a user's eighteen commonest tags; a
cast asks for one to three tags of one article.
"""

import gzip
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from implicast.lab.corpus.casts import with_targets
from implicast.lab.corpus.papers import draw, met, top_tags
from implicast.lab.errors import CorpusError
from implicast.lab.storage import Location
from implicast.language.tags import fold, objection_to

MIX = (1, 1, 1, 2, 2, 3)
"""Half of the casts ask for one tag, a third for two, a sixth for three, as in the thesis's query
log.
"""

FILES = ("users.dat", "item-tag.dat", "tags.dat")

_TAGGED = pa.schema([("article", pa.int32()), ("at", pa.int32()), ("tag", pa.string())])
_READ = pa.schema([("user", pa.int32()), ("at", pa.int32()), ("article", pa.int32())])


def read_tagged(spark: SparkSession, directory: Location) -> tuple[DataFrame, DataFrame]:
    """(user, at, article) and (article, at, tag): who keeps what, and how it is tagged."""
    users, items, names = (_lines(directory, name) for name in FILES)
    tags = [fold(name.strip()) for name in names]
    read = [
        (user, at, int(article))
        for user, line in enumerate(users)
        for at, article in enumerate(line.split()[1:])
    ]
    tagged = [
        (article, at, tags[int(number)])
        for article, line in enumerate(items)
        for at, number in enumerate(line.split()[1:])
        if objection_to(tags[int(number)]) is None
    ]
    if not read or not tagged:
        raise CorpusError(f"{directory} names no user or no tag")
    return _frame(spark, read, _READ), _frame(spark, tagged, _TAGGED)


def _frame(
    spark: SparkSession, rows: Sequence[tuple[object, ...]], declared: pa.Schema
) -> DataFrame:
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), declared, strict=True)
    ]
    return spark.createDataFrame(pa.table(columns, schema=declared))


def _lines(directory: Location, name: str) -> list[str]:
    for place in (directory / name, directory / f"{name}.gz"):
        if place.is_file():
            content = place.read()
            return (
                (gzip.decompress(content) if place.name.endswith(".gz") else content)
                .decode("utf-8", "replace")
                .splitlines()
            )
    raise CorpusError(f"{directory} has no {name} or {name}.gz; expected {', '.join(FILES)}")


def registrations(read: DataFrame, tagged: DataFrame, peers: int, seed: int) -> DataFrame:
    """(peer, tags): every peer is a user at random, with the tags that are commonest in the user's
    library.
    """
    users = (
        read.groupBy("user")
        .agg(F.count("*").alias("articles"))
        .select("user", (F.row_number().over(Window.orderBy("user")) - 1).alias("place"))
    )
    count = F.broadcast(users.agg(F.count("*").alias("users")))
    who = (
        read.sparkSession.range(peers)
        .select(F.col("id").cast("int").alias("peer"))
        .crossJoin(count)
    )
    chosen = who.withColumn("place", draw(seed, "user", F.col("peer"), F.col("users"))).join(
        F.broadcast(users), "place"
    )
    drawn = read.join(F.broadcast(chosen.select("user").distinct()), "user", "left_semi")
    library = drawn.select("user", F.col("at").alias("turn"), "article").join(tagged, "article")
    bag = library.groupBy("user", "tag").agg(
        F.count("*").alias("times"), F.min(met()).alias("first")
    )
    best = top_tags(bag.withColumnRenamed("user", "peer")).withColumnRenamed("peer", "user")
    return chosen.select("peer", "user").join(best, "user").select("peer", "tags")


def casts(tagged: DataFrame, count: int, peers: int, seed: int) -> DataFrame:
    """(cast, publisher, target): one, two or three tags (as 3 : 2 : 1, the thesis's mix) of an
    article at random.
    """
    articles = tagged.groupBy("article").agg(F.array_sort(F.collect_set("tag")).alias("all"))
    placed = articles.select(
        "*", (F.row_number().over(Window.orderBy("article")) - 1).alias("place")
    )
    total = F.broadcast(placed.agg(F.count("*").alias("articles")))
    numbered = (
        tagged.sparkSession.range(count)
        .select(F.col("id").cast("int").alias("cast"))
        .crossJoin(total)
    )
    drawn = numbered.select(
        "cast",
        draw(seed, "publisher", F.col("cast"), F.lit(peers)).cast("int").alias("publisher"),
        draw(seed, "article", F.col("cast"), F.col("articles")).alias("place"),
        F.get(
            F.array(*map(F.lit, MIX)),
            draw(seed, "tags", F.col("cast"), F.lit(len(MIX))).cast("int"),
        ).alias("asks"),
    )
    shuffled = F.array_sort(
        F.transform(
            "all", lambda tag: F.struct(F.xxhash64(F.lit(seed), "cast", tag), tag.alias("tag"))
        )
    )
    chosen = drawn.join(placed, "place").select(
        "cast", "publisher", F.slice(shuffled, 1, F.col("asks")).alias("some")
    )
    return with_targets(
        chosen.select("cast", "publisher", F.array_sort(F.col("some.tag")).alias("tags"))
    )
