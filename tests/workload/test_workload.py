"""Workloads by name: what they draw, what they refuse, and tables read back."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from implicast.language.errors import LocalError
from implicast.language.parse import describe, description, parse
from implicast.space.digest import digest_bits
from implicast.workload.draw import Shuffle, Stream, span
from implicast.workload.groups import Groups, combinations
from implicast.workload.stated import read_stated, stated, write_stated
from implicast.workload.workload import KINDS, WorkloadError, parameters, workload
from implicast.workload.zipf import Zipf, distinct_ranks, thresholds


@pytest.mark.parametrize("name", KINDS)
def test_registrations_are_equally_long_and_publishers_are_peers(name: str) -> None:
    drawn = workload(name, seed=1, peers=500, casts=300)

    assert len({len(each.tags) for each in drawn.described()}) == 1
    assert len(drawn.targeted()) == 300
    assert drawn.publishers(0, 300).min() >= 0
    assert drawn.publishers(0, 300).max() < 500
    assert len(set(drawn.publishers(0, 300).tolist())) > 150


@pytest.mark.parametrize("name", KINDS)
def test_single_draws_agree_with_bulk(name: str) -> None:
    drawn = workload(name, seed=2, peers=60, casts=40)

    assert [drawn.description(peer) for peer in range(60)] == drawn.described()
    assert [drawn.target(cast) for cast in range(40)] == drawn.targeted()
    assert [drawn.publisher(cast) for cast in range(40)] == drawn.publishers(0, 40).tolist()


@pytest.mark.parametrize("name", KINDS)
def test_another_seed_draws_another_workload(name: str) -> None:
    one, other = (workload(name, seed=seed, peers=50, casts=50) for seed in (1, 2))

    assert one.described() != other.described()
    assert one.publishers(0, 50).tolist() != other.publishers(0, 50).tolist()


def splitmix(word: int) -> int:
    """The finaliser of SplitMix64 in Python's own whole numbers."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def test_draws_are_those_of_whole_numbers_without_numpy() -> None:
    golden, base = 0x9E3779B97F4A7C15, digest_bits(64, "draw", 5, "a", "b")

    for index in (0, 1, 77, 2**40):
        expected = [
            splitmix((splitmix((key * golden + base) % 2**64) + index * golden) % 2**64)
            for key in range(50)
        ]
        assert Stream.of(5, "a", "b").words(span(0, 50), index).tolist() == expected


def test_a_seed_keeps_drawing_the_same_workload() -> None:
    zipf = workload("zipf", seed=1, peers=4096, casts=1024)

    assert str(zipf.target(0)) == "tag06360 & tag08267"
    assert zipf.publishers(0, 5).tolist() == [212, 986, 2095, 2561, 4046]


def test_casts_may_have_several_terms_and_exclusions() -> None:
    zipf = workload("zipf", seed=1, peers=10, casts=200, terms=3, negated=1, tags_per_cast=2)

    for target in zipf.targeted():
        assert 1 <= len(target.terms) <= 3
        assert all(len(term.has) == 2 and len(term.lacks) == 1 for term in target.terms)
        assert parse(str(target)) == target
    assert sum(len(target.terms) == 3 for target in zipf.targeted()) > 150


def test_the_names_of_tags_do_not_tell_their_ranks() -> None:
    zipf = Zipf(seed=1, peers=2_000, casts=0, tags=1_000)
    held = np.bincount(zipf.descriptions(0, 2_000).tag, minlength=1_000)

    assert zipf.rank_of(f"tag{int(held.argmax()):03}") == 1
    assert abs(np.corrcoef(held, np.arange(1_000))[0, 1]) < 0.1


def test_frequencies_follow_zipfs_law() -> None:
    ranks = distinct_ranks(Stream.of(1, "test"), span(0, 200_000), 1, thresholds(50, 1.0)).ravel()

    shares = np.bincount(ranks, minlength=50) / len(ranks)

    expected = 1 / np.arange(1, 51)
    assert shares == pytest.approx(expected / expected.sum(), abs=0.004)


def test_distinct_draws_are_the_first_distinct_of_the_independent_ones() -> None:
    stream, table = Stream.of(3, "test"), thresholds(30, 2.0)

    ranks = distinct_ranks(stream, span(0, 50), 6, table)

    for key in range(50):
        words = [stream.words(span(key, key + 1), index)[0] for index in range(400)]
        sequence = [
            int(np.searchsorted(table, word >> np.uint64(24), side="right")) for word in words
        ]
        assert ranks[key].tolist() == list(dict.fromkeys(sequence))[:6]


def test_all_tags_can_be_drawn() -> None:
    drawn = workload("zipf", seed=1, peers=30, tags=18, skew=2.0)

    assert all(len(each.tags) == 18 for each in drawn.described())


def test_a_skewed_vocabulary_that_cannot_be_exhausted_is_filled_up() -> None:
    ranks = distinct_ranks(Stream.of(1, "test"), span(0, 4), 3_000, thresholds(3_000, 2.0))

    assert [sorted(row) for row in ranks.tolist()] == [list(range(3_000))] * 4


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 100, 1_000, 4_097])
def test_a_shuffle_is_a_permutation(size: int) -> None:
    places = Shuffle(size, Stream.of(1, "test")).places(span(0, size))

    assert sorted(places.tolist()) == list(range(size))
    if size > 16:
        assert abs(np.corrcoef(places, np.arange(size))[0, 1]) < 0.6
        assert places.tolist() != Shuffle(size, Stream.of(2, "test")).places(span(0, size)).tolist()


@pytest.mark.parametrize(
    ("share", "peers", "holders"), [(0.25, 4_096, 1_024), (0.25, 10, 2), (1.0, 7, 7), (0.0, 7, 0)]
)
def test_exactly_the_share_of_peers_holds_the_extreme_tag(
    share: float, peers: int, holders: int
) -> None:
    extreme = workload("extreme", seed=4, peers=peers, casts=3, share=share)

    assert sum("extreme" in each.tags for each in extreme.described()) == holders
    assert {str(each) for each in extreme.targeted()} == {"extreme"}


def test_every_group_tag_is_given_to_the_same_number_of_peers() -> None:
    groups = workload("groups", seed=1, peers=1_000, casts=100, share=0.25)
    assert isinstance(groups, Groups)

    held = np.bincount(groups.descriptions(0, 1_000).tag)[: groups.group_tags]

    assert groups.group_tags == 15, "C(15, 2) = 105, C(14, 2) = 91"
    assert held.tolist() == [500] * 15


def test_fillers_are_never_asked_for_and_never_shared() -> None:
    groups = workload("groups", seed=1, peers=50, casts=30)
    fillers = [tag for each in groups.described() for tag in each.tags if tag.startswith("filler")]

    assert len(fillers) == len(set(fillers)) > 0
    assert not any("filler" in str(target) for target in groups.targeted())


def test_combinations_are_all_different() -> None:
    rows = combinations(span(0, 56), 3, 8)

    assert len({tuple(row) for row in rows.tolist()}) == 56
    assert all(a < b < c < 8 for a, b, c in rows.tolist())


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("zipff", {}, "there is no workload 'zipff': choose one of zipf, extreme, groups"),
        ("zipf", {"skw": 1}, "has no parameter 'skw'; it takes: capacity_skew, tags, skew"),
        ("zipf", {"skew": 2.5}, "skew=2.5 is out of range; it takes 0..2"),
        ("zipf", {"skew": "nan"}, "is not a number"),
        ("zipf", {"skew": "steep"}, "is not a number"),
        ("zipf", {"tags": 1.5}, "a whole number"),
        ("zipf", {"tags": 5}, "18 distinct tags cannot be drawn from tags=5"),
        ("zipf", {"distinct": "maybe"}, "true or false"),
        ("zipf", {"peers": 0}, "peers=0 is out of range"),
        ("zipf", {"casts": -1}, "casts=-1 is out of range"),
        ("extreme", {"share": 1.1}, "share=1.1"),
        ("groups", {"casts": 10_000_000}, "more than 1000"),
        (".", {"skew": 1}, "no parameters"),
        (".", {}, "is no workload"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(
    name: str, settings: dict[str, float | str], words: str
) -> None:
    with pytest.raises(LocalError) as caught:
        workload(name, **settings)  # type: ignore[arg-type]

    assert words in str(caught.value)


def test_settings_may_be_texts() -> None:
    assert workload("zipf", skew="1.5", distinct="false", tags="100") == Zipf(
        seed=0, peers=4_096, casts=1_024, skew=1.5, distinct=False, tags=100
    )


def test_every_parameter_is_documented() -> None:
    for name in KINDS:
        assert parameters(name)
        assert all(each.doc and each.range_text() for each in parameters(name))


def test_a_workload_written_as_tables_reads_back(tmp_path: Path) -> None:
    drawn = workload("zipf", seed=1, peers=50, casts=40, terms=2, negated=1)

    write_stated(drawn, tmp_path)
    read = workload(str(tmp_path))

    assert (read.peers, read.casts) == (50, 40)
    assert read.described() == drawn.described()
    assert read.targeted() == drawn.targeted()
    assert read.publishers(0, 40).tolist() == drawn.publishers(0, 40).tolist()
    assert read.tag_names(read.descriptions(3, 4).tag) == list(drawn.description(3).tags)
    assert read.targets(0, 40).cast.tolist() == drawn.targets(0, 40).cast.tolist()


def test_the_first_of_a_stated_workload_can_be_taken(tmp_path: Path) -> None:
    write_stated(stated([describe("a")] * 5, [parse("a")] * 4, [0] * 4), tmp_path)

    assert len(workload(str(tmp_path), peers=2, casts=1).described()) == 2
    with pytest.raises(WorkloadError, match="states 5 peers and 4 casts; 6 peers"):
        workload(str(tmp_path), peers=6)
    with pytest.raises(WorkloadError, match="5 casts are wanted"):
        workload(str(tmp_path), casts=5)


def test_attributes_survive_the_tables(tmp_path: Path) -> None:
    given = stated(
        [description('jazz, price = @830, exchange = "NYSE"')],
        [parse('jazz & price <= @900 & exchange = "NYSE"')],
        [0],
    )

    write_stated(given, tmp_path)

    assert read_stated(tmp_path).described() == given.described()
    assert read_stated(tmp_path).targeted() == given.targeted()


def test_an_empty_cell_of_an_optional_column_is_as_if_the_column_were_not_there(
    tmp_path: Path,
) -> None:
    write_stated(stated([describe("a")] * 3, [parse("a")], [0]), tmp_path)
    rows = {
        "peer": [0, 1, 2],
        "tags": [["a"]] * 3,
        "values": [None] * 3,
        "capacity": [None, 2.5, None],
    }
    pq.write_table(pa.table(rows), tmp_path / "registrations.parquet")

    read = workload(str(tmp_path))

    assert read.capacities(0, 3).tolist() == [1.0, 2.5, 1.0]
    assert read.described() == [describe("a")] * 3


@pytest.mark.parametrize("capacity", [0.0, -1.0, float("inf"), float("nan")])
def test_a_capacity_that_cannot_be_borne_is_refused(tmp_path: Path, capacity: float) -> None:
    write_stated(
        stated([describe("a")] * 2, [parse("a")], [0], capacities=[1.0, capacity]), tmp_path
    )

    with pytest.raises(WorkloadError, match=r"peer 1: a capacity of .* cannot be borne"):
        workload(str(tmp_path))


def test_a_journals_registrations_are_read_by_their_last_version(tmp_path: Path) -> None:
    rows = {
        "peer": [1, 0, 1],
        "version": [1, 0, 0],
        "withdrawn": [True, False, False],
        "tags": [["b"], ["a"], ["b"]],
    }
    pq.write_table(pa.table(rows), tmp_path / "registrations.parquet")
    (tmp_path / "casts").mkdir()
    casts = pa.table({"cast": [1, 0], "publisher": [0, 1], "target": ["b", "a"], "time_us": [5, 4]})
    pq.write_table(casts, tmp_path / "casts" / "part-0.parquet")

    read = workload(str(tmp_path))

    assert [each.tags for each in read.described()] == [("a",), ()]
    assert [str(each) for each in read.targeted()] == ["a", "b"]
    assert read.publisher(0) == 1


@pytest.mark.parametrize(
    ("casts", "words"),
    [
        ({"cast": [0], "publisher": [0]}, "has no column 'target'"),
        (
            {"cast": [0], "publisher": [0], "target": ["a & )"]},
            "cast 0: unexpected ')' at column 5",
        ),
        ({"cast": [0], "publisher": [9], "target": ["a"]}, "published by peer 9"),
        ({"cast": [1], "publisher": [0], "target": ["a"]}, "out of place"),
        ({"cast": [0, 0], "publisher": [0, 0], "target": ["a", "b"]}, "there twice"),
        ({"cast": [None], "publisher": [0], "target": ["a"]}, "empty cells"),
        ({"cast": ["x"], "publisher": [0], "target": ["a"]}, "is not int32"),
    ],
)
def test_tables_that_make_no_sense_are_refused_in_words(
    tmp_path: Path, casts: dict[str, list[object]], words: str
) -> None:
    pq.write_table(pa.table({"peer": [0], "tags": [["a"]]}), tmp_path / "registrations.parquet")
    pq.write_table(pa.table(casts), tmp_path / "casts.parquet")

    with pytest.raises(WorkloadError) as caught:
        workload(str(tmp_path))

    assert words in str(caught.value)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "registrations.parquet").write_text("peer,tags")

    with pytest.raises(WorkloadError, match="cannot be read as Parquet"):
        workload(str(tmp_path))
