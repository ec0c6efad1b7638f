"""A place that loses entries knows where its lists lack somebody: else nobody would ever look."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.standing import Standing
from implicast.overlay.skip_graph.table import every_class
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors


def population(rng: Random, n: int, vectors: Vectors) -> list[Certificate]:
    keys = rng.sample(range(1_000_000), n)
    return [
        Certificate(key.to_bytes(4, "big"), vectors.pack_number(rng.getrandbits(256)), serial, b"", serial, 0, 1, b"")
        for serial, key in enumerate(keys)
    ]


def lacking(place: Place, everyone: dict[bytes, Certificate], k: int) -> list[tuple[int, bool | None]]:
    """Levels and sides (None: the whole ring) where somebody who is there is unknown; True: to the left."""
    wanted = every_class(place.certificate, everyone.values(), k, place.vectors)
    return [
        (number, None if level.full else index < level.own)
        for number, level in enumerate(wanted.levels)
        for index, node in enumerate(level.nodes)
        if node.key not in place.known and node.key != place.key
    ]


def placed(people: list[Certificate], k: int, vectors: Vectors) -> Place:
    """The first of them, knowing whom it must know."""
    place = Place(people[0], k, vectors)
    place.surround(Standing(k, vectors, people).surroundings(place.key))
    return place


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 2**32), st.integers(2, 120), st.integers(2, 4), st.sampled_from([2, 2, 3]), st.integers(1, 4))
def test_where_a_list_lacks_somebody_one_looks(seed: int, n: int, k: int, alpha: int, times: int) -> None:
    rng, vectors = Random(seed), Vectors(alpha)
    people = population(rng, n, vectors)
    place = placed(people, k, vectors)
    there = {node.key: node for node in people[1:]}

    for _ in range(times):
        gone = [key for key in sorted(place.known) if rng.random() < rng.choice((0.05, 0.3, 0.8))]
        place.drop(gone)
        for key in gone:
            del there[key]
        for number, is_left in lacking(place, there, k):
            sides = (True, False) if is_left is None else (is_left,)
            assert any((number, side) in place.short for side in sides), (number, is_left)


@given(st.integers(0, 2**32), st.booleans())
def test_what_a_witness_did_not_answer_is_asked_of_another(seed: int, answers: bool) -> None:
    vectors = Vectors(2)
    place = placed(population(Random(seed), 80, vectors), 4, vectors)
    place.drop([place.wide.levels[0].nodes[-1].key])
    assert (0, False) in place.short

    place.look()
    while (asked := place.next_to_ask()) is not None:
        if answers:
            place.answered(asked[0].key)
        else:
            place.drop([asked[0].key])
            place.short.clear()  # what follows from its own loss is another matter
    place.settle()

    assert ((0, False) in place.short) != answers
