"""The tables of a stream: `minutes`, for each run and minute, and `totals`, for each run since it
began.

Totals have the names and the definitions of `lab measure`. Counts and loads equal what it finds in
the whole journal as long as no row was late; percentiles are within `sketch.ERROR` of them.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from implicast.lab.measures.blocks import gini
from implicast.lab.stream.state import RunState, everyone, minute_row

MINUTES = pa.schema(
    [
        ("design", pa.string()),
        ("run", pa.string()),
        ("minute_us", pa.int64()),
        ("casts", pa.int64()),
        ("deliveries", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("upkeep_messages", pa.int64()),
        ("all_messages", pa.int64()),
        ("all_bytes", pa.int64()),
        ("latency_ms_median", pa.float64()),
        ("latency_ms_p99", pa.float64()),
        ("latency_ms_max", pa.float64()),
        ("out_G", pa.float64()),
        ("out_M", pa.int64()),
        ("receipts", pa.int64()),
        ("open_too_long", pa.int64()),
        ("late", pa.int64()),
    ]
)
TOTALS = pa.schema(
    [
        ("design", pa.string()),
        ("run", pa.string()),
        ("peers", pa.int64()),
        ("casts", pa.int64()),
        ("notified", pa.int64()),
        ("messages", pa.int64()),
        ("messages_cast", pa.int64()),
        ("bytes", pa.int64()),
        ("bytes_cast", pa.int64()),
        ("receipts", pa.int64()),
        ("open_too_long", pa.int64()),
        ("late", pa.int64()),
        ("POUT_M", pa.float64()),
        ("TOUT_M", pa.float64()),
        ("TOUT_G", pa.float64()),
        ("RTH", pa.float64()),
        ("latency_ms_mean", pa.float64()),
        ("latency_ms_median", pa.float64()),
        ("latency_ms_p99", pa.float64()),
        ("latency_ms_max", pa.float64()),
    ]
)
_ADDED = {
    "casts": "casts",
    "notified": "deliveries",
    "messages": "all_messages",
    "messages_cast": "messages",
    "bytes": "all_bytes",
    "bytes_cast": "bytes",
    "receipts": "receipts",
    "late": "late",
}
"""Totals that are counts of the state."""


def open_minutes(state: RunState, open_us: int) -> list[dict[str, Any]]:
    return [minute_row(state, each, open_us) for each in sorted(state.minutes)]


def totals(state: RunState, open_us: int) -> dict[str, Any]:
    """In the columns of `TOTALS` but for the run's name."""
    load, peak, ratios = dict(state.load), state.peak, state.ratios
    for cast in state.casts.values():
        for peer, borne in cast.borne().items():
            load[peer] = load.get(peer, 0) + borne
            peak = max(peak, borne)
        ratios += cast.messages / (1 + cast.members)
    sums = np.array(list(load.values()), np.int64)
    casts, waits = state.closed + len(state.casts), state.waits
    overdue = sum(row["open_too_long"] for row in open_minutes(state, open_us))
    return {
        "peers": state.peers,
        **{name: state.counts[counted] for name, counted in _ADDED.items()},
        "open_too_long": state.overdue + overdue,
        "POUT_M": float(peak),
        "TOUT_M": float(sums.max(initial=0)),
        "TOUT_G": gini(everyone(sums, state.peers)),
        "RTH": ratios / casts if casts else 0.0,
        "latency_ms_mean": waits.sum_us / waits.count / 1000 if waits.count else 0.0,
        **{name: value or 0.0 for name, value in waits.in_ms().items()},
    }
