"""All measures of one small journal, in the task that made it: no shuffle, no second read, and the
same tables.

What a peer and a link bore comes from `blocks.py`, what that comes to from `facets.py`, the
contract from the very functions that judge on Spark. Large journals are cut into pieces
(`large.py`), those in which things changed are judged on Spark (`change.py`); which way a run is
measured follows from its own tables alone, never from the cluster.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from implicast.lab.dictionary import CONTRACT
from implicast.lab.measures import blocks, contract
from implicast.lab.measures.blocks import Ways, ints
from implicast.lab.measures.facets import Phases, Rows, facets
from implicast.lab.measures.receipts import SEEN, false_receipts, said_by
from implicast.world.invariants import FLIGHT_US

SPANS = pa.list_(pa.struct([("from_us", pa.int64()), ("to_us", pa.int64())]))
"""From when to when a peer was away, or forgot what it heard: none was, where nothing changed.
"""
ROWS_MAX = 2_000_000
"""Messages and notifications of a journal that one task measures alone."""

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
    judged = laws(read("registrations", None), tables["casts"], tables["notices"])
    tables["casts"] = tables["casts"].filter(
        pc.invert(tables["casts"]["warm_up"])
    )  # judged, but not measured
    found = blocks.block(
        of_casts, tables["notices"], tables["casts"], tables["peers"], Ways(read("paths", None))
    )
    return {"contract": [judged], **facets(found, phases(sends), tables["peers"], tables["links"])}


def reader(journal: Path) -> Read:
    """Of a journal that is a folder here."""
    return lambda name, columns: pq.read_table(journal / f"{name}.parquet", columns=columns)


def laws(registrations: pa.Table, casts: pa.Table, notices: pa.Table) -> dict[str, int]:
    """The contract of some casts, block of peers by block; no peer is ever gone, so nothing is
    excused.
    """
    casts = casts.sort_by("cast")
    casts = casts.append_column("excused", pa.array(np.zeros(len(casts), bool)))
    casts = casts.append_column("end_us", pc.add(casts["time_us"], FLIGHT_US))
    for name in ("away", "forgot"):
        registrations = registrations.append_column(
            name, pa.array([[]] * len(registrations), SPANS)
        )
    casts = _with_others(casts)
    held, told = (ints(each, "peer") >> contract.BLOCK_BITS for each in (registrations, notices))
    total = dict.fromkeys(CONTRACT, 0) | {"notified": len(notices)}
    numbers, said = said_by(casts)
    seen = {name: np.zeros(len(numbers), np.int64) for name in SEEN}
    for number in np.union1d(held, told).tolist() if len(casts) else []:
        mine = registrations.filter(pa.array(held == number))
        count, part = contract.compare(mine, notices.filter(pa.array(told == number)), casts)
        total = {name: total.get(name, 0) + count.get(name, 0) for name in {*total, *count}}
        seen = {name: seen[name] + ints(part, name) for name in SEEN}
    return total | {"misreported": false_receipts(said, seen, exact=True)}


def _with_others(casts: pa.Table) -> pa.Table:
    """With the members that a receipt counts beside notified ones; and the time of the end only
    where there is a receipt.
    """
    others = pc.fill_null(pc.add(casts["declined"], casts["unreachable"]), 0)
    ended = pc.if_else(pc.is_valid(casts["notified"]), casts["settled_us"], None)
    return (
        casts.drop_columns(["settled_us"])
        .append_column("settled_us", ended)
        .append_column("others", others)
    )


def phases(sends: pa.Table) -> Phases:
    """Messages and bytes by phase."""
    counted = sends.group_by("phase").aggregate([("bytes", "count"), ("bytes", "sum")]).to_pylist()
    return [(row["phase"], row["bytes_count"], row["bytes_sum"]) for row in counted]
