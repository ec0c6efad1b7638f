"""All measures of some journals: measures, contract, costs, Lorenz curves, and change.

Small journals are measured where they were made (`small.py`); this is for large ones, which are
measured in pieces (`large.py`).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from implicast.lab import tables
from implicast.lab.installed_code import CodeRule
from implicast.lab.journals import JournalSource
from implicast.lab.measures import large
from implicast.lab.session import described

Said = Callable[[str], None]
Measured = dict[str, pa.Table]


LARGE = {
    "measures": tables.RUN_MEASURES,
    "contract": tables.RUN_CONTRACT,
    "costs": tables.RUN_COSTS,
    "lorenz": tables.RUN_LORENZ,
    "change": tables.RUN_CHANGE,
    "rejected": tables.REJECTED,
}


def measured(
    spark: SparkSession,
    sources: Sequence[JournalSource],
    said: Said = lambda stage: None,
    rule: CodeRule | None = None,
) -> Measured:
    """The tables `measures`, `contract`, `costs`, `lorenz` and `change` of these journals; and, as
    `rejected`, the journals that make no sense, with the reason. `rule`: the code that workers may
    run.
    """
    rule = rule or CodeRule.here()
    found = {name: declared.empty_table() for name, declared in LARGE.items()}
    with _stage(spark, "load of peers and links, hops, latency", said):
        _take(found, large.finished(spark, sources, rule))
    wrong = set(found["rejected"]["run"].to_pylist())
    sound = [each for each in sources if each.run not in wrong]
    if sound:
        with _stage(spark, "contract and change", said):
            _take(found, large.judged(spark, sound, rule))
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


def arrow(rows: DataFrame, declared: pa.Schema) -> pa.Table:
    """The rows, in the declared columns and types, with the driver: few for each run."""
    wanted = tables.schema(declared)
    cast_to = [rows[each.name].cast(each.dataType).alias(each.name) for each in wanted]
    return rows.select(*cast_to).toArrow().cast(declared)


@contextmanager
def _stage(spark: SparkSession, name: str, said: Said) -> Iterator[None]:
    """One step, told to people and to Spark's own pages."""
    said(name)
    with described(spark, f"implicast: {name}"):
        yield
