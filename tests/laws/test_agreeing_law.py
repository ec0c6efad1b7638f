"""Lists that are seen to agree at a glance are those in which a comparison finds nothing; and of 30
nodes or more most are seen.

Once all neighbours agree nobody is missing anywhere, though of several places of one peer in a row only the outer ones
are shown to others.
"""

from collections.abc import Iterable
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from implicast.overlay.skip_graph.agreement import (
    ListSpan,
    neighbour,
    own_neighbours,
    span_agrees,
    span_differences,
)
from implicast.overlay.skip_graph.place import Place
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors
from implicast.world.populations.assembled_graph import AssembledGraph
from skip_graph_rule import every_class

VECTORS = Vectors(2)


def places(rng: Random, n: int, k: int, forgotten: float, peers: int = 0) -> list[Place]:
    """All of a population, each knowing those it must know but for a few; of so many peers, or each of its own."""
    keys = rng.sample(range(1_000_000), n)
    people = [
        Certificate(
            key.to_bytes(4, "big"),
            VECTORS.pack_number(rng.getrandbits(256)),
            b"",
            rng.randrange(peers) if peers else serial,
            b"",
            serial,
            0,
            1,
            b"",
        )
        for serial, key in enumerate(keys)
    ]
    assembled, found = AssembledGraph(k, VECTORS, people), []
    for certificate in people:
        place = Place(certificate, k, VECTORS)
        around = assembled.surroundings(certificate.key)
        place.replace_known(
            [
                node
                for node in around
                if rng.random() >= forgotten or (peers and node.address == certificate.address)
            ]
        )
        found.append(place)
    return found


def spans(one: Place, other: Place) -> list[ListSpan]:
    shared = VECTORS.common(one.certificate.vector, other.certificate.vector)
    levels = one.wide.levels[: shared + 1]
    return [
        ListSpan(other.key, one.certificate, number, level.keys, level.full)
        for number, level in enumerate(levels)
        if other.key in level.keys
    ]


def comparisons(seed: int, n: int, k: int, forgotten: float) -> list[tuple[bool, bool]]:
    """For each list that a place shows to another: whether they are seen to agree at a glance, and
    whether a comparison finds no difference.
    """
    rng, found = Random(seed), list[tuple[bool, bool]]()
    everyone = places(rng, n, k, forgotten)
    for one in everyone:
        other = rng.choice(everyone)
        for span in spans(one, other) if one is not other else ():
            same = span_differences(other.wide, VECTORS, span) == ([], [])
            found.append((span_agrees(other.wide, span), same))
    return found


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32), st.integers(2, 60), st.integers(2, 4), st.sampled_from([0.0, 0.03, 0.2])
)
def test_what_agrees_at_a_glance_shows_no_difference(
    seed: int, n: int, k: int, forgotten: float
) -> None:
    assert not any(glance and not same for glance, same in comparisons(seed, n, k, forgotten))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(30, 60), st.integers(2, 4))
def test_half_of_the_equal_lists_are_seen_at_a_glance(seed: int, n: int, k: int) -> None:
    """From 30 nodes on. A list that is the whole ring beside one that is not, and two that overlap
    at both sides of the ring, take a comparison: smaller graphs may have more of these.
    """
    found = comparisons(seed, n, k, 0.0)
    assert sum(glance for glance, _ in found) >= sum(same for _, same in found) // 2


def is_one_piece(everyone: dict[bytes, Place]) -> bool:
    """Whether each is known, by way of others, to all: who was forgotten by everybody cannot be found by comparing."""
    by_address: dict[object, set[object]] = {}
    for place in everyone.values():
        for node in (place.certificate, *place.known.values()):
            by_address.setdefault(place.certificate.address, set()).add(node.address)
            by_address.setdefault(node.address, set()).add(place.certificate.address)
    met = {next(iter(by_address))}
    while (more := set().union(*(by_address[each] for each in met))) != met:
        met = more
    return len(met) == len(by_address)


def add_nodes(place: Place, nodes: Iterable[Certificate]) -> bool:
    before = place.wide
    for node in nodes:
        place.insert(node)
    return place.wide is not before and [level.nodes for level in place.wide.levels] != [
        level.nodes for level in before.levels
    ]


def compare_all(everyone: dict[bytes, Place]) -> bool:
    """One round in which each shows its lists to its neighbours, and looks at its own; whether anybody learned."""
    learned = False
    for place in everyone.values():
        me = place.certificate
        for number, own in own_neighbours(place.wide, me.address):
            other = everyone[own].wide.levels
            learned |= number < len(other) and add_nodes(place, other[number].nodes)
        for number, level in enumerate(place.wide.levels):
            for is_left in (True, False):
                near = neighbour(level, me.address, is_left)
                if near is not None:
                    learned |= show(
                        place,
                        everyone[near.key],
                        ListSpan(near.key, me, number, level.keys, level.full),
                    )
    return learned


def show(place: Place, other: Place, span: ListSpan) -> bool:
    if place.key in other.known and span_agrees(other.wide, span):
        return False
    lacking, unknown = span_differences(other.wide, VECTORS, span)
    theirs = [place.certificate, *(place.known[key] for key in unknown if key in place.known)]
    return add_nodes(other, theirs) | add_nodes(place, lacking)


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 2**32),
    st.integers(2, 60),
    st.integers(2, 4),
    st.sampled_from([0.03, 0.2, 0.4]),
    st.sampled_from([0, 2, 3, 6, 12]),
)
def test_where_all_neighbours_agree_nobody_is_missing(
    seed: int, n: int, k: int, forgotten: float, peers: int
) -> None:
    everyone = {place.key: place for place in places(Random(seed), n, k, forgotten, peers)}
    assume(is_one_piece(everyone))
    people = [place.certificate for place in everyone.values()]
    rounds = 0
    while compare_all(everyone):
        rounds += 1
        assert rounds <= 4 * n, "they learn and learn"

    for place in everyone.values():
        wanted = every_class(place.certificate, people, k, VECTORS)
        assert [level.nodes for level in place.wide.levels] == [
            level.nodes for level in wanted.levels
        ]
