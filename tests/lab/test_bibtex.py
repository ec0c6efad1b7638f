"""BibTeX as it is met in the wild, and the words in it."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from implicast.lab.corpus.bibtex import papers, text_of
from implicast.lab.corpus.words import plain, query_tags, stop_words, words

QUIRKY = r"""
@comment{nothing to see}
@string{aai = "Artificial Intelligence"}
@article{one, title = {Reasoning about {B}ayesian networks: the case of na{\"\i}ve G\"odel},
 journal = {AI Magazine.}, year = 1999}

@InProceedings{two,
   Title = "Multi-line
       abstracts {\textendash} and tabs", Abstract = {Agents $x^2$ negotiate; the 61st agents' agents.},
   tags = {__untagged}}
@proceedings{vol, title = {Proceedings of the 3rd Workshop on Agents}, booktitle = {AAAI}}
@article{broken, title = {Never closed {brace, year = 2001
}

@article{three, title = {Planning, title and planning}, title = {second title}, keywords = {planning}}
@article{one, title = {Same key, other paper}}
@article{four, title = {Planning, Title and Planning.}}
@misc{empty, author = {Nobody, A.}, year = {2000}}
"""


def test_entries_of_many_dialects_are_read_and_the_rest_is_named() -> None:
    found = list(papers(QUIRKY))

    used = {paper.key: paper.words for paper in found if paper.reason is None}
    assert used["two"] == (
        "multi",
        "line",
        "abstracts",
        "tabs",
        "agents",
        "negotiate",
        "agents",
        "agents",
    )
    assert (
        set(used["one"]) >= {"reasoning", "bayesian", "naïve", "gödel", "ai", "magazine"}
        or "key" in used["one"]
    )
    reasons = Counter(
        (paper.reason or "used").split(":")[0].split(" of entry")[0] for paper in found
    )
    assert reasons["a volume, not a paper"] == 1
    assert reasons["cannot be read"] == 1
    assert reasons["repeats the title"] == 1
    assert reasons["no words in any descriptive field"] == 1


def test_a_repeated_field_is_read_once_and_a_repeated_key_is_another_paper() -> None:
    found = {(paper.key, paper.words[0]) for paper in papers(QUIRKY) if paper.reason is None}

    assert ("three", "planning") in found
    assert ("one", "key") in found
    assert ("one", "reasoning") in found


def test_a_skipped_entry_says_where_it_is_and_how_it_begins() -> None:
    broken = next(
        paper for paper in papers(QUIRKY) if (paper.reason or "").startswith("cannot be read")
    )

    assert QUIRKY.splitlines()[broken.line - 1].startswith("@article{broken")
    assert broken.text.startswith("@article{broken, title")


def test_tex_is_taken_off_words() -> None:
    assert (
        plain(r"Probabilit\'es, Kratochv\'{i}l, Stra{\ss}e, {\o}re")
        == "Probabilités, Kratochvíl, Straße, øre"
    )
    assert words(
        r"The C{\"o}ln {SAT}-solver's \emph{learning} of $\alpha$-rules in 1999, 2nd ed."
    ) == [
        "cöln",
        "sat",
        "solver",
        "learning",
        "rules",
    ]


def test_queries_become_distinct_sorted_tags_without_stop_words() -> None:
    assert query_tags("The state of the art in the Art of programming") == [
        "art",
        "programming",
        "state",
    ]
    assert query_tags("what is this") == []
    assert {"the", "of", "about", "proceedings"} <= stop_words()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_files_are_read_in_the_encodings_that_occur_packed_or_not(encoding: str) -> None:
    content = "@article{a, title = {Müller’s naïve café}}".encode(encoding)

    for packed in (content, gzip.compress(content)):
        assert [paper.words for paper in papers(text_of(packed)[0])] == [
            ("müller", "naïve", "café")
        ]


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "@",
        "@article",
        "@article{",
        "@article{x",
        "{{{{",
        "@a{b,c=}@",
        "\0\x01@book{k,title={a" * 50,
    ],
)
def test_garbage_never_raises(garbage: str) -> None:
    assert all(paper.reason for paper in papers(garbage)) or list(papers(garbage)) == []


def test_the_real_bibliographies_are_read_to_the_last_entry(data: Path) -> None:
    expected = {
        "ml-graphical-models-2018": 47,
        "ai-games": 575,
        "conf-jurix": 642,
        "ml-healthcare-2020": 42,
        "nlp-bionlp": 174,
    }

    for name, count in expected.items():
        found = list(papers(text_of((data / "bibliographies" / f"{name}.bib.gz").read_bytes())[0]))
        assert len(found) == count, name


def test_each_line_has_its_own_encoding() -> None:
    mixed = "@misc{a, title = {Müller}}\n".encode() + "@misc{b, title = {Café Müller}}\n".encode(
        "cp1252"
    )

    text, flaw = text_of(mixed)

    assert flaw is None
    assert [paper.words for paper in papers(text)] == [("müller",), ("café", "müller")]


def test_names_of_strings_are_spelled_out_and_venues_say_what_about() -> None:
    text = """@string{jair = "Journal of Artificial Intelligence Research"}
@article{a, title = {Planning}, journal = jair}
@article{b, title = {Search}, journaltitle = "IEEE Letters on " # jair}
@article{c, title = {Lecture notes of Springer}}"""

    found = {paper.key: paper.words for paper in papers(text)}

    assert found["a"] == ("planning", "artificial", "intelligence", "research")
    assert found["b"] == ("search", "artificial", "intelligence", "research")
    assert "lecture" in found["c"], "a title is not a venue"


def test_a_file_that_is_cut_off_gives_what_came_before() -> None:
    whole = gzip.compress(
        b"".join(b"@misc{k%d, title = {Paper number %d of many}}\n" % (n, n) for n in range(5000))
    )

    text, flaw = text_of(whole[: len(whole) // 2])

    assert flaw is not None
    assert flaw.startswith("gzip cut off after")
    assert len(list(papers(text))) > 1000
