"""The measures of one run, from its journal, in memory with NumPy: the quick look, and the check on Spark's.

Definitions follow the thesis (chapter 4): load on peers (POUT, PIN, TOUT, TIN), storage (STOR), load on links
(PINK, TINK), and cost relative to a server that knows everybody (RTH, RAH, RMH). `_M` is the largest value, `_G` the
Gini coefficient over all, the idle ones included.

- out[p][x]: messages that p sends for cast x, less the publisher's own first one.
- in[p][x]: messages for x that reach p, less the one p expects when x is notified to it; never below zero.
- RTH: all messages of a cast / (1 + group); RAH, RMH: mean and largest hops to a member / 2; means over casts.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.world.journal import batches, read

Ints = npt.NDArray[np.int64]
Measures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Trace:
    """The columns of a journal that measures need; one entry per message of a cast, in order of sending."""

    cast: Ints
    sender: Ints
    receiver: Ints
    lost: npt.NDArray[np.bool_]
    notice_cast: Ints
    notice_peer: Ints
    notice_depth: Ints
    notice_us: Ints
    publisher: Ints
    """Of each cast."""
    cast_us: Ints
    router: Ints
    """Of each peer and each piece of infrastructure."""
    storage_bytes: Ints

    @property
    def population(self) -> int:
        return len(self.router)


def load(journal: Path) -> Trace:
    """Read a journal's columns; only messages of casts are kept."""
    parts: dict[str, list[Ints]] = {name: [] for name in ("cast", "sender", "receiver", "arrived_us")}
    for batch in batches(journal, "sends", list(parts)):
        kept = batch.filter(batch["cast"].is_valid())
        for name, columns in parts.items():
            columns.append(_ints(kept[name].fill_null(-1)))
    sends = {name: np.concatenate(columns) if columns else np.empty(0, np.int64) for name, columns in parts.items()}
    notices, casts, peers = read(journal, "notices"), read(journal, "casts"), read(journal, "peers")
    return Trace(
        cast=sends["cast"],
        sender=sends["sender"],
        receiver=sends["receiver"],
        lost=sends["arrived_us"] < 0,
        notice_cast=_ints(notices["cast"]),
        notice_peer=_ints(notices["peer"]),
        notice_depth=_ints(notices["depth"]),
        notice_us=_ints(notices["time_us"]),
        publisher=_ints(casts["publisher"]),
        cast_us=_ints(casts["time_us"]),
        router=_ints(peers["router"]),
        storage_bytes=_ints(peers["storage_bytes"]),
    )


def tally(journal: Path) -> Measures:
    """Every measure of a run."""
    trace = load(journal)
    return {
        **peer_measures(trace),
        **storage_measures(trace.storage_bytes),
        **link_measures(trace, journal),
        **cast_measures(trace),
    }


def messages(journal: Path) -> dict[str, dict[str, int]]:
    """Messages and bytes by phase: what joining, registering, casting and upkeep cost."""
    found: dict[str, dict[str, int]] = {"messages": {}, "bytes": {}}
    for batch in batches(journal, "sends", ["phase", "bytes"]):
        phases, sizes = batch["phase"].cast("string").to_numpy(zero_copy_only=False), _ints(batch["bytes"])
        for phase in np.unique(phases):
            chosen = phases == phase
            found["messages"][phase] = found["messages"].get(phase, 0) + int(chosen.sum())
            found["bytes"][phase] = found["bytes"].get(phase, 0) + int(sizes[chosen].sum())
    return found


def gini(values: Ints) -> float:
    """How unevenly a load is borne: 0 when all bear the same, towards 1 when one bears all; 0 when there is none."""
    count, total = len(values), int(values.sum())
    if total == 0:
        return 0.0
    weights = 2 * np.arange(1, count + 1, dtype=np.int64) - count - 1
    return float(np.dot(weights, np.sort(values)) / (count * total))


def peer_measures(trace: Trace) -> Measures:
    sent = np.ones(len(trace.cast), bool)
    sent[_first_of_publishers(trace)] = False
    pout, tout = _per_cast_and_peer(trace, trace.cast[sent], trace.sender[sent], expected=False)
    pin, tin = _per_cast_and_peer(trace, trace.cast[~trace.lost], trace.receiver[~trace.lost], expected=True)
    return {
        "TOUT_M": _largest(tout),
        "TOUT_G": gini(tout),
        "TIN_M": _largest(tin),
        "TIN_G": gini(tin),
        "POUT_M": _largest(pout),
        "PIN_M": _largest(pin),
    }


def storage_measures(storage_bytes: Ints) -> Measures:
    return {"STOR_M": _largest(storage_bytes), "STOR_G": gini(storage_bytes)}


def link_measures(trace: Trace, journal: Path) -> Measures:
    """Packets per directed physical link, access links included: per cast (PINK) and in total (TINK)."""
    links = len(read(journal, "links"))
    paths = _Paths(read(journal, "paths"))
    order = np.argsort(trace.cast, kind="stable")
    source, target = trace.router[trace.sender[order]], trace.router[trace.receiver[order]]
    total, pink = np.zeros(links, np.int64), 0
    cuts = np.searchsorted(trace.cast[order], np.arange(len(trace.publisher) + 1))
    for start, end in itertools.pairwise(cuts):
        loads = paths.loads(source[start:end], target[start:end], links)
        pink = max(pink, _largest(loads))
        total += loads
    up, total_up = _per_cast_and_peer(trace, trace.cast, trace.sender, expected=False)
    down, total_down = _per_cast_and_peer(trace, trace.cast, trace.receiver, expected=False)
    every = np.concatenate([total, total_up, total_down])
    return {
        "PINK_M": max(pink, _largest(up), _largest(down)),
        "TINK_M": _largest(every),
        "TINK_G": gini(every),
    }


def cast_measures(trace: Trace) -> Measures:
    casts = len(trace.publisher)
    group = np.bincount(trace.notice_cast, minlength=casts)
    sent = np.bincount(trace.cast, minlength=casts)
    hops = np.bincount(trace.notice_cast, weights=trace.notice_depth, minlength=casts)
    deepest = np.zeros(casts, np.int64)
    np.maximum.at(deepest, trace.notice_cast, trace.notice_depth)
    some = group > 0
    latency_ms = (trace.notice_us - trace.cast_us[trace.notice_cast]) / 1000
    return {
        "RTH": _mean(sent / (1 + group)),
        "RAH": _mean(hops[some] / group[some] / 2),
        "RMH": _mean(deepest[some] / 2),
        "latency_ms_mean": _mean(latency_ms),
        "latency_ms_median": float(np.median(latency_ms)) if len(latency_ms) else 0.0,
        "latency_ms_p99": float(np.percentile(latency_ms, 99)) if len(latency_ms) else 0.0,
        "latency_ms_max": float(latency_ms.max()) if len(latency_ms) else 0.0,
    }


def _first_of_publishers(trace: Trace) -> Ints:
    """Where the first message of each cast's publisher stands."""
    own = np.flatnonzero(trace.sender == trace.publisher[trace.cast]) if len(trace.cast) else np.empty(0, np.int64)
    _, first = np.unique(trace.cast[own], return_index=True)
    return np.asarray(own[first], np.int64)


def _per_cast_and_peer(trace: Trace, cast: Ints, peer: Ints, expected: bool) -> tuple[Ints, Ints]:
    """Counts for each (cast, peer) that occurs, and their sums for each peer; less what the peer expects."""
    pairs, counts = np.unique(cast * trace.population + peer, return_counts=True)
    if expected:
        awaited = np.unique(trace.notice_cast * trace.population + trace.notice_peer)
        counts = counts - np.isin(pairs, awaited, assume_unique=True)
    totals = np.bincount(pairs % trace.population, weights=counts, minlength=trace.population)
    return counts, totals.astype(np.int64)


class _Paths:
    """Which directed links lie between two routers, for the pairs that occur."""

    def __init__(self, table: Any) -> None:
        source, target = _ints(table["source_router"]), _ints(table["target_router"])
        self.routers = int(max(source.max(initial=0), target.max(initial=0))) + 1
        key = source * self.routers + target
        order = np.lexsort((_ints(table["position"]), key))
        self.link = _ints(table["link"])[order]
        self.pairs, self.start, self.length = np.unique(key[order], return_index=True, return_counts=True)

    def loads(self, source: Ints, target: Ints, links: int) -> Ints:
        """Packets on each link when one message goes from each source to its target."""
        away = source != target
        pairs, counts = np.unique(source[away] * self.routers + target[away], return_counts=True)
        where = np.searchsorted(self.pairs, pairs)
        length = self.length[where]
        offsets = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        crossed = self.link[np.repeat(self.start[where], length) + offsets]
        return np.bincount(crossed, weights=np.repeat(counts, length), minlength=links).astype(np.int64)


def _ints(column: Any) -> Ints:
    return np.asarray(column.to_numpy(), np.int64) if hasattr(column, "num_chunks") else np.asarray(column, np.int64)


def _largest(values: Ints) -> int:
    return int(values.max(initial=0))


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0
