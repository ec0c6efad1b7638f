"""All measures of one small journal, in the task that made it: no shuffle, no second read, and the
same tables.

What a peer and a link bore comes from `blocks.py`, what that comes to from `facets.py`, the
contract from `contract.py`, what change did from `change.py`. Large journals are cut into pieces
(`large.py`); which way a run is measured follows from its own tables alone, never from the cluster.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from implicast.lab.dictionary import CONTRACT
from implicast.lab.measures import blocks, change, contract
from implicast.lab.measures.blocks import Ways
from implicast.lab.measures.change import PERIODS, ChangeTables
from implicast.lab.measures.facets import Phases, Rows, facets

ROWS_MAX = 2_000_000
"""Messages and notifications of a journal that one task measures alone."""

Read = Callable[[str, list[str] | None], pa.Table]
"""A journal's table by name, with some of its columns or all."""


def is_small(rows: int) -> bool:
    """Few messages and notifications."""
    return rows <= ROWS_MAX


def measured(read: Read, changed: ChangeTables | None = None) -> dict[str, Rows]:
    """Rows of the tables `measures`, `contract`, `costs` and `lorenz`, and `change` where anything
    changed, without the run's name.
    """
    tables = {name: read(name, None) for name in ("notices", "casts", "peers", "links")}
    timed = [] if changed is None else ["sent_us"]
    sends = read("sends", [*blocks.SENDS, "phase", "bytes", *timed])
    registrations = read("registrations", None)
    judged = laws(registrations, tables["casts"], tables["notices"], changed)
    rows = {"contract": [{name: judged[name] for name in CONTRACT}]}
    if changed is not None and changed.timeline is not None:
        moved = change.traffic(sends, changed.timeline)
        rows["change"] = [change.change(by_period(judged), moved, changed, registrations)]
    of_casts = sends.filter(pc.is_valid(sends["cast"]))
    tables["casts"] = tables["casts"].filter(
        pc.invert(tables["casts"]["warm_up"])
    )  # judged, but not measured
    found = blocks.block(
        of_casts, tables["notices"], tables["casts"], tables["peers"], Ways(read("paths", None))
    )
    return {**rows, **facets(found, phases(sends), tables["peers"], tables["links"])}


def laws(
    registrations: pa.Table, casts: pa.Table, notices: pa.Table, changed: ChangeTables | None = None
) -> dict[str, int]:
    """The counts of the contract over some casts and all notices of them; where things changed,
    also over the casts of each period, as `during_expected`, with the number of its casts.

    Notices of casts that no peer made count in every period.
    """
    if changed is None:
        return contract.laws(registrations, casts, notices)
    gone = changed.absences()
    total = contract.laws(registrations, casts, notices, gone, exact=False)
    if changed.timeline is None:
        return total
    known = pc.is_in(notices["cast"], casts["cast"].combine_chunks())
    unmade = len(notices) - (pc.sum(known).as_py() or 0)
    for name, chosen in change.period_of(casts, changed.timeline).items():
        told = notices.filter(pc.is_in(notices["cast"], chosen["cast"].combine_chunks()))
        count = contract.laws(registrations, chosen, told, gone, exact=False)
        for each in ("notified", "invented"):
            count[each] += unmade
        total |= {f"{name}_{each}": count[each] for each in CONTRACT}
        total[f"{name}_casts"] = len(chosen)
    return total


def by_period(judged: dict[str, int]) -> dict[str, int]:
    """The counts of both periods; zero in a period without casts."""
    return {
        f"{period}_{name}": judged[f"{period}_{name}"] if judged[f"{period}_casts"] else 0
        for period in PERIODS
        for name in CONTRACT
    }


def reader(journal: Path) -> Read:
    """Of a journal that is a folder here."""
    return lambda name, columns: pq.read_table(journal / f"{name}.parquet", columns=columns)


def phases(sends: pa.Table) -> Phases:
    """Messages and bytes by phase."""
    counted = sends.group_by("phase").aggregate([("bytes", "count"), ("bytes", "sum")]).to_pylist()
    return [(row["phase"], row["bytes_count"], row["bytes_sum"]) for row in counted]
