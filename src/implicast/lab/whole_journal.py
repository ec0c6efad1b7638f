"""The whole journal of a run of a lake, as the world writes one: `LAKE/run=R/TABLE.parquet`.

Messages and notices pass through in batches, so that memory does not grow with the lake.
"""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from implicast.lab.lake import Lake, Rows
from implicast.lab.storage import Location
from implicast.world.journal import SCHEMAS

ROW_GROUP = 1 << 20


def write_whole(lake: Lake, small: Mapping[str, Rows], scenario: Mapping[str, Any]) -> Location:
    """The journal, in the place of the one before; `small`: registrations and peers."""
    folder = lake.place / f"run={lake.run}"
    for name in ("sends", "notices"):
        with _written(folder / f"{name}.parquet", SCHEMAS[name]) as writer:
            for batch in _grouped(lake.tables[name].batches(lake.run)):
                writer.write_table(batch.cast(SCHEMAS[name]), row_group_size=ROW_GROUP)
    _put(folder / "casts.parquet", _casts(lake))
    for name in ("registrations", "peers", "links", "paths"):
        rows = pa.Table.from_pylist(small.get(name, []), schema=SCHEMAS[name])
        _put(folder / f"{name}.parquet", rows)
    text = json.dumps(scenario, indent=2, sort_keys=True)
    (folder / "scenario.json").write(text.encode())
    return folder


def _grouped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Joined to row groups of a useful size."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= ROW_GROUP:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _casts(lake: Lake) -> pa.Table:
    """Casts with what their publishers were told last."""
    told = {row["cast"]: row for row in lake.gathered("receipts").sort_by("settled_us").to_pylist()}
    empty = dict.fromkeys(("settled_us", "notified", "declined", "unreachable", "uncertain"))
    made = lake.gathered("casts").to_pylist()
    rows = [{**empty, **told.get(row["cast"], {}), **row, "warm_up": False} for row in made]
    return pa.Table.from_pylist(
        sorted(rows, key=lambda row: int(row["cast"])), schema=SCHEMAS["casts"]
    )


@contextmanager
def _written(place: Location, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A file that is there when it is whole."""
    with place.written() as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        yield writer


def _put(place: Location, table: pa.Table) -> None:
    held = io.BytesIO()
    pq.write_table(table, held, compression="zstd")
    place.write(held.getvalue())
