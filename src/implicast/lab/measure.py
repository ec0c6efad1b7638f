"""Measures of journals that are there already: each is looked at by a task of its own, and a bad
one stays alone.

A small journal is measured by the task that looks at it; large ones follow. A journal that is
damaged, incomplete or of another form becomes a row of the table `rejected`, with its reason.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from implicast.lab import dataset, tables
from implicast.lab.errors import NothingUsable
from implicast.lab.installed_code import CodeRule
from implicast.lab.journals import JournalSource, objection
from implicast.lab.measures import small
from implicast.lab.measures.all import measured
from implicast.lab.session import described
from implicast.lab.storage import Location

LOOKED = pa.schema([("number", pa.int64()), ("reason", pa.string()), ("measured", pa.string())])
Said = Callable[[str], None]
TABLES = ("measures", "contract", "costs", "lorenz", "change", "rejected")


def measure(
    spark: SparkSession,
    sources: Sequence[JournalSource],
    out: Location | None = None,
    said: Said = lambda stage: None,
) -> dict[str, pa.Table]:
    """The tables of these journals, with `rejected`; written to `OUT/TABLE/part-0.parquet` where a
    place is named.
    """
    looked = _looked_at(spark, sources, said)
    found = _of_tasks(sources, looked)
    left = [
        sources[row["number"]]
        for row in looked
        if row["reason"] is None and row["measured"] is None
    ]
    if left:
        for name, table in measured(spark, left, said).items():
            found[name] = pa.concat_tables([found[name], table])
    if not len(found["measures"]):
        first = found["rejected"].to_pylist()[0]
        raise NothingUsable(
            f"none of {len(sources)} journals can be measured; {first['run']}: {first['reason']}"
        )
    if out is not None:
        for name, table in found.items():
            _write(out / name / "part-0.parquet", name, table)
    return found


def _looked_at(
    spark: SparkSession, sources: Sequence[JournalSource], said: Said
) -> list[dict[str, Any]]:
    said(f"looking at {len(sources)} journals")
    with described(spark, f"implicast: looking at {len(sources)} journals"):
        rows = spark.range(0, len(sources), 1, len(sources)).mapInArrow(
            _look(sources, CodeRule.here()), tables.schema(LOOKED)
        )
        found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return sorted(found, key=lambda row: int(row["number"]))


def _look(
    sources: Sequence[JournalSource], rule: CodeRule
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    asked = [json.dumps({**asdict(each), "place": each.place.url}) for each in sources]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rule.check()
        for batch in batches:
            for number in batch["id"].to_pylist():
                given = json.loads(asked[number])
                reason, made = _one(JournalSource(**{**given, "place": Location(given["place"])}))
                yield pa.record_batch([[number], [reason], [made]], schema=LOOKED)

    return work


def _one(source: JournalSource) -> tuple[str | None, str | None]:
    """(why it cannot be measured, its rows as JSON); neither where it is left to Spark."""
    try:
        reason = objection(source)
        if reason is not None:
            return reason, None
        rows = sum(source.opened(name).metadata.num_rows for name in ("sends", "notices"))
        if not small.is_small(rows):
            return None, None
        return None, json.dumps(small.measured(source.read, source.changed()))
    except (
        Exception
    ) as wrong:  # columns that are there and make no sense together: this journal's fault alone
        return (
            f"it does not hang together: {type(wrong).__name__}: {' '.join(str(wrong).split())[:200]}",
            None,
        )


def _of_tasks(
    sources: Sequence[JournalSource], looked: Sequence[dict[str, Any]]
) -> dict[str, pa.Table]:
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for row in looked:
        run = sources[row["number"]].run
        if row["reason"] is not None:
            rows["rejected"].append({"run": run, "reason": row["reason"]})
        for name, mine in json.loads(row["measured"] or "{}").items():
            rows[name] += [{"run": run, **each} for each in mine]
    return {name: pa.Table.from_pylist(mine, dataset.SCHEMAS[name]) for name, mine in rows.items()}


def _write(place: Location, name: str, table: pa.Table) -> None:
    held = io.BytesIO()
    pq.write_table(table.cast(dataset.described(name)), held, compression="zstd")
    place.write(held.getvalue())
