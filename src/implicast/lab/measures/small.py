"""All measures of one small journal, in the task that made it: no shuffle, no second read, and the same tables.

What a peer and a link bore comes from `blocks.py`, the contract from the very functions that judge large journals. Runs
in which things changed (`change.py`) and large journals are left to Spark; which way a run is measured follows from
its own tables alone, never from the cluster.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from implicast.lab.measures import blocks, contract
from implicast.lab.measures.blocks import Block, Ints, Ways, gini, ints
from implicast.lab.measures.fairness import LORENZ_POINTS
from implicast.world.invariants import FLIGHT_US

SPANS = pa.list_(pa.struct([("from_us", pa.int64()), ("to_us", pa.int64())]))
"""From when to when somebody was away, or forgot what it heard: nobody was, where nothing changed."""
ROWS_MAX = 2_000_000
"""Messages and notifications of a journal that one task measures alone."""

Rows = list[dict[str, Any]]
Read = Callable[[str, list[str] | None], pa.Table]
"""A journal's table by name, with some of its columns or all."""


def is_small(rows: int, changed: bool) -> bool:
    """Few messages and notifications, and nothing changed."""
    return rows <= ROWS_MAX and not changed


def measured(read: Read) -> dict[str, Rows]:
    """Rows of the tables `measures`, `contract`, `costs` and `lorenz`, without the run's name."""
    tables = {name: read(name, None) for name in ("notices", "casts", "peers", "links")}
    sends = read("sends", [*blocks.SENDS, "phase", "bytes"])
    of_casts = sends.filter(pc.is_valid(sends["cast"]))
    judged = _contract(read("registrations", None), tables)
    tables["casts"] = tables["casts"].filter(pc.invert(tables["casts"]["warm_up"]))  # judged, but not measured
    found = blocks.block(of_casts, tables["notices"], tables["casts"], tables["peers"], Ways(read("paths", None)))
    loads = _loads(found, tables["peers"])
    return {
        "measures": [_measures(found, loads, tables)],
        "contract": [judged],
        "costs": _costs(sends, len(tables["peers"])),
        "lorenz": [row for name, load in _borne(loads, tables["peers"]).items() for row in lorenz(load, name)],
    }


def reader(journal: Path) -> Read:
    """Of a journal that is a folder here."""
    return lambda name, columns: pq.read_table(journal / f"{name}.parquet", columns=columns)


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


def _borne(loads: dict[str, Ints], peers: pa.Table) -> dict[str, Ints]:
    return {"TOUT": loads["out"], "TIN": loads["in"], "STOR": ints(peers, "storage_bytes")}


def _measures(found: Block, loads: dict[str, Ints], tables: dict[str, pa.Table]) -> dict[str, float]:
    row: dict[str, float] = {}
    for kind, name in (("out", "OUT"), ("in", "IN")):
        row |= {f"P{name}_M": _largest(found.peers[kind].peak), f"T{name}_M": _largest(loads[kind])}
        row[f"T{name}_G"] = gini(loads[kind])
    storage = ints(tables["peers"], "storage_bytes")
    row |= {"STOR_M": _largest(storage), "STOR_G": gini(storage)}
    capacity = np.asarray(tables["peers"]["capacity"].to_numpy(), np.float64)
    row["TOUT_capacity_G"] = gini(loads["out"] / capacity)
    return row | _links(found, loads, tables) | _hops(found) | _latency(tables["notices"], tables["casts"])


def _links(found: Block, loads: dict[str, Ints], tables: dict[str, pa.Table]) -> dict[str, float]:
    between = np.zeros(max(len(tables["links"]), len(found.links.key)), np.int64)
    between[: len(found.links.key)] = found.links.load
    every = np.concatenate([between, loads["up"], loads["down"]])
    peaks = [found.links.peak, found.peers["up"].peak, found.peers["down"].peak]
    return {
        "PINK_M": max(map(_largest, peaks)), "TINK_M": _largest(every), "TINK_G": gini(every),
        "TINK_used_G": gini(every[every > 0]), "TINK_router_G": gini(between),
    }  # fmt: skip


def _hops(found: Block) -> dict[str, float]:
    messages, members = found.casts["messages"], found.casts["members"]
    some = members > 0
    rah = found.casts["hops"][some] / members[some] / 2
    return {
        "RTH": _mean(messages / (1 + members)), "RAH": _mean(rah), "RMH": _mean(found.casts["deepest"][some] / 2)
    }  # fmt: skip


def _latency(notices: pa.Table, casts: pa.Table) -> dict[str, float]:
    order = np.argsort(ints(casts, "cast"), kind="stable")
    numbers, made_us = ints(casts, "cast")[order], ints(casts, "time_us")[order]
    told = ints(notices, "cast")
    place = np.minimum(np.searchsorted(numbers, told), max(0, len(numbers) - 1))
    known = numbers[place] == told if len(numbers) else np.zeros(len(told), bool)
    wait_us = ints(notices, "time_us")[known] - made_us[place[known]] if len(numbers) else np.empty(0, np.int64)
    if not len(wait_us):
        return dict.fromkeys((f"latency_ms_{name}" for name in ("mean", "median", "p99", "max")), 0.0)
    median, p99 = np.percentile(wait_us, [50, 99])
    return {
        "latency_ms_mean": float(wait_us.sum() / len(wait_us) / 1000), "latency_ms_median": float(median / 1000),
        "latency_ms_p99": float(p99 / 1000), "latency_ms_max": float(wait_us.max() / 1000),
    }  # fmt: skip


def _contract(registrations: pa.Table, tables: dict[str, pa.Table]) -> dict[str, int]:
    """Block of peers by block, as large journals are judged; nobody is ever gone, so nothing is excused."""
    casts, notices = tables["casts"].sort_by("cast"), tables["notices"]
    casts = casts.append_column("excused", pa.array(np.zeros(len(casts), bool)))
    casts = casts.append_column("end_us", pc.add(casts["time_us"], FLIGHT_US))
    for name in ("away", "forgot"):
        registrations = registrations.append_column(name, pa.array([[]] * len(registrations), SPANS))
    held, told = (ints(each, "peer") >> contract.BLOCK_BITS for each in (registrations, notices))
    total: dict[str, int] = {"notified": len(notices), "misreported": _misreported(casts, notices)}
    for number in np.union1d(held, told).tolist() if len(casts) else []:
        mine = registrations.filter(pa.array(held == number))
        count = contract.compare(mine, notices.filter(pa.array(told == number)), casts)
        total = {name: total.get(name, 0) + count.get(name, 0) for name in {*total, *count}}
    return total


def _misreported(casts: pa.Table, notices: pa.Table) -> int:
    """Receipts that say another number than were notified by then; of fewer than all where some were out of reach."""
    columns = ["cast", "time_us", "settled_us", "notified", "unreachable"]
    ended = casts.filter(pc.is_valid(casts["notified"])).select(columns)
    if not len(ended):
        return 0
    told = notices.select(["cast", "peer", "time_us"]).rename_columns(["cast", "peer", "told_us"])
    joined = told.join(ended, "cast", join_type="inner")
    in_time = pc.and_(
        pc.greater_equal(joined["told_us"], joined["time_us"]), pc.less_equal(joined["told_us"], joined["settled_us"])
    )
    knew = joined.filter(in_time).group_by("cast").aggregate([("peer", "count_distinct")])
    rows = ended.join(knew, "cast").to_pylist()
    return sum(_false(row["notified"], row["peer_count_distinct"] or 0, row["unreachable"]) for row in rows)


def _false(notified: int, knew: int, unreachable: int) -> bool:
    return notified > knew or (unreachable == 0 and notified < knew)


def _costs(sends: pa.Table, population: int) -> Rows:
    counted = sends.group_by("phase").aggregate([("bytes", "count"), ("bytes", "sum")]).to_pylist()
    return [
        {
            "phase": row["phase"], "messages": row["bytes_count"], "bytes": row["bytes_sum"],
            "messages_per_peer": row["bytes_count"] / population, "bytes_per_peer": row["bytes_sum"] / population,
        }
        for row in sorted(counted, key=lambda row: str(row["phase"]))
    ]  # fmt: skip


def lorenz(loads: Ints, name: str) -> Rows:
    """The curve of `fairness.lorenz`, point by point."""
    load, bearers = np.unique(loads, return_counts=True)
    peers, borne = np.cumsum(bearers), np.cumsum(load * bearers)
    population, total = int(peers[-1]), int(borne[-1])
    # As `fairness.lorenz` has it, in doubles: the quotient decides the bucket.
    bucket = np.ceil(peers * LORENZ_POINTS / population).astype(np.int64)
    starts = np.flatnonzero(np.concatenate([[True], bucket[1:] != bucket[:-1]]))
    ends = np.append(starts[1:], len(bucket)) - 1
    points = [(0, 0, 0)]
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        points += [
            (2 * int(bucket[at]) + side, int(peers[at]), int(borne[at])) for side, at in enumerate((first, last))
        ]
    return [
        {"load": name, "position": position, "share_of_peers": who / population,
         "share_of_load": what / total if total else who / population}
        for position, who, what in points
    ]  # fmt: skip


def _largest(values: npt.NDArray[Any]) -> float:
    return float(values.max(initial=0))


def _mean(values: npt.NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else 0.0
