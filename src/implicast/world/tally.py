"""The measures of one run, computed from its journal in memory with NumPy. The laboratory computes
the same on Spark; tests compare the two.

Definitions follow the thesis (chapter 4): load on peers (POUT, PIN, TOUT, TIN), storage (STOR),
load on links (PINK, TINK), and cost relative to a central server that knows all members (RTH, RAH,
RMH). `_M` is the largest value, `_G` the Gini coefficient over all peers or links, idle ones
included.

- out[p][x]: messages that p sends for cast x, less the publisher's first one.
- in[p][x]: messages for x that reach p, less the one that p needs if x is notified to it; never
  below zero.
- RTH: messages of a cast / (1 + group size). RAH, RMH: mean and largest number of hops to a member
  / 2. Means over casts.
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.world.arrays import numbers, runs
from implicast.world.journal import batches, read

Ints = npt.NDArray[np.int64]
Narrow = npt.NDArray[np.int32]
Measures = dict[str, float]
NAMES = (
    "POUT_M",
    "TOUT_M",
    "TOUT_G",
    "PIN_M",
    "TIN_M",
    "TIN_G",
    "STOR_M",
    "STOR_G",
    "PINK_M",
    "TINK_M",
    "TINK_G",
    "TINK_used_G",
    "TINK_router_G",
    "RTH",
    "RAH",
    "RMH",
    "latency_ms_mean",
    "latency_ms_median",
    "latency_ms_p99",
    "latency_ms_max",
    "TOUT_capacity_G",
)
"""Names of the measures of every run."""


@dataclass(frozen=True, slots=True)
class JournalArrays:
    """The columns of a journal that the measures need; one entry per message of a cast, in order of
    sending.

    Columns of messages have the narrow types of the journal: there are millions of messages while
    all peers are in memory.
    """

    cast: Narrow
    sender: Narrow
    receiver: Narrow
    lost: npt.NDArray[np.bool_]
    notice_cast: Ints
    notice_peer: Ints
    notice_depth: Ints
    notice_us: Ints
    publisher: Ints
    """By cast."""
    cast_us: Ints
    router: Ints
    """By peer, then by server or broker."""
    storage_bytes: Ints
    capacity: npt.NDArray[np.float64]

    @property
    def population(self) -> int:
        return len(self.router)


def load(journal: Path) -> JournalArrays:
    """Read the columns of a journal; of messages, only those of casts."""
    parts: dict[str, list[Narrow]] = {name: [] for name in ("cast", "sender", "receiver")}
    lost = [np.empty(0, np.bool_)]
    for batch in batches(journal, "sends", [*parts, "arrived_us"]):
        of_casts = numbers(batch["cast"], -1) >= 0
        for name, columns in parts.items():
            columns.append(numbers(batch[name], -1)[of_casts].astype(np.int32, copy=False))
        lost.append(numbers(batch["arrived_us"], -1)[of_casts] < 0)
    sends = {
        name: np.concatenate([np.empty(0, np.int32), *parts.pop(name)]) for name in list(parts)
    }
    notices, casts, peers = read(journal, "notices"), read(journal, "casts"), read(journal, "peers")
    # Notices of unknown and of warm-up casts have no load and no latency. The contract counts them.
    first = int(np.count_nonzero(numbers(casts["warm_up"])))
    notice_cast = _ints(notices["cast"])
    measured = (notice_cast >= first) & (notice_cast < len(casts))
    casts = casts.slice(first)
    return JournalArrays(
        cast=sends["cast"] - np.int32(first) if first else sends["cast"],
        sender=sends["sender"],
        receiver=sends["receiver"],
        lost=np.concatenate(lost),
        notice_cast=notice_cast[measured] - first,
        notice_peer=_ints(notices["peer"])[measured],
        notice_depth=_ints(notices["depth"])[measured],
        notice_us=_ints(notices["time_us"])[measured],
        publisher=_ints(casts["publisher"]),
        cast_us=_ints(casts["time_us"]),
        router=_ints(peers["router"]),
        storage_bytes=_ints(peers["storage_bytes"]),
        capacity=np.asarray(numbers(peers["capacity"]), np.float64),
    )


def tally(journal: Path) -> Measures:
    """All measures of a run."""
    trace = load(journal)
    sent = Loads.of(trace.cast, trace.sender, trace.population)
    bound = Loads.of(trace.cast, trace.receiver, trace.population)
    return {
        **peer_measures(trace, sent, bound),
        **storage_measures(trace.storage_bytes),
        **link_measures(trace, journal, sent, bound),
        **cast_measures(trace),
    }


def messages(journal: Path) -> dict[str, dict[str, int]]:
    """Messages and bytes by phase: the cost of joining, registering, casting and upkeep."""
    found: dict[str, dict[str, int]] = {"messages": {}, "bytes": {}}
    for batch in batches(journal, "sends", ["phase", "bytes"]):
        phases, size = batch["phase"], numbers(batch["bytes"])
        codes = numbers(phases.indices)
        counted, summed = np.bincount(codes), np.bincount(codes, weights=size)
        named = {
            str(name): code
            for code, name in enumerate(phases.dictionary.to_pylist())
            if code < len(counted)
        }
        for phase in sorted(phase for phase, code in named.items() if counted[code]):
            for what, column in (("messages", counted), ("bytes", summed)):
                found[what][phase] = found[what].get(phase, 0) + int(column[named[phase]])
    return found


def gini(values: Ints | npt.NDArray[np.float64]) -> float:
    """Gini coefficient: 0 if all loads are equal, towards 1 if one peer bears all; 0 if there is no
    load.
    """
    count, total = len(values), values.sum()
    if total == 0:
        return 0.0
    weights = 2 * np.arange(1, count + 1, dtype=np.int64) - count - 1
    return float(np.dot(weights, np.sort(values)) / (count * total))


def peer_measures(trace: JournalArrays, sent: "Loads", bound: "Loads") -> Measures:
    """Load on peers. `sent` counts messages by sender, `bound` by receiver whether they arrived or
    not.
    """
    out = sent.less(_publishers_first(trace))
    arrived = ~trace.lost
    into = bound
    if trace.lost.any():
        into = Loads.of(trace.cast[arrived], trace.receiver[arrived], trace.population)
    into = into.less(Loads.of(trace.notice_cast, trace.notice_peer, trace.population).key)
    tout, tin = out.totals(trace.population), into.totals(trace.population)
    return {
        "TOUT_M": _largest(tout),
        "TOUT_G": gini(tout),
        "TOUT_capacity_G": gini(tout / trace.capacity),
        "TIN_M": _largest(tin),
        "TIN_G": gini(tin),
        "POUT_M": _largest(out.count),
        "PIN_M": _largest(into.count),
    }


def storage_measures(storage_bytes: Ints) -> Measures:
    return {"STOR_M": _largest(storage_bytes), "STOR_G": gini(storage_bytes)}


def link_measures(trace: JournalArrays, journal: Path, up: "Loads", down: "Loads") -> Measures:
    """Packets per directed physical link, access links included: per cast (PINK) and in total
    (TINK).

    The Gini coefficient is given over all links, over used links, and over links between routers.
    """
    links = len(read(journal, "links"))
    paths = _Paths(read(journal, "paths"))
    order = np.argsort(trace.cast, kind="stable").astype(np.int32)
    total, pink = np.zeros(links, np.int64), 0
    cuts = np.cumsum([0, *np.bincount(trace.cast, minlength=len(trace.publisher))]).tolist()
    for start, end in itertools.pairwise(cuts):
        some = order[start:end]
        loads = paths.loads(
            trace.router[trace.sender[some]], trace.router[trace.receiver[some]], links
        )
        pink = max(pink, _largest(loads))
        total += loads
    every = np.concatenate([total, up.totals(trace.population), down.totals(trace.population)])
    return {
        "PINK_M": max(pink, _largest(up.count), _largest(down.count)),
        "TINK_M": _largest(every),
        "TINK_G": gini(every),
        "TINK_used_G": gini(every[every > 0]),
        "TINK_router_G": gini(total),
    }


def cast_measures(trace: JournalArrays) -> Measures:
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
        "latency_ms_median": _median(latency_ms),
        "latency_ms_p99": _quantile(latency_ms, 0.99),
        "latency_ms_max": float(latency_ms.max()) if len(latency_ms) else 0.0,
    }


@dataclass(frozen=True, slots=True)
class Loads:
    """Sparse load matrix: `key` is cast * population + peer, ascending."""

    key: Ints
    count: Narrow

    @classmethod
    def of(cls, cast: Ints | Narrow, peer: Ints | Narrow, population: int) -> "Loads":
        # Casts are nearly in order, so sorting is cheap: three times as fast as np.unique with
        # counts.
        key = cast * np.int64(population)
        key += peer
        key.sort(kind="stable")
        starts, counts = runs(key)
        return cls(key[starts], counts.astype(np.int32))

    def less(self, keys: Ints) -> "Loads":
        """Subtract one at each of these keys that occurs; `keys` ascending and distinct."""
        where = np.searchsorted(self.key, keys)
        met = where < len(self.key)
        met[met] = self.key[where[met]] == keys[met]
        count = self.count.copy()
        count[where[met]] -= 1
        return Loads(self.key, count)

    def totals(self, population: int) -> Ints:
        return np.bincount(self.key % population, weights=self.count, minlength=population).astype(
            np.int64
        )


def _publishers_first(trace: JournalArrays) -> Ints:
    """Keys of publishers that sent messages for their own cast. The first of these does not count
    as load.
    """
    own = np.flatnonzero(
        np.bincount(trace.cast[trace.sender == trace.publisher[trace.cast]], minlength=1)
    )
    return own * trace.population + trace.publisher[own] if len(trace.publisher) else own


class _Paths:
    """The directed links between two routers, for the pairs that occur."""

    def __init__(self, table: Any) -> None:
        source, target = _ints(table["source_router"]), _ints(table["target_router"])
        self.routers = int(max(source.max(initial=0), target.max(initial=0))) + 1
        key = source * self.routers + target
        order = np.lexsort((_ints(table["position"]), key))
        self.link = _ints(table["link"])[order]
        self.start, self.length = runs(key[order])
        self.pairs = key[order][self.start]

    def loads(self, source: Ints, target: Ints, links: int) -> Ints:
        """Packets on each link if one message goes from each source to its target."""
        away = source != target
        pairs = np.sort(source[away] * self.routers + target[away])
        starts, counts = runs(pairs)
        where = np.searchsorted(self.pairs, pairs[starts])
        length = self.length[where]
        offsets = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        crossed = self.link[np.repeat(self.start[where], length) + offsets]
        return np.bincount(crossed, weights=np.repeat(counts, length), minlength=links).astype(
            np.int64
        )


def _ints(column: Any) -> Ints:
    return np.asarray(numbers(column), np.int64)


def _largest(values: Ints | Narrow) -> int:
    return int(values.max(initial=0))


def _median(values: npt.NDArray[np.float64]) -> float:
    """The middle value, or the mean of the two middle values."""
    middle = len(values) // 2
    return _mean(np.sort(values)[middle - 1 + len(values) % 2 : middle + 1])


def _quantile(values: npt.NDArray[np.float64], share: float) -> float:
    """Quantile with linear interpolation, equal to NumPy's to the last bit. NumPy's own would
    import masked arrays.
    """
    if not len(values):
        return 0.0
    ordered, place = np.sort(values), (len(values) - 1) * share
    below = int(place)
    low, high, part = (
        float(ordered[below]),
        float(ordered[min(below + 1, len(values) - 1)]),
        place - below,
    )
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0
