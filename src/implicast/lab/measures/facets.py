"""The facets of a journal (thesis, section 4.2) from what its peers, links and casts bore: load,
hops, latency, costs.

Of the peer: `out` counts the messages that a peer sends for a cast on behalf of others, all but a
publisher's own first one; `in` those that reach it, less the one that it expects when it is
notified. Of the network: packets on directed physical links, access links included; lost messages
are counted on the whole way. Of the cast: RTH is all messages over 1 + group size, RAH and RMH are
the mean and the largest hops to a member, over 2; RTH averages over all casts, RAH and RMH over
those with a member. Fairness is over all who could bear the load, the idle included.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from implicast.lab.measures.blocks import Block, Ints, gini, ints

LORENZ_POINTS = 100
"""Points kept of a curve, besides its ends; enough for a smooth line on any page."""
LATENCIES = ("latency_ms_mean", "latency_ms_median", "latency_ms_p99", "latency_ms_max")

Rows = list[dict[str, Any]]
Phases = Sequence[tuple[str, int, int]]
"""Phase, messages, bytes."""


def facets(found: Block, phases: Phases, peers: pa.Table, links: pa.Table) -> dict[str, Rows]:
    """Rows of the tables `measures`, `costs` and `lorenz`, without the run's name."""
    loads = _loads(found, peers)
    borne = {"TOUT": loads["out"], "TIN": loads["in"], "STOR": ints(peers, "storage_bytes")}
    return {
        "measures": [_measures(found, loads, peers, len(links))],
        "costs": _costs(phases, len(peers)),
        "lorenz": [row for name, load in borne.items() for row in lorenz(load, name)],
    }


def _loads(found: Block, peers: pa.Table) -> dict[str, Ints]:
    """Of each kind what every participant bore, idle ones included."""
    number = ints(peers, "peer")
    order = np.argsort(number)
    loads = {}
    for kind, sums in found.peers.items():
        loads[kind] = np.zeros(len(number), np.int64)
        where = np.searchsorted(number[order], sums.key)
        loads[kind][order[where]] = sums.load
    return loads


def _measures(
    found: Block, loads: dict[str, Ints], peers: pa.Table, links: int
) -> dict[str, float]:
    row: dict[str, float] = {}
    for kind, name in (("out", "OUT"), ("in", "IN")):
        row |= unevenness(name, found.peers[kind].peak, loads[kind])
    storage = ints(peers, "storage_bytes")
    row |= {"STOR_M": _largest(storage), "STOR_G": gini(storage)}
    capacity = np.asarray(peers["capacity"].to_numpy(), np.float64)
    row["TOUT_capacity_G"] = gini(loads["out"] / capacity)
    return row | _links(found, loads, links) | _hops(found) | _latency(*found.waits)


def unevenness(name: str, peaks: Ints, loads: Ints) -> dict[str, float]:
    """The largest load in one cast and in all, and how unevenly it is borne."""
    return {f"P{name}_M": _largest(peaks), f"T{name}_M": _largest(loads), f"T{name}_G": gini(loads)}


def _links(found: Block, loads: dict[str, Ints], links: int) -> dict[str, float]:
    between = np.zeros(max(links, len(found.links.key)), np.int64)
    between[: len(found.links.key)] = found.links.load
    every = np.concatenate([between, loads["up"], loads["down"]])
    peaks = np.concatenate([found.links.peak, found.peers["up"].peak, found.peers["down"].peak])
    row = unevenness("INK", peaks, every)
    return row | {"TINK_used_G": gini(every[every > 0]), "TINK_router_G": gini(between)}


def _hops(found: Block) -> dict[str, float]:
    messages, members = found.casts["messages"], found.casts["members"]
    some = members > 0
    rah = found.casts["hops"][some] / members[some] / 2
    return {
        "RTH": _mean(messages / (1 + members)),
        "RAH": _mean(rah),
        "RMH": _mean(found.casts["deepest"][some] / 2),
    }


def _latency(wait_us: Ints, times: Ints) -> dict[str, float]:
    """Over all notifications; those of casts that no peer made have no latency, the contract counts
    them.
    """
    if not len(wait_us):
        return dict.fromkeys(LATENCIES, 0.0)
    so_far = np.cumsum(times)
    mean = float((wait_us * times).sum() / so_far[-1])
    taken_us = (
        mean,
        _percentile(wait_us, so_far, 0.5),
        _percentile(wait_us, so_far, 0.99),
        float(wait_us[-1]),
    )
    return {name: value / 1000 for name, value in zip(LATENCIES, taken_us, strict=True)}


def _percentile(values: Ints, so_far: Ints, share: float) -> float:
    """Between the two nearest ranks, in proportion."""
    rank = share * (int(so_far[-1]) - 1)
    low, high = (
        int(values[np.searchsorted(so_far, int(at), side="right")]) for at in (rank, np.ceil(rank))
    )
    return low + (high - low) * (rank - int(rank))


def _costs(phases: Phases, population: int) -> Rows:
    return [
        {
            "phase": phase,
            "messages": messages,
            "bytes": volume,
            "messages_per_peer": messages / population,
            "bytes_per_peer": volume / population,
        }
        for phase, messages, volume in sorted(phases)
    ]


def lorenz(loads: Ints, name: str) -> Rows:
    """The curve of loads, thinned: the origin and, of every hundredth of the peers, the first and
    the last point.

    Where one bears all, the corner is what matters. The end is always (1, 1).
    """
    load, bearers = np.unique(loads, return_counts=True)
    peers, borne = np.cumsum(bearers), np.cumsum(load * bearers)
    population, total = int(peers[-1]), int(borne[-1])
    bucket = np.ceil(peers * LORENZ_POINTS / population).astype(np.int64)
    starts = np.flatnonzero(np.concatenate([[True], bucket[1:] != bucket[:-1]]))
    ends = np.append(starts[1:], len(bucket)) - 1
    points = [(0, 0, 0)]
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        points += [
            (2 * int(bucket[at]) + side, int(peers[at]), int(borne[at]))
            for side, at in enumerate((first, last))
        ]
    return [
        {
            "load": name,
            "position": position,
            "share_of_peers": who / population,
            "share_of_load": what / total if total else who / population,
        }
        for position, who, what in points
    ]


def _largest(values: npt.NDArray[Any]) -> float:
    return float(values.max(initial=0))


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0
