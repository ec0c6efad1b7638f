"""Registrations and casts from real bibliographies, queries and taggers."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import describe, tables
from implicast.lab.corpus import bibtex, casts, papers, pieces, taggers
from implicast.lab.corpus.words import stop_words
from implicast.lab.errors import CorpusError
from implicast.lab.storage import Location

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def entries(spark: SparkSession, data: Path, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Three of the bibliographies: large enough to draw from, small enough for every test run."""
    folder = Location.of(data / "bibliographies")
    path = Location.of(tmp_path_factory.mktemp("corpus") / "entries")
    files = [
        folder / f"{name}.bib.gz"
        for name in ("ai-nonmonotonic-reasoning", "ml-graphical-models-2018", "conf-alife")
    ]
    tables.write(papers.read_entries(spark, papers.bibliographies(files)), path, tables.ENTRIES)
    return tables.read(spark, path, tables.ENTRIES)


def test_every_entry_is_used_or_left_out_for_a_reason(entries: DataFrame) -> None:
    counted = {row["reason"]: row["entries"] for row in papers.reasons(entries).collect()}

    assert sum(counted.values()) == 2978 + 47 + 708
    assert counted["left out: repeats the title"] > 500
    assert sum(number for reason, number in counted.items() if "cannot be read" in reason) == 1


def test_registrations_look_like_those_of_table_9_2(entries: DataFrame) -> None:
    drawn = {row["peer"]: row["tags"] for row in papers.registrations(entries, 60, 1).collect()}
    again = {
        row["peer"]: row["tags"]
        for row in papers.registrations(entries.repartition(5), 60, 1).collect()
    }

    assert drawn == again
    assert set(drawn) == set(range(60))
    assert all(len(tags) == len(set(tags)) == 18 for tags in drawn.values())
    assert not {tag for tags in drawn.values() for tag in tags} & stop_words()
    # Table 9.2, second sample: "belief knowledge artificial action preliminary nonmonotonic ... logic theory"
    reasoner = max(
        drawn.values(),
        key=lambda tags: len({"logic", "reasoning", "nonmonotonic", "knowledge"} & set(tags)),
    )
    assert {"logic", "reasoning", "nonmonotonic"} <= set(reasoner)


def test_casts_are_drawn_as_often_as_they_were_asked(spark: SparkSession, data: Path) -> None:
    queries = casts.read_queries(
        spark, [Location.of(data / "queries" / "trec-terabyte-2005-stream.txt.gz")]
    )

    drawn = casts.casts(queries.cache(), 2_000, 50, 1).collect()

    assert sorted(row["cast"] for row in drawn) == list(range(2_000))
    assert {row["publisher"] for row in drawn} <= set(range(50))
    asked = {" & ".join(row["tags"]): row["asked"] for row in queries.collect()}
    assert all(row["target"] in asked for row in drawn)
    google = sum(row["target"] == "google" for row in drawn)
    assert google == pytest.approx(2_000 * asked["google"] / sum(asked.values()), rel=0.5)


def test_key_phrases_are_one_to_three_tags_and_follow_a_power_law(
    spark: SparkSession, data: Path
) -> None:
    phrases = casts.read_queries(spark, [Location.of(data / "keywords" / "cs-papers.tsv.gz")])

    lengths = {
        row["tags"]: row["count"]
        for row in phrases.groupBy(F.size("tags").alias("tags")).count().collect()
    }
    frequencies = [
        row["asked"] for row in phrases.select("asked").orderBy(F.desc("asked")).collect()
    ]

    assert sum(lengths[count] for count in (1, 2, 3)) > 0.9 * sum(lengths.values())
    assert 0.3 < describe.fit(frequencies).slope < 1.2


def test_users_of_a_tagging_site_register_their_commonest_tags(
    spark: SparkSession, data: Path
) -> None:
    read, tagged = taggers.read_tagged(spark, Location.of(data / "tags" / "citeulike-a"))

    registered = taggers.registrations(read, tagged, 200, 1).collect()
    asked = taggers.casts(tagged, 100, 200, 1).collect()

    assert len(registered) == 200
    assert sum(len(row["tags"]) == 18 for row in registered) > 190
    assert sorted(row["cast"] for row in asked) == list(range(100))


def test_an_empty_corpus_is_refused_by_name(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(CorpusError, match="no BibTeX file"):
        papers.bibliographies([Location.of(tmp_path)])
    with pytest.raises(CorpusError, match="there is no list of queries"):
        casts.read_queries(spark, [Location.of(tmp_path / "none.txt")])
    (tmp_path / "phrases.tsv").write_text("a\tb\n1\t2\n")
    with pytest.raises(CorpusError, match="no column 'phrase'; it has a, b"):
        casts.read_queries(spark, [Location.of(tmp_path / "phrases.tsv")])


def why_short(paper: bibtex.Paper) -> bibtex.Paper:
    return replace(paper, reason=None if paper.reason is None else paper.reason.split(":")[0])


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_in_pieces_has_the_entries_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    written = ["% a comment", '@string{jair = "Journal of AI Research"}']
    for number in range(300):
        title = f"peers overlay {number % 250} {'routing ' * (number % 7)}naming{number % 250}"
        broken = "," if number % 40 else "{"
        written.append(f"@article{{k{number},\n  title = {{{title}}}{broken}\n  journal = jair\n}}")
    text = "\n".join(written)
    path = tmp_path / ("big.bib.gz" if packed else "big.bib")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    whole = list(bibtex.papers(text))

    monkeypatch.setattr(pieces, "PIECE_BYTES", 2_000)
    found = list(papers.papers_of(Location.of(path)))

    assert len(found) > 10
    # A broken entry at the end of a piece ends with the piece, which its reason says.
    assert [why_short(each) for some in found for each in some] == list(map(why_short, whole))
    assert sum(each.reason is not None for each in whole) > 50
    if packed:
        path.write_bytes(path.read_bytes()[:-300])
        *some, flaw = (each for some in papers.papers_of(Location.of(path)) for each in some)
        assert "gzip cut off after" in str(flaw.reason)
        assert list(map(why_short, some[:100])) == list(map(why_short, whole[:100]))
