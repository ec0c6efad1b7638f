"""Hosts on routers: latencies, paths and packets per link, each against a slower way to the same answer."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest

from implicast.peer.errors import MapError
from implicast.space.digest import stream
from implicast.world.network import PhysicalNetwork, build
from implicast.world.paths import shortest_paths
from implicast.world.topology import BROADBAND, Topology

KINDS = ["flat", "national", "laboratory"]


def graph(network: PhysicalNetwork) -> nx.Graph:
    found = nx.Graph()
    found.add_nodes_from(range(network.topology.routers))
    found.add_weighted_edges_from(network.topology.links)
    return found


def some_pairs(network: PhysicalNetwork, count: int, seed: int = 1) -> list[tuple[int, int]]:
    rng = stream(seed, "pairs")
    return [(rng.randrange(network.hosts), rng.randrange(network.hosts)) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_latency_is_that_of_the_shortest_path_and_both_access_links(kind):
    network = build(kind, hosts=60, infrastructure=3, seed=2)
    shortest = dict(nx.all_pairs_dijkstra_path_length(graph(network)))

    for a, b in some_pairs(network, 300):
        through = shortest[network.router[a]][network.router[b]]
        assert network.latency_us(a, b) == through + network.access_us[a] + network.access_us[b]


def test_any_two_hosts_of_a_flat_network_are_twenty_milliseconds_apart():
    network = build("flat", hosts=5, infrastructure=2, seed=1)

    assert {network.latency_us(a, b) for a in range(7) for b in range(7) if a != b} == {20_000}


@pytest.mark.parametrize("kind", ["national", "laboratory"])
def test_a_path_is_an_unbroken_chain_of_links_as_long_as_the_distance(kind):
    network = build(kind, hosts=60, infrastructure=3, seed=3)
    links = network.links

    for a, b in some_pairs(network, 200):
        here, took = network.router[a], 0
        for link in network.path(network.router[a], network.router[b]):
            assert links.source[link] == here
            here, took = links.target[link], took + links.latency_us[link]
        assert here == network.router[b]
        assert took + network.access_us[a] + network.access_us[b] == network.latency_us(a, b)


def test_of_equally_short_paths_the_last_router_with_the_lowest_number_wins():
    square = Topology("square", 4, ((0, 1, 5), (0, 2, 5), (1, 3, 5), (2, 3, 5)))
    routes = shortest_paths(square)

    assert [int(routes.source[link]) for link in routes.path(0, 3)] == [0, 1]
    assert [int(routes.source[link]) for link in routes.path(3, 0)] == [3, 1]


def test_a_table_of_paths_says_the_same_as_each_path():
    network = build("laboratory", hosts=40, infrastructure=1, seed=4)
    pairs = sorted({(network.router[a], network.router[b]) for a, b in some_pairs(network, 80)})

    source, target, position, link = (column.tolist() for column in network.paths(pairs))

    rows = list(zip(source, target, position, link, strict=True))
    assert rows == [(a, b, i, each) for a, b in pairs for i, each in enumerate(network.path(a, b))]


@pytest.mark.parametrize("kind", KINDS)
def test_packets_per_link_are_those_counted_path_by_path(kind):
    network = build(kind, hosts=50, infrastructure=2, seed=5)
    pairs = some_pairs(network, 1500)
    counted: Counter[int] = Counter()
    for a, b in pairs:
        counted.update(
            [network.up(a), *network.path(network.router[a], network.router[b]), network.down(b)]
        )

    loads = network.link_loads(*zip(*pairs, strict=True))

    assert loads.tolist() == [counted[link] for link in range(network.link_count)]


def test_the_peak_of_each_cast_is_that_of_its_own_messages(monkeypatch):
    network = build("laboratory", hosts=50, infrastructure=2, seed=6)
    pairs = np.array(some_pairs(network, 900))
    casts = np.array([stream(6, number).randrange(40) * 3 for number in range(900)])
    monkeypatch.setattr("implicast.world.network.CELLS", 7 * network.link_count)  # several chunks

    distinct, peaks = network.link_peaks(pairs[:, 0], pairs[:, 1], casts)

    assert distinct.tolist() == sorted(set(casts.tolist()))
    for cast, peak in zip(distinct, peaks, strict=True):
        own = pairs[casts == cast]
        assert peak == network.link_loads(own[:, 0], own[:, 1]).max()


def test_no_messages_make_no_load():
    network = build("national", hosts=4, infrastructure=0, seed=1)

    assert network.link_loads([], []).sum() == 0
    assert [len(column) for column in network.link_peaks([], [], [])] == [0, 0]
    assert [len(column) for column in network.paths([])] == [0, 0, 0, 0]


def test_adding_hosts_moves_nobody():
    few, many = (build("laboratory", hosts, infrastructure=3, seed=7) for hosts in (20, 200))

    assert many.router[:20] == few.router[:20]
    assert many.access_us[:20] == few.access_us[:20]
    assert many.router[200:] == few.router[20:]
    more = build("laboratory", 20, infrastructure=30, seed=7)
    assert more.router[:23] == few.router


def test_servers_hang_in_the_core_by_links_of_one_millisecond_and_apart_from_each_other():
    servers = len(build("laboratory", hosts=10, infrastructure=1, seed=8).topology.core)
    network = build("laboratory", hosts=10, infrastructure=servers, seed=8)

    assert sorted(network.router[10:]) == sorted(network.topology.core)
    assert set(network.access_us[10:]) == {1_000}
    assert all(1_000 <= us <= 5_000 for us in network.access_us[:10])


def test_hosts_of_the_wide_world_have_the_access_links_of_the_thesis():
    """Table 9.1: LAN 2 %, DSL 66 %, cable 30 %, satellite 2 %."""
    assert [(each.share, each.low_us // 1000, each.high_us // 1000) for each in BROADBAND] == [
        (0.02, 1, 5),
        (0.66, 5, 70),
        (0.30, 5, 40),
        (0.02, 100, 220),
    ]
    access_us = np.array(build("worldwide", hosts=6000, infrastructure=0, seed=1).access_us)

    assert np.mean(access_us >= 100_000) == pytest.approx(0.02, rel=0.3)
    assert np.mean(access_us < 5_000) == pytest.approx(0.02, rel=0.3)
    assert np.mean((access_us >= 40_000) & (access_us <= 70_000)) == pytest.approx(
        0.66 * 30 / 65, rel=0.05
    )
    assert access_us.min() >= 1_000
    assert access_us.max() <= 220_000


def test_networks_of_one_seed_share_their_paths():
    one, other = (build("national", hosts, 1, seed=1) for hosts in (5, 9))

    assert one.routes is other.routes


def test_an_unknown_network_is_named_with_what_there_is():
    with pytest.raises(
        MapError,
        match="no network or map 'nowhere'; choose one of flat, national, laboratory, worldwide",
    ):
        build("nowhere", 1, 0, 1)


@pytest.mark.long
def test_the_wide_world_at_full_size():
    network = build("worldwide", hosts=4096, infrastructure=41, seed=1)
    pairs = some_pairs(network, 300)
    whole = graph(network)

    for a, b in pairs[:20]:
        through = nx.dijkstra_path_length(whole, network.router[a], network.router[b])
        assert network.latency_us(a, b) == through + network.access_us[a] + network.access_us[b]


def test_servers_can_be_placed_anew_on_the_same_network():
    plain, again = (
        build(kind, hosts=30, infrastructure=3, seed=2) for kind in ("laboratory", "laboratory@1")
    )

    assert again.topology == plain.topology
    assert again.router[:30] == plain.router[:30], "peers stay where they are"
    assert again.router[30:] != plain.router[30:]
    assert build("laboratory@0", 30, 3, 2).router == plain.router
