"""The physical network of a run: hosts on routers, latencies between hosts, packets per directed
link.

`build` draws or reads the routers (`topology.py`, `worldwide.py`, `maps.py`) and attaches hosts to
them. The router of a host depends only on the seed and the host's number, so that adding hosts
moves no other. Links are reliable and never congested, as in the thesis (section 9.3.1);
`faults.py` adds loss and delay.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from implicast.peer.errors import MapError
from implicast.space.digest import digest
from implicast.world.maps import read_map
from implicast.world.paths import Ints, ShortestPaths, shortest_paths
from implicast.world.topology import Access, Topology, flat, laboratory, national
from implicast.world.worldwide import worldwide

GENERATED: dict[str, Callable[[int], Topology]] = {
    "flat": lambda seed: flat(),
    "national": national,
    "laboratory": laboratory,
    "worldwide": worldwide,
}
CACHED = 4
"""Networks whose paths are cached per process and shared by the runs of a sweep. The largest takes
about 90 MB.
"""
ALL_PAIRS_MAX = 512
"""Largest number of hosts for which all latencies over several routers are computed in advance (20
ms, 10 MB). Saves 0.1 us per message.
"""
CELLS = 1 << 22
"""Counters used at once when loads are counted cast by cast (32 MB)."""


@dataclass(frozen=True, slots=True)
class PhysicalLinks:
    """The directed links between routers, by number."""

    source: Ints
    target: Ints
    latency_us: Ints


class PhysicalNetwork:
    """Hosts 0 to `hosts` - 1 on the routers of a topology.

    Directed links are numbered: the links between routers first, then the access link of each host
    to its router (`up`), then back (`down`).
    """

    __slots__ = (
        "_near_us",
        "_rows",
        "access_us",
        "between_us",
        "hosts",
        "latency_us",
        "links",
        "router",
        "routes",
        "topology",
    )

    def __init__(
        self, topology: Topology, routes: ShortestPaths, router: list[int], access_us: list[int]
    ) -> None:
        self.topology, self.routes = topology, routes
        self.router, self.access_us = router, access_us
        self.hosts = len(router)
        self.links = PhysicalLinks(routes.source, routes.target, routes.latency_us)
        routes.prepare(router)
        self._rows = [routes.row(each) for each in router]
        few = range(self.hosts if routes.routers > 1 and self.hosts <= ALL_PAIRS_MAX else 0)
        self.between_us = [[self._sum_us(a, b) for b in few] for a in few]
        """All latencies, if they are computed in advance."""
        self._near_us = [self._rows[host][0] + own_us for host, own_us in enumerate(access_us)]
        one = self._near_sum_us if routes.routers == 1 else self._sum_us
        self.latency_us: Callable[[int, int], int] = self._known_us if few else one
        """One-way latency from host a to host b. Called for every message: about 0.2 us
        (`bench/filters.py`).
        """

    def _known_us(self, a: int, b: int) -> int:
        return self.between_us[a][b]

    def _sum_us(self, a: int, b: int) -> int:
        return self._rows[a][self.router[b]] + self.access_us[a] + self.access_us[b]

    def _near_sum_us(self, a: int, b: int) -> int:
        """`_sum_us` for a single router, in two thirds of the time."""
        return self._near_us[a] + self.access_us[b]

    @property
    def halves_us(self) -> tuple[list[int], list[int]] | None:
        """For a single router: what each sender and each receiver adds to a latency; None
        otherwise.
        """
        return (self._near_us, self.access_us) if self.latency_us == self._near_sum_us else None

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """The directed links between two routers."""
        return self.routes.path(source, target)

    def paths(self, pairs: Iterable[tuple[int, int]]) -> tuple[Ints, Ints, Ints, Ints]:
        """The paths of distinct pairs of routers as columns: source, target, position (from 0),
        link.

        Ordered by pair, then by position. A pair of a router with itself has no rows.
        """
        ends = np.array(list(pairs), np.int64).reshape(-1, 2)
        steps = list(self.routes.walk(ends[:, 0], ends[:, 1]))
        index = np.concatenate([index for index, _ in steps] or [np.zeros(0, np.int64)])
        link = np.concatenate([link for _, link in steps] or [np.zeros(0, np.int64)])
        # `walk` goes backwards: the last link it yields for a pair is the first of the path.
        forwards = np.lexsort((-np.arange(len(index)), index))
        index, link = index[forwards], link[forwards]
        first = np.searchsorted(index, index)
        return ends[index, 0], ends[index, 1], np.arange(len(index)) - first, link

    @property
    def link_count(self) -> int:
        """Number of directed links of routers and hosts together."""
        return len(self.links.source) + 2 * self.hosts

    def up(self, host: int) -> int:
        """Number of a host's access link to its router."""
        return len(self.links.source) + host

    def down(self, host: int) -> int:
        """Number of a host's access link from its router."""
        return len(self.links.source) + self.hosts + host

    def link_loads(self, senders: ArrayLike, receivers: ArrayLike) -> Ints:
        """Packets on each directed link if each sender sends one message to the receiver at the
        same index.
        """
        sender, receiver = np.asarray(senders, np.int64), np.asarray(receivers, np.int64)
        return self._count(sender, receiver, np.zeros_like(sender), 1).ravel()

    def link_peaks(
        self, senders: ArrayLike, receivers: ArrayLike, casts: ArrayLike
    ) -> tuple[Ints, Ints]:
        """For each cast that occurs, in order, its packets on the link that carries most of them
        (PINK).
        """
        sender, receiver = np.asarray(senders, np.int64), np.asarray(receivers, np.int64)
        distinct, number = np.unique(np.asarray(casts, np.int64), return_inverse=True)
        order = np.argsort(number, kind="stable")
        sender, receiver, number = sender[order], receiver[order], number[order]
        peaks = np.zeros(len(distinct), np.int64)
        step = max(1, CELLS // max(1, self.link_count))
        for first in range(0, len(distinct), step):
            past = min(first + step, len(distinct))
            among = slice(*np.searchsorted(number, (first, past)))
            loads = self._count(sender[among], receiver[among], number[among] - first, past - first)
            peaks[first:past] = loads.max(axis=1)
        return distinct, peaks

    def _count(self, sender: Ints, receiver: Ints, cast: Ints, casts: int) -> Ints:
        """Packets by cast and link. Messages between the same routers are counted together."""
        width, routers = self.link_count, self.topology.routers
        access = cast * width + len(self.links.source)
        loads = np.bincount(access + sender, minlength=casts * width)
        loads += np.bincount(access + self.hosts + receiver, minlength=casts * width)
        router = np.array(self.router, np.int64)
        together, messages = np.unique(
            (cast * routers + router[sender]) * routers + router[receiver], return_counts=True
        )
        shift = together // (routers * routers) * width
        for index, link in self.routes.walk(together // routers % routers, together % routers):
            np.add.at(loads, shift[index] + link, messages[index])
        return loads.reshape(casts, width)


def build(
    kind: str, hosts: int, infrastructure: int, seed: int, newcomers: int = 0
) -> PhysicalNetwork:
    """Build a network of this kind, or of the map at this path: hosts, then infrastructure, then
    hosts of newcomers.

    `laboratory@2` is the same network with another draw of the places of servers and brokers.
    """
    kind, placement = _placed(kind)
    topology, routes = (
        _routes(kind, seed) if kind in GENERATED else _map_routes(*_fingerprint(kind))
    )
    places = [_draws(seed, host) for host in range(hosts + newcomers)]
    router = [int(at * topology.routers) for at, _ in places]
    access_us = [_access_us(topology.access, over) for _, over in places]
    # Servers and brokers take the core's routers in an order drawn by hash. Two share a router only
    # if all are taken.
    drawn = ("core",) if not placement else ("core", placement)
    core = (
        sorted(topology.core, key=lambda each: digest(seed, "network", *drawn, each))
        if infrastructure
        else []
    )
    router[hosts:hosts] = [core[number % len(core)] for number in range(infrastructure)]
    access_us[hosts:hosts] = [topology.infrastructure_us] * infrastructure
    return PhysicalNetwork(topology, routes, router, access_us)


def _placed(kind: str) -> tuple[str, int]:
    """The network's name, and the number of the draw of places for servers and brokers."""
    name, _, times = kind.rpartition("@")
    return (name, int(times)) if name and times.isdecimal() else (kind, 0)


def _draws(seed: int, host: int) -> tuple[float, float]:
    """Two numbers in [0, 1) for one host. A digest costs a tenth of a random generator for each
    host.
    """
    state = digest(seed, "network", "host", host)
    return int.from_bytes(state[:6], "big") / 2**48, int.from_bytes(state[6:12], "big") / 2**48


def _access_us(access: tuple[Access, ...], draw: float) -> int:
    """Access latency: one draw chooses both the technology and the place in its range."""
    for technology in access:
        if draw < technology.share or technology is access[-1]:
            above_us = int(draw / technology.share * (technology.high_us - technology.low_us + 1))
            return min(technology.low_us + above_us, technology.high_us)
        draw -= technology.share
    raise AssertionError("a topology has at least one access technology")


@lru_cache(maxsize=CACHED)
def _routes(kind: str, seed: int) -> tuple[Topology, ShortestPaths]:
    topology = GENERATED[kind](seed)
    return topology, shortest_paths(topology)


@lru_cache(maxsize=CACHED)
def _map_routes(path: str, _state: tuple[object, ...]) -> tuple[Topology, ShortestPaths]:
    topology = read_map(Path(path))
    return topology, shortest_paths(topology)


def _fingerprint(kind: str) -> tuple[str, tuple[object, ...]]:
    """The path of a map as given, and a key that changes if the map changes."""
    path = Path(kind)
    if not path.exists():
        kinds = ", ".join(GENERATED)
        raise MapError(
            f"there is no network or map {kind!r}; choose one of {kinds}, or give the path of a map"
        )
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    states = [file.stat() for file in files]
    return kind, (path.resolve(), *((state.st_mtime_ns, state.st_size) for state in states))
