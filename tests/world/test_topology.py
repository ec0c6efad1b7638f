"""Networks drawn from a seed have the counts and latencies of the thesis, hang together, and never change."""

import networkx as nx
import pytest

from implicast.space.digest import stream
from implicast.world.topology import (
    Topology,
    Wiring,
    core_of,
    distance_km,
    distance_us,
    flat,
    laboratory,
    national,
    weighted,
)
from implicast.world.worldwide import worldwide

COUNTS = {national: (150, 180), laboratory: (447, 612), worldwide: (3279, 11952)}


def graph(topology: Topology) -> nx.Graph:
    found = nx.Graph()
    found.add_nodes_from(range(topology.routers))
    found.add_weighted_edges_from(topology.links)
    return found


@pytest.mark.parametrize("draw", COUNTS, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("seed", [0, 1, 2, 77])
def test_routers_and_links_are_as_many_as_in_the_thesis_and_hang_together(draw, seed):
    topology = draw(seed)

    assert (topology.routers, len(topology.links)) == COUNTS[draw]
    assert nx.is_connected(graph(topology))
    assert all(a < b and latency_us > 0 for a, b, latency_us in topology.links)
    assert list(topology.links) == sorted(
        {(a, b): (a, b, us) for a, b, us in topology.links}.values()
    )
    assert set(topology.core) <= set(range(topology.routers))


@pytest.mark.parametrize("draw", COUNTS, ids=lambda draw: draw.__name__)
def test_the_same_seed_draws_the_same_network_and_another_seed_another(draw):
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


def test_the_laboratory_is_a_few_clusters_joined_by_single_links():
    topology = laboratory(1)

    assert {us for _, _, us in topology.links} == {1_000, 3_000, 5_000}
    whole = graph(topology)
    bridges = [(a, b) for a, b, us in topology.links if us == 5_000]
    whole.remove_edges_from(bridges)
    assert len(bridges) == 4
    assert sorted(map(len, nx.connected_components(whole)), reverse=True) == [128, 104, 87, 72, 56]


def test_worldwide_links_go_up_to_144_milliseconds_and_only_cables_are_that_long():
    latencies = sorted(us for _, _, us in worldwide(1).links)

    assert latencies[0] == 1_600
    assert 143_000 < latencies[-1] <= 144_000
    # Ten cables from overseas; the longest link within the United States, Seattle to Miami, takes 23.5 ms.
    assert sum(us > 24_000 for us in latencies) in range(6, 11)


def test_a_flat_network_is_one_router():
    assert (flat().routers, flat().links, flat().core) == (1, (), (0,))


def test_latency_follows_distance_as_in_the_measured_backbones():
    """1.6 ms and 1 ms per 200 km."""
    assert distance_us(0) == 1_600
    assert distance_us(200) == 2_600
    assert distance_km((40.71, -74.01), (34.05, -118.24)) == pytest.approx(3936, rel=0.005)
    assert distance_km((0, 0), (0, 180)) == pytest.approx(20015, rel=0.001)


def test_wiring_keeps_the_quicker_of_parallel_links_and_drops_loops():
    wiring = Wiring()

    assert wiring.join(3, 1, 500)
    assert not wiring.join(1, 3, 200)
    assert not wiring.join(1, 3, 900)
    assert not wiring.join(2, 2, 1)
    assert wiring.links() == ((1, 3, 200),)


def test_the_core_is_what_is_left_when_dead_ends_are_cut_off():
    triangle_with_a_tail = [(0, 1, 1), (1, 2, 1), (0, 2, 1), (2, 3, 1), (3, 4, 1)]

    assert core_of(5, triangle_with_a_tail) == (0, 1, 2)
    assert core_of(3, [(0, 1, 1), (1, 2, 1)]) == (0, 1, 2), "a tree has no core, so all of it is"


def test_weighted_draws_follow_their_weights():
    rng = stream(1, "weights")
    drawn = [weighted(rng, [1, 0, 3]) for _ in range(4000)]

    assert drawn.count(1) == 0
    assert drawn.count(2) == pytest.approx(3000, rel=0.05)
