"""All measures of some journals: measures, contract, costs, Lorenz curves, and change.

Small journals were measured where they were made (`small.py`); this is for large ones, which are
measured in pieces (`large.py`), and for those in which things changed, whose contract is judged on
Spark (`contract.py`, `change.py`).
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from implicast.lab import tables
from implicast.lab.journals import Journals
from implicast.lab.measures import change, contract, large
from implicast.lab.session import described

Said = Callable[[str], None]
Measured = dict[str, pa.Table]


LARGE = {
    "measures": tables.RUN_MEASURES,
    "contract": tables.RUN_CONTRACT,
    "costs": tables.RUN_COSTS,
    "lorenz": tables.RUN_LORENZ,
    "rejected": tables.REJECTED,
}


def measured(journals: Journals, said: Said = lambda stage: None) -> Measured:
    """The tables `measures`, `contract`, `costs` and `lorenz` of these journals, and `change` when
    anything changed; and, as `rejected`, the journals that make no sense, with the reason.
    """
    changed = set(journals.changed())
    still = [each for each in journals.sources if each.run not in changed]
    found = {name: declared.empty_table() for name, declared in LARGE.items()}
    with _stage(journals.spark, "load of peers and links, hops, latency", said):
        _take(found, large.finished(journals.spark, journals.sources))
    wrong = set(found["rejected"]["run"].to_pylist())
    still = [each for each in still if each.run not in wrong]
    if still:
        with _stage(journals.spark, "contract", said):
            _take(found, large.judged(journals.spark, still))
    moving = [each for each in journals.sources if each.run in changed - wrong]
    if moving:
        found |= _changed(journals.among(moving), found["contract"], said)
    return {
        name: table if name == "rejected" else _without(table, found["rejected"])
        for name, table in found.items()
    }


def _without(table: pa.Table, rejected: pa.Table) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["run"], rejected["run"].combine_chunks())))


def _take(found: Measured, finished: DataFrame) -> None:
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in found}
    for one in finished.toArrow().to_pylist():
        if one["reason"] is not None:
            rows["rejected"].append({"run": one["run"], "reason": one["reason"]})
        for name, mine in json.loads(one["rows"] or "{}").items():
            rows[name] += [{"run": one["run"], **row} for row in mine]
    for name, mine in rows.items():
        found[name] = pa.concat_tables([found[name], pa.Table.from_pylist(mine, LARGE[name])])


def _changed(journals: Journals, judged: pa.Table, said: Said) -> Measured:
    """The contract, with those that were judged before, and the measures of change."""
    with _stage(journals.spark, "contract where things changed", said):
        gone = contract.departures(
            journals.table("incarnations"),
            journals.table("scripted_events"),
            journals.undisturbed(),
        )
        verdicts = contract.verdicts(*_told(journals), gone, journals.changed())
        found = {"contract": pa.concat_tables([judged, arrow(verdicts, tables.RUN_CONTRACT)])}
    if journals.has("timeline"):
        with _stage(journals.spark, "change", said):
            found["change"] = arrow(_change(journals, gone), tables.RUN_CHANGE)
    return found


def arrow(rows: DataFrame, declared: pa.Schema) -> pa.Table:
    """The rows, in the declared columns and types, with the driver: few for each run."""
    wanted = tables.schema(declared)
    cast_to = [rows[each.name].cast(each.dataType).alias(each.name) for each in wanted]
    return rows.select(*cast_to).toArrow().cast(declared)


def _told(journals: Journals) -> tuple[DataFrame, DataFrame, DataFrame]:
    return journals.table("registrations"), journals.table("casts"), journals.table("notices")


def _change(journals: Journals, gone: DataFrame) -> DataFrame:
    table = journals.table
    course = table("timeline")
    judged = change.verdicts(*_told(journals), gone, course, journals.changed())
    return change.change(
        judged,
        change.repairs(table("scripted_events"), table("health"), course),
        change.traffic(table("sends"), table("incarnations"), course),
        change.complaints(table("incarnations"), table("registrations")),
        change.returns(table("incarnations")),
        course,
    )


@contextmanager
def _stage(spark: SparkSession, name: str, said: Said) -> Iterator[None]:
    """One step, told to people and to Spark's own pages."""
    said(name)
    with described(spark, f"implicast: {name}"):
        yield
