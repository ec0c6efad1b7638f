"""Real maps by path: Rocketfuel routers (`.cch`) and latencies (`.latencies.intra`), GraphML,
round-trip matrices.

A directory of `.cch` files becomes one network whose providers peer in every city they share. Of a
disconnected map the largest component is used if it has at least half of the routers; otherwise the
map is refused. Where a map gives places instead of latencies, a link takes 1.6 ms plus 1 ms per 200
km.
"""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from xml.etree.ElementTree import ParseError

import numpy as np

from implicast.peer.errors import MapError
from implicast.world.topology import (
    LINK_US,
    Access,
    Place,
    Topology,
    Wiring,
    core_of,
    distance_km,
    distance_us,
)

COORDINATES = "city-coordinates.csv"
"""Places of the cities of `.cch` maps: beside the map, or one or two directories above it."""
SHARE_LEAST = 0.5
"""Smallest share of routers that the largest component of a map must have."""
SITE_US = 100
"""Latency of the access link of a host at a measured site. The measurement already includes the
site's own network.
"""
ROUTERS_MOST = 20_000
"""A larger map would need more than 1.6 GB for the distances alone."""


@dataclass
class Sketch:
    """A map as read: named routers, cities and places if known, links with latency if known."""

    path: Path
    routers: list[Hashable] = field(default_factory=list)
    links: list[tuple[Hashable, Hashable, int | None]] = field(default_factory=list)
    city: dict[Hashable, str] = field(default_factory=dict)
    place: dict[Hashable, Place] = field(default_factory=dict)


def read_map(path: Path) -> Topology:
    """Read a map; a `MapError` says what is wrong with it."""
    try:
        if path.is_dir():
            return _topology(_composite(path))
        for endings, reader in READERS:
            if path.name.endswith(endings):
                return reader(path)
    except (OSError, EOFError, UnicodeDecodeError) as fault:
        raise MapError(f"the map {path} cannot be read: {fault}") from None
    known = ", ".join(ending for endings, _ in READERS for ending in endings)
    raise MapError(
        f"the map {path} is of no known kind; its name should end in one of {known}, "
        "or it should be a directory"
    )


def _topology(sketch: Sketch) -> Topology:
    """Number the routers of the largest component and give every link a latency."""
    _require(sketch.links, sketch.path, "has no links", "at least two routers joined by a link")
    sketch = _largest(sketch)
    _require(
        len(sketch.routers) <= ROUTERS_MOST,
        sketch.path,
        f"has {len(sketch.routers)} routers",
        f"at most {ROUTERS_MOST}",
    )
    _settle(sketch)
    number = {router: index for index, router in enumerate(sketch.routers)}
    wiring = Wiring()
    for a, b, latency_us in sketch.links:
        wiring.join(
            number[a], number[b], _latency_us(sketch, a, b) if latency_us is None else latency_us
        )
    links = wiring.links()
    return Topology(str(sketch.path), len(number), links, core=core_of(len(number), links))


def _require(holds: object, path: Path, wrong: str, right: str) -> None:
    if not holds:
        raise MapError(f"the map {path} {wrong}; it should have {right}")


def _largest(sketch: Sketch) -> Sketch:
    import networkx as nx  # imported only for maps: 0.2 s

    graph = nx.Graph()
    graph.add_nodes_from(sketch.routers)
    graph.add_edges_from((a, b) for a, b, _ in sketch.links)
    # of several largest components, the one named first in the map
    component = max(nx.connected_components(graph), key=len)
    share = len(component) / len(graph)
    if share < SHARE_LEAST:
        raise MapError(
            f"the map {sketch.path} is not connected: its largest component has "
            f"{len(component)} of {len(graph)} routers; it should have at least half of them"
        )
    routers = [router for router in sketch.routers if router in component]
    links = [link for link in sketch.links if link[0] in component and link[0] != link[1]]
    _require(links, sketch.path, "has no links", "at least two routers joined by a link")
    return Sketch(sketch.path, routers, links, sketch.city, sketch.place)


def _settle(sketch: Sketch) -> None:
    """Give routers without a place the mean place of their neighbours, outwards from routers with a
    place.
    """
    beside: dict[Hashable, list[Hashable]] = {router: [] for router in sketch.routers}
    for a, b, _ in sketch.links:
        beside[a].append(b)
        beside[b].append(a)
    while True:
        found: dict[Hashable, Place] = {}
        for router in sketch.routers:
            near = [sketch.place[other] for other in beside[router] if other in sketch.place]
            if router not in sketch.place and near:
                found[router] = (
                    sum(each[0] for each in near) / len(near),
                    sum(each[1] for each in near) / len(near),
                )
        if not found:
            return
        sketch.place.update(found)


def _latency_us(sketch: Sketch, a: Hashable, b: Hashable) -> int:
    """Latency by distance; equal for all links of a map without places."""
    if a not in sketch.place or b not in sketch.place:
        return LINK_US
    return distance_us(distance_km(sketch.place[a], sketch.place[b]))


_ROUTER = re.compile(r"(?P<uid>-?\d+)\s+@(?P<city>\S+)(?P<rest>.*)")


def _read_cch(path: Path) -> Sketch:
    """Rocketfuel routers, one per line: `uid @city [+] [bb] (count) [&external] -> <uid> <uid> ...
    =name r0`.
    """
    sketch = Sketch(path)
    places = _city_places(path)
    named: dict[Hashable, None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith(
            ("#", "-")
        ):  # negative numbers are addresses outside the provider
            continue
        match = _ROUTER.match(line)
        _require(
            match,
            path,
            f"line {number} is {line[:40]!r}",
            "a router in each line, as in 'uid @city ... -> <uid> <uid>'",
        )
        assert match is not None, "checked just above"
        uid = int(match["uid"])
        named[uid] = None
        if match["city"] in places:
            sketch.city[uid], sketch.place[uid] = match["city"], places[match["city"]]
        for other in re.findall(r"<(\d+)>", match["rest"]):
            named[int(other)] = None
            sketch.links.append((uid, int(other), None))
    sketch.routers = list(named)
    return sketch


def _city_places(path: Path) -> Mapping[str, Place]:
    for directory in list(path.resolve().parents)[:3]:
        table = directory / COORDINATES
        if table.is_file():
            with table.open(encoding="utf-8", newline="") as lines:
                return _places(table, csv.DictReader(lines))
    return {}


def _places(table: Path, rows: Iterable[Mapping[str, str]]) -> Mapping[str, Place]:
    try:
        return {
            row["location"]: (float(row["latitude"]), float(row["longitude"]))
            for row in rows
            if row["latitude"]
        }
    except (KeyError, ValueError, TypeError) as fault:
        raise MapError(
            f"the table {table} cannot be read ({fault!r}); "
            "it should have location, latitude, longitude"
        ) from None


def _composite(directory: Path) -> Sketch:
    """Several providers in one network: in each city that two of them share, their best connected
    routers peer.
    """
    files = sorted(directory.glob("*.cch"))
    _require(
        files, directory, "is a directory without .cch files", "one .cch file for each provider"
    )
    whole = Sketch(directory)
    hubs = []
    for file in files:
        part = _read_cch(file)
        _require(part.links, file, "has no links", "at least two routers joined by a link")
        part = _largest(part)
        _add(whole, part, file.name)
        hubs.append(_hubs(part, file.name))
    for one, other in combinations(hubs, 2):
        whole.links.extend((one[city], other[city], LINK_US) for city in one if city in other)
    return whole


def _add(whole: Sketch, part: Sketch, name: str) -> None:
    whole.routers.extend((name, router) for router in part.routers)
    whole.links.extend(((name, a), (name, b), latency_us) for a, b, latency_us in part.links)
    for router in part.routers:
        if router in part.place:
            whole.place[name, router], whole.city[name, router] = (
                part.place[router],
                part.city[router],
            )


def _hubs(part: Sketch, name: str) -> dict[str, Hashable]:
    """By city, the router with most links; the first named of equals."""
    degree = Counter(end for a, b, _ in part.links for end in (a, b))
    hubs: dict[str, Hashable] = {}
    for router in sorted(part.routers, key=lambda each: -degree[each]):
        if router in part.city:
            hubs.setdefault(part.city[router], (name, router))
    return hubs


def _read_latencies(path: Path) -> Topology:
    """Rocketfuel backbones: `nodeA nodeB milliseconds` in each line."""
    sketch = Sketch(path)
    named: dict[Hashable, None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            a, b, text = line.split()
            latency_us = round(float(text) * 1000)
        except (ValueError, OverflowError):
            latency_us = -1
        _require(
            latency_us >= 0,
            path,
            f"line {number} is {line[:60]!r}",
            "'nodeA nodeB milliseconds' in each line",
        )
        named[a] = named[b] = None
        sketch.links.append((a, b, latency_us))
    sketch.routers = list(named)
    return _topology(sketch)


def _read_graphml(path: Path) -> Topology:
    """GraphML as in the Internet Topology Zoo: nodes may have Latitude and Longitude; parallel
    links count once.
    """
    import networkx as nx

    try:
        graph = nx.read_graphml(path)
    except (ParseError, nx.NetworkXError, KeyError, ValueError, IndexError, TypeError) as fault:
        raise MapError(f"the map {path} cannot be read as GraphML: {fault}") from None
    sketch = Sketch(path, list(graph.nodes))
    sketch.links = [(a, b, None) for a, b in graph.edges()]
    for node, data in graph.nodes(data=True):
        try:
            sketch.place[node] = (float(data["Latitude"]), float(data["Longitude"]))
        except (KeyError, ValueError, TypeError):
            continue
    return _topology(sketch)


def _read_matrix(path: Path) -> Topology:
    """A square matrix of round-trip times in milliseconds. Each host draws a site; a message takes
    half the round trip.
    """
    lines = (
        gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    ).decode()
    try:
        rows = [
            [float(number) for number in line.split()]
            for line in lines.splitlines()
            if line.strip()
        ]
    except ValueError as fault:
        raise MapError(
            f"the map {path} cannot be read ({fault}); "
            "it should have round-trip times in milliseconds"
        ) from None
    square = len(rows) > 1 and all(len(row) == len(rows) for row in rows)
    _require(
        square,
        path,
        f"has {len(rows)} rows that make no square",
        "as many numbers in each line as there are lines",
    )
    _require(
        len(rows) <= ROUTERS_MOST // 10,
        path,
        f"has {len(rows)} sites",
        f"at most {ROUTERS_MOST // 10}",
    )
    round_trips = np.array(rows)
    sound = np.isfinite(round_trips).all() and (round_trips >= 0).all() and round_trips.max() < 1e6
    _require(
        sound,
        path,
        "has times that are missing or negative",
        "a round-trip time for every pair of sites",
    )
    mesh = np.maximum(1, np.rint(round_trips * 500)).astype(np.int32)
    np.fill_diagonal(mesh, 0)
    sites = len(rows)
    access = (Access("site", 1.0, SITE_US, SITE_US),)
    return Topology(str(path), sites, (), access, SITE_US, tuple(range(sites)), mesh)


READERS = (
    ((".cch", ".cch.partial"), lambda path: _topology(_read_cch(path))),
    ((".latencies.intra",), _read_latencies),
    ((".graphml",), _read_graphml),
    ((".txt", ".txt.gz"), _read_matrix),
)
