"""Lists that are seen to agree at a glance are those in which a comparison finds nothing; and most are seen."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from implicast.overlay.skip_graph.comparing import agrees, contrast
from implicast.overlay.skip_graph.messages import Span
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.standing import Standing
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

VECTORS = Vectors(2)


def places(rng: Random, n: int, k: int, forgotten: float) -> list[Place]:
    """All of a population, each knowing those it must know but for a few."""
    keys = rng.sample(range(1_000_000), n)
    people = [
        Certificate(key.to_bytes(4, "big"), VECTORS.pack_number(rng.getrandbits(256)), serial, b"", serial, 0, 1, b"")
        for serial, key in enumerate(keys)
    ]
    standing, found = Standing(k, VECTORS, people), []
    for certificate in people:
        place = Place(certificate, k, VECTORS)
        around = standing.surroundings(certificate.key)
        place.surround([node for node in around if rng.random() >= forgotten])
        found.append(place)
    return found


def spans(one: Place, other: Place) -> list[Span]:
    shared = VECTORS.common(one.certificate.vector, other.certificate.vector)
    levels = one.wide.levels[: shared + 1]
    return [
        Span(other.key, one.certificate, number, level.keys, level.full)
        for number, level in enumerate(levels)
        if other.key in level.keys
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(2, 4), st.sampled_from([0.0, 0.03, 0.2]))
def test_what_agrees_at_a_glance_shows_no_difference(seed: int, n: int, k: int, forgotten: float) -> None:
    rng = Random(seed)
    everyone = places(rng, n, k, forgotten)
    glances = found = 0
    for one in everyone:
        other = rng.choice(everyone)
        for span in spans(one, other) if one is not other else ():
            lacking, unknown = contrast(other, span)
            same = not lacking and not unknown
            glances += agrees(other, span)
            found += same
            assert same or not agrees(other, span)
    assert forgotten or glances >= found // 2
