"""The inverted index: who is selected, after additions, changes and removals."""

from implicast.language.attributes import Schema
from implicast.language.index import Index
from implicast.language.parse import describe, description, parse
from implicast.language.target import Description, Value

SCHEMA = Schema.read("price: 0..100 by 0.5; exchange: NYSE | LSE; title: text")


def music() -> Index[int]:
    index: Index[int] = Index()
    for key, text in {
        7: "jazz football",
        2: "jazz",
        9: "samba, football",
        4: "jazz, samba",
        5: "",
    }.items():
        index.add(key, description(text))
    return index


def test_keys_come_sorted() -> None:
    assert music().select(parse("jazz")) == [2, 4, 7]
    assert music().select(parse("football & (jazz | samba)")) == [7, 9]
    assert list(music()) == [2, 4, 5, 7, 9]


def test_exclusion_is_a_set_difference() -> None:
    assert music().select(parse("jazz & !football & !polka")) == [2, 4]
    assert music().select(parse("jazz & !football | samba & !jazz")) == [2, 4, 9]


def test_unknown_tags_select_nobody() -> None:
    assert music().select(parse("polka")) == []
    assert music().select(parse("polka & jazz")) == []


def test_a_new_description_takes_the_place_of_the_old_one() -> None:
    index = music()

    index.add(7, describe("samba"))

    assert index.select(parse("jazz")) == [2, 4]
    assert index.select(parse("samba")) == [4, 7, 9]
    assert len(index) == 5


def test_what_is_removed_leaves_no_trace() -> None:
    index = music()

    removed = [index.remove(key) for key in (2, 4, 5, 7, 9)]

    assert removed[0] == describe("jazz")
    assert index.remove(2) is None
    assert index.tags() == []
    assert len(index) == 0
    assert 2 not in index


def test_an_answer_does_not_change_with_the_index() -> None:
    index = music()
    answer = index.select(parse("jazz"))

    index.remove(2)

    assert answer == [2, 4, 7]


def test_each_key_belongs_to_the_least_term_that_selects_it() -> None:
    index, target = music(), parse("football | jazz | samba")

    parts = [index.select_least(target, term) for term in target.terms]

    assert parts == [[7, 9], [2, 4], []]


def test_places_and_counts_are_those_of_the_keys_also_when_places_are_used_again() -> None:
    index, target = music(), parse("jazz | chess & !samba")
    index.remove(2)
    index.add(3, describe("chess"))
    index.add(1, describe("chess, samba"))

    places = index.select_places(target)

    assert sorted(map(index.key, places)) == index.select(target) == [3, 4, 7]
    assert list(places) == sorted(places)
    assert index.count_selected(target) == 3
    assert index.count_selected(parse("polka")) == 0


def test_keys_may_be_network_addresses() -> None:
    index: Index[tuple[str, int]] = Index()
    for port in (3, 1, 2):
        index.add(("host", port), describe("a"))

    assert index.select(parse("a")) == [("host", 1), ("host", 2), ("host", 3)]


def test_the_rarest_tag_is_found() -> None:
    assert music().rarest(["jazz", "samba", "football"]) == "football"
    assert music().count("jazz") == 3
    assert music().count("polka") == 0


def test_predicates_select_by_value() -> None:
    index: Index[int] = Index()
    texts = (
        "jazz price=8 exchange=NYSE",
        "jazz price=8.5",
        "price=9 exchange=LSE",
        "jazz exchange=LSE",
        "price=100",
    )
    for key, text in enumerate(texts):
        index.add(key, description(text, SCHEMA))

    def selected(text: str) -> list[int]:
        return index.select(parse(text, SCHEMA))

    assert selected("price > 8") == [1, 2, 4]
    assert selected("8 < price < 9") == [1]
    assert selected("price != 9") == [0, 1, 4]
    assert selected("jazz & price in 8..9") == [0, 1]
    assert selected("exchange = LSE & price >= 9") == [2]
    assert selected("exchange != LSE") == [0]
    assert selected("price <= 8.5 & !jazz") == []
    assert selected('title = "x"') == []
    index.remove(2)
    assert selected("price > 8") == [1, 4]


def test_the_description_can_be_asked_back() -> None:
    assert music().description(2) == describe("jazz")
    assert music().description(5) == Description()
    assert music().description(77) is None


def test_what_is_said_twice_is_forgotten_once():
    """A description off a wire may name a tag or a value again."""
    index: Index[int] = Index()
    twice = Description(("jazz", "jazz"), (Value("price", 5), Value("price", 5)))
    index.add(1, twice)

    assert index.remove(1) == twice
    assert index.tags() == []
