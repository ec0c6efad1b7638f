"""Real maps are read as their descriptions say; what is not a map is refused in one sentence."""

import gzip

import networkx as nx
import pytest

from implicast.peer.errors import MapError
from implicast.world.maps import read_map
from implicast.world.network import build

CCH = """\
1 @Dallas,+TX + bb\t(3) &2 -> <2> <3> <1>  =one r0
2 @Miami,+FL  \t(1) -> <1>  =two r0
3 @?  bb\t(2) -> <1> <4>  =three! r0
-9 =10.0.0.1 r1
4 @T \t(1) -> <3>  =four r0
7 @Miami,+FL \t(0) ->   =lonely r0
"""
CITIES = """\
location,latitude,longitude,source
"Dallas,+TX",32.78,-96.80,geonames
"Miami,+FL",25.76,-80.19,geonames
"Akron,+Ohio",,,
"""


def write(path, text):
    path.write_text(text)
    return path


def test_a_router_map_takes_latencies_from_the_cities(tmp_path):
    write(tmp_path / "city-coordinates.csv", CITIES)
    topology = read_map(write(tmp_path / "1.r0.cch", CCH))

    # The lonely router is left out; routers without a city are where their neighbours are.
    assert topology.routers == 4
    assert [(a, b) for a, b, _ in topology.links] == [(0, 1), (0, 2), (2, 3)]
    dallas_miami, dallas_unknown, unknown_unknown = (us for _, _, us in topology.links)
    assert dallas_miami == pytest.approx(1_600 + 1786 * 5, rel=0.01)
    assert dallas_unknown == unknown_unknown == 1_600


def test_the_cities_may_lie_two_directories_above(tmp_path):
    write(tmp_path / "city-coordinates.csv", CITIES)
    (tmp_path / "maps" / "router").mkdir(parents=True)
    topology = read_map(write(tmp_path / "maps" / "router" / "1.cch", CCH))

    assert topology.links[0][2] > 9_000


def test_a_router_map_without_cities_has_equal_links(tmp_path):
    topology = read_map(write(tmp_path / "1.cch", CCH))

    assert {us for _, _, us in topology.links} == {1_600}


def test_a_directory_of_router_maps_is_joined_where_providers_share_a_city(tmp_path):
    write(tmp_path / "city-coordinates.csv", CITIES)
    write(tmp_path / "a.cch", CCH)
    write(
        tmp_path / "b.cch",
        "5 @Miami,+FL (1) -> <6> =x r0\n6 @Miami,+FL (2) -> <5> <8> =y r0\n8 @? (1) -> <6> =z r0\n",
    )
    topology = read_map(tmp_path)

    assert topology.routers == 4 + 3
    assert len(topology.links) == 3 + 2 + 1
    # Miami's best connected routers: number 1 of the first map, and the first map's four are followed by 5, 6, 8.
    assert (1, 5, 1_600) in topology.links


def test_a_latency_map_is_taken_as_it_is(tmp_path):
    topology = read_map(
        write(tmp_path / "9.latencies.intra", "A1 B2 3\nB2 A1 3\nB2 C3 1.5\nC3 C3 1\n")
    )

    assert topology.links == ((0, 1, 3_000), (1, 2, 1_500))


def test_parallel_links_of_a_graph_count_once(tmp_path):
    graph = nx.MultiGraph()
    graph.add_node("x", Latitude=0.0, Longitude=0.0)
    graph.add_node("y", Latitude=0.0, Longitude=1.0)
    graph.add_node("z")
    graph.add_edges_from([("x", "y"), ("x", "y"), ("y", "z")])
    nx.write_graphml(graph, tmp_path / "small.graphml")
    topology = read_map(tmp_path / "small.graphml")

    assert topology.links == ((0, 1, 1_600 + 556), (1, 2, 1_600))


@pytest.mark.parametrize("name", ["sites.txt", "sites.txt.gz"])
def test_sites_of_a_matrix_are_half_a_round_trip_apart(tmp_path, name):
    text = b"0 10 300\n10 0 20\n300 20 0\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    network = build(str(tmp_path / name), hosts=30, infrastructure=0, seed=1)

    for a in range(30):
        for b in range(30):
            ends = {network.router[a], network.router[b]}
            one_way_us = {(0, 1): 5_000, (1, 2): 10_000, (0, 2): 150_000}.get(
                tuple(sorted(ends)), 0
            )
            assert network.latency_us(a, b) == one_way_us + 200
    # A measured route is taken as it is, although a detour by way of the second site would be shorter.
    assert len(network.path(0, 2)) == 1
    assert network.link_loads([0, 1, 2], [1, 2, 0]).sum() == 6 + len({*network.router[:3]}) * (
        len({*network.router[:3]}) > 1
    )


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.cch", "", "has no links"),
        ("a.cch", "hello world\n", "line 1 is 'hello world'"),
        ("a.cch", "1 @X (0) -> =a r0\n2 @X (0) -> =b r0\n", "has no links"),
        (
            "a.cch",
            "1 @X (1) -> <2> =a r0\n3 @X (0) -> =b\n4 @X (0) -> =c\n5 @X (0) -> =d\n",
            "2 of 5 routers",
        ),
        (
            "a.latencies.intra",
            "A B\n",
            "line 1 is 'A B'; it should have 'nodeA nodeB milliseconds'",
        ),
        ("a.latencies.intra", "A B -3\n", "line 1 is 'A B -3'"),
        ("a.latencies.intra", "A B nan\n", "line 1 is 'A B nan'"),
        ("a.graphml", "<graphml", "cannot be read as GraphML"),
        ("a.graphml", "", "cannot be read as GraphML"),
        (
            "a.graphml",
            "<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph/></graphml>",
            "has no links",
        ),
        ("a.txt", "0 1\n1 0 2\n", "no square"),
        ("a.txt", "0 x\n1 0\n", "should have round-trip times in milliseconds"),
        ("a.txt", "0 -1\n1 0\n", "missing or negative"),
        ("a.txt", "", "no square"),
        ("a.txt.gz", "not compressed", "cannot be read"),
        ("a.pdf", "map", "no known kind"),
    ],
)
def test_what_is_not_a_map_is_refused_in_one_sentence(tmp_path, name, text, says):
    with pytest.raises(MapError, match=says) as refused:
        read_map(write(tmp_path / name, text))

    assert name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.cch").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MapError, match="cannot be read"):
        read_map(tmp_path / "a.cch")


def test_a_directory_without_maps_is_refused(tmp_path):
    with pytest.raises(MapError, match=r"directory without \.cch files"):
        read_map(tmp_path)


def test_a_changed_map_is_read_again(tmp_path):
    path = write(tmp_path / "a.latencies.intra", "A B 3\n")
    before = build(str(path), 2, 0, 1).topology
    write(path, "A B 3\nB C 10\n")

    assert before.routers == 2
    assert build(str(path), 2, 0, 1).topology.routers == 3


ROCKETFUEL = {
    "1239": (604, 2268),
    "2914": (960, 2821),
    "3356": (624, 5298),
    "3967": (201, 434),
    "7018": (631, 2078),
}


@pytest.mark.parametrize("asn", ROCKETFUEL)
def test_rocketfuel_routers(data, asn):
    topology = read_map(data / "rocketfuel" / "router" / f"{asn}.r0.cch")

    assert (topology.routers, len(topology.links)) == ROCKETFUEL[asn]


def test_rocketfuel_providers_together(data):
    topology = read_map(data / "rocketfuel" / "router")

    assert topology.routers == sum(routers for routers, _ in ROCKETFUEL.values())
    assert len(topology.links) > sum(links for _, links in ROCKETFUEL.values())


def test_rocketfuel_backbone(data):
    topology = read_map(data / "rocketfuel" / "backbone" / "1239.latencies.intra")

    assert (topology.routers, len(topology.links)) == (315, 972)
    assert (min(us for *_, us in topology.links), max(us for *_, us in topology.links)) == (
        1_000,
        64_000,
    )


def test_distances_of_router_maps_agree_with_measured_backbones(data):
    """The rule for latencies reproduces what was measured: a link takes at most some 70 ms, most take a few."""
    latencies = sorted(
        us for *_, us in read_map(data / "rocketfuel" / "router" / "1239.r0.cch").links
    )

    assert latencies[-1] < 75_000
    assert latencies[len(latencies) // 2] < 5_000


def test_every_map_of_the_zoo_is_read(data):
    maps = sorted((data / "topology-zoo").glob("*.graphml"))
    routers = {path.stem: read_map(path).routers for path in maps}

    assert len(routers) == 30
    assert (routers["Colt"], routers["DeutscheTelekom"], routers["Ntt"], routers["Tw"]) == (
        153,
        30,
        32,
        71,
    )


def test_a_planetlab_matrix_is_read(data):
    network = build(str(data / "rtt-matrices" / "planetlab-490-slice01.txt.gz"), 100, 0, 1)

    assert network.topology.routers == 490
    latencies = sorted(network.latency_us(a, b) for a in range(100) for b in range(a))
    assert latencies[len(latencies) // 2] == pytest.approx(67_500, rel=0.15), (
        "half of the median round trip of 135 ms"
    )
