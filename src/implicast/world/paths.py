"""Shortest-latency paths between routers: distances, the directed links of a path, walks over many
paths at once.

SciPy's Dijkstra computes the distances in whole microseconds. Paths are rebuilt from the distances:
of several equally short last links, the one from the lowest-numbered router is taken. So paths do
not depend on how a heap breaks ties.
"""

from array import array
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from implicast.world.topology import Topology

Ints = NDArray[np.int64]

BATCH = 256
"""Sources handled at once. A batch on the largest network takes some 50 MB."""


class ShortestPaths:
    """All shortest paths of one topology, computed once for each source that is needed.

    Directed link 2i runs along undirected link i from its lower to its higher router, link 2i + 1
    the other way.
    """

    def __init__(self, topology: Topology) -> None:
        self.routers = topology.routers
        a, b, latency = np.array(topology.links, np.int64).reshape(-1, 3).T
        self.source = np.column_stack((a, b)).ravel()
        self.target = np.column_stack((b, a)).ravel()
        self.latency_us = np.repeat(latency, 2)
        self._rows: list[array[int] | None] = [None] * self.routers
        self._last: dict[int, NDArray[np.int32]] = {}
        self._by_target = np.lexsort((self.source, self.target))
        self._starts = np.searchsorted(self.target[self._by_target], np.arange(self.routers))

    def row(self, router: int) -> "array[int]":
        """Latency in microseconds from this router to every router."""
        row = self._rows[router]
        if row is None:
            self.prepare([router])
            row = self._rows[router]
            assert row is not None, "a prepared row is there"
        return row

    def prepare(self, routers: Iterable[int]) -> None:
        """Compute the distances from these routers, a batch at a time."""
        missing = sorted({router for router in routers if self._rows[router] is None})
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            for router, distances in zip(batch, self._distances(batch), strict=True):
                self._rows[router] = array("i", distances.astype(np.int32).tobytes())

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """The directed links from one router to another; none if they are the same."""
        links = [link for _, link in self.walk(np.array([source]), np.array([target]))]
        return tuple(int(link[0]) for link in reversed(links))

    def walk(self, sources: Ints, targets: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Follow all these paths backwards, from target to source, one link of each at a time.

        Yields (indices of the unfinished pairs, the link of each). The indices of one batch of
        sources come together; within it each index comes once per link of its path.
        """
        order = np.argsort(sources, kind="stable")
        distinct, firsts = np.unique(sources[order], return_index=True)
        bounds = np.append(firsts, len(order))
        for start in range(0, len(distinct), BATCH):
            batch = distinct[start : start + BATCH]
            index = order[bounds[start] : bounds[start + len(batch)]]
            last = self._last_links(batch)
            row, here = np.searchsorted(batch, sources[index]), targets[index]
            while True:
                under_way = here != batch[row]
                index, row, here = index[under_way], row[under_way], here[under_way]
                if not len(index):
                    break
                link = last[row, here].astype(np.int64)
                yield index, link
                here = self.source[link]

    def _distances(self, batch: list[int]) -> NDArray[np.float64]:
        if self.routers == 1:
            return np.zeros((len(batch), 1))
        from scipy.sparse import csr_array  # only needed for several routers: 0.4 s to import
        from scipy.sparse.csgraph import dijkstra

        ends = (self.source, self.target)
        graph = csr_array(
            (self.latency_us.astype(np.float64), ends), shape=(self.routers, self.routers)
        )
        distances = np.asarray(dijkstra(graph, indices=batch))
        assert np.isfinite(distances).all(), "every router reaches every other"
        return distances

    def _last_links(self, batch: Ints) -> NDArray[np.int32]:
        """For each source, the last link of the path to each router; -1 at the source itself."""
        new = np.array([router for router in batch.tolist() if router not in self._last], np.int64)
        if len(new):
            self.prepare(new.tolist())
            self._last.update(zip(new.tolist(), self._find_last_links(new), strict=True))
        return np.stack([self._last[router] for router in batch.tolist()])

    def _find_last_links(self, batch: Ints) -> NDArray[np.int32]:
        if self.routers == 1:
            return np.full((len(batch), 1), -1, np.int32)
        distance = np.stack(
            [np.frombuffer(self.row(router), np.int32) for router in batch.tolist()]
        )
        link = self._by_target
        tight = (
            distance[:, self.source[link]] + self.latency_us[link] == distance[:, self.target[link]]
        )
        place = np.where(tight, np.arange(len(link)), len(link))
        first = np.minimum.reduceat(place, self._starts, axis=1)
        return np.append(link, -1)[first].astype(np.int32)


class MeshPaths(ShortestPaths):
    """A measured matrix: each pair of routers has its own link, and that link is the path, shortest
    or not.

    Real routes are often not the shortest; a measured latency already includes the route taken.
    """

    def __init__(self, topology: Topology, mesh: NDArray[np.int32]) -> None:
        super().__init__(topology)
        self.mesh = mesh
        self.source, self.target = np.nonzero(~np.eye(self.routers, dtype=bool))
        self.latency_us = mesh[self.source, self.target].astype(np.int64)

    def _distances(self, batch: list[int]) -> NDArray[np.float64]:
        return self.mesh[batch].astype(np.float64)

    def _find_last_links(self, batch: Ints) -> NDArray[np.int32]:
        """Link (a, b) has the number a (n - 1) + b, less one beyond the diagonal."""
        all_routers = np.arange(self.routers)
        link = batch[:, None] * (self.routers - 1) + all_routers - (all_routers > batch[:, None])
        return np.where(all_routers == batch[:, None], -1, link).astype(np.int32)


def shortest_paths(topology: Topology) -> ShortestPaths:
    return ShortestPaths(topology) if topology.mesh is None else MeshPaths(topology, topology.mesh)
