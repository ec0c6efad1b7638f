"""The journal of a run: what the world observed, as Arrow columns in one directory of Parquet
files.

Peers carry no instruments. The world writes a row for each message and each notice, with its cause
(the serial of the input being handled), its phase, its cast and its depth (messages on the causal
chain since the application's call). All measures are computed from these tables.

Rows are packed and flushed in chunks, so that memory does not grow with the number of messages.
Packing costs two thirds of appending to column lists (`bench/journal.py`). A journal is written to
a directory `NAME.part` and renamed when complete: a directory with the journal's name is complete.
"""

import json
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from implicast.peer.errors import ScenarioError
from implicast.world.arrays import column, named, optional
from implicast.world.columns import described

PHASES = ("cast", "upkeep", "join", "register", "withdraw", "leave", "warm-up")
"""Phases by code. A purpose >= 0 is the number of a cast; a purpose < 0 is minus the code of its
phase. Warm-up casts have the phase `warm-up`, and their messages name no cast.
"""
UPKEEP, JOIN, REGISTER, WITHDRAW, LEAVE = -1, -2, -3, -4, -5

CHUNK_ROWS = 1 << 16
"""Rows buffered before they are written."""

_SENDS = struct.Struct("<qqqqiiiiih")
_NOTICES = struct.Struct("<qqiii?")
pack_send = _SENDS.pack
"""Pack one row of `Journal.sends`. The world calls it directly, at half the cost of `Journal.send`.
"""

SENDS_DTYPE = np.dtype(
    [
        ("serial", "<i8"),
        ("cause", "<i8"),
        ("sent_us", "<i8"),
        ("arrived_us", "<i8"),
        ("sender", "<i4"),
        ("receiver", "<i4"),
        ("purpose", "<i4"),
        ("depth", "<i4"),
        ("bytes", "<i4"),
        ("kind", "<i2"),
    ]
)
_NOTICES_DTYPE = np.dtype(
    [
        ("cause", "<i8"),
        ("time_us", "<i8"),
        ("peer", "<i4"),
        ("cast", "<i4"),
        ("depth", "<i4"),
        ("altered", "?"),
    ]
)

_NAME = pa.dictionary(pa.int16(), pa.string())
SCHEMAS: dict[str, pa.Schema] = {
    "sends": pa.schema(
        [
            ("serial", pa.int64()),
            ("cause", pa.int64()),
            ("sent_us", pa.int64()),
            ("arrived_us", pa.int64()),
            ("sender", pa.int32()),
            ("receiver", pa.int32()),
            ("kind", _NAME),
            ("phase", _NAME),
            ("cast", pa.int32()),
            ("depth", pa.int32()),
            ("bytes", pa.int32()),
        ]
    ),
    "notices": pa.schema(
        [
            ("cause", pa.int64()),
            ("time_us", pa.int64()),
            ("peer", pa.int32()),
            ("cast", pa.int32()),
            ("depth", pa.int32()),
            ("altered", pa.bool_()),
        ]
    ),
    "casts": pa.schema(
        [
            ("cast", pa.int32()),
            ("publisher", pa.int32()),
            ("time_us", pa.int64()),
            ("target", pa.string()),
            ("settled_us", pa.int64()),
            ("carried_us", pa.int64()),
            ("warm_up", pa.bool_()),
            ("notified", pa.int64()),
            ("declined", pa.int64()),
            ("unreachable", pa.int64()),
            ("uncertain", pa.int64()),
        ]
    ),
    "registrations": pa.schema(
        [
            ("peer", pa.int32()),
            ("version", pa.int32()),
            ("begun_us", pa.int64()),
            ("completed_us", pa.int64()),
            ("withdrawn", pa.bool_()),
            ("tags", pa.list_(pa.string())),
            ("values", pa.list_(pa.struct([("attribute", pa.string()), ("value", pa.string())]))),
        ]
    ),
    "peers": pa.schema(
        [
            ("peer", pa.int32()),
            ("role", pa.string()),
            ("router", pa.int32()),
            ("access_us", pa.int64()),
            ("storage_bytes", pa.int64()),
            ("capacity", pa.float64()),
        ]
    ),
    "links": pa.schema(
        [
            ("link", pa.int32()),
            ("source", pa.int32()),
            ("target", pa.int32()),
            ("latency_us", pa.int64()),
        ]
    ),
    "paths": pa.schema(
        [
            ("source_router", pa.int32()),
            ("target_router", pa.int32()),
            ("position", pa.int32()),
            ("link", pa.int32()),
        ]
    ),
}
CHANGE_SCHEMAS: dict[str, pa.Schema] = {
    "timeline": pa.schema(
        [
            ("from_us", pa.int64()),
            ("over_us", pa.int64()),
            ("calm_us", pa.int64()),
            ("end_us", pa.int64()),
        ]
    ),
    "scripted_events": pa.schema(
        [
            ("from_us", pa.int64()),
            ("to_us", pa.int64()),
            ("kind", pa.string()),
            ("peers", pa.list_(pa.int32())),
            ("amount", pa.float64()),
            ("detail", pa.string()),
        ]
    ),
    "incarnations": pa.schema(
        [
            ("peer", pa.int32()),
            ("from_us", pa.int64()),
            ("joined_us", pa.int64()),
            ("leaving_us", pa.int64()),
            ("to_us", pa.int64()),
            ("end", pa.string()),
            ("returned", pa.bool_()),
            ("back_us", pa.int64()),
            ("copied_us", pa.int64()),
        ]
    ),
    "health": pa.schema([("time_us", pa.int64()), ("wrong", pa.int32()), ("first", pa.string())]),
}
"""Tables of runs with churn (`change.py`)."""
FORMER_NAMES = {"timeline": "course", "scripted_events": "deeds", "incarnations": "lives"}
"""Names of these tables in journals of version 0.1.0. The reader accepts both, the writer uses the
new ones.
"""
SCHEMAS, CHANGE_SCHEMAS = described(SCHEMAS), described(CHANGE_SCHEMAS)


class Journal:
    """Writes the journal of one run. `close` renames the directory into place; `discard` removes
    what was written.
    """

    def __init__(self, directory: Path, warm_up: int = 0) -> None:
        """`warm_up`: number of casts before the measured ones."""
        if directory.exists():
            raise ScenarioError(
                f"the journal directory {directory} exists already; name a new one or remove it"
            )
        self.directory, self._warm_up = directory, warm_up
        self._aside = directory.with_name(directory.name + ".part")
        shutil.rmtree(self._aside, ignore_errors=True)
        self._aside.mkdir(parents=True)
        self._writers = {name: self._writer(name) for name in ("sends", "notices")}
        self.sends: list[bytes] = []
        """Packed rows not yet written. The caller that adds the `CHUNK_ROWS`-th row flushes them.
        """
        self.notices: list[bytes] = []
        """The same for notices."""
        self.kinds: list[str] = []

    def send(
        self,
        serial: int,
        cause: int,
        sent_us: int,
        arrived_us: int,
        sender: int,
        receiver: int,
        purpose: int,
        depth: int,
        size_bytes: int,
        kind: int,
    ) -> None:
        """Add one message. `arrived_us` is -1 if it was lost; `kind` is an index into `kinds`."""
        row = pack_send(
            serial, cause, sent_us, arrived_us, sender, receiver, purpose, depth, size_bytes, kind
        )
        self.sends.append(row)
        if len(self.sends) >= CHUNK_ROWS:
            self.flush_sends()

    def notice(
        self, cause: int, time_us: int, peer: int, cast: int, depth: int, altered: bool = False
    ) -> None:
        """Add one notice of a cast. `altered`: its payload differs from that of the cast."""
        self.notices.append(_NOTICES.pack(cause, time_us, peer, cast, depth, altered))
        if len(self.notices) >= CHUNK_ROWS:
            self.flush_notices()

    def table(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        """Write one of the smaller tables from rows."""
        schema, rows = SCHEMAS.get(name) or CHANGE_SCHEMAS[name], list(rows)
        arrays = [optional([row.get(each.name) for row in rows], each.type) for each in schema]
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=schema), self._path(name), compression="zstd"
        )

    def columns(self, name: str, columns: dict[str, Any]) -> None:
        """Write one of the smaller tables from columns."""
        self.chunks(name, [columns])

    def chunks(self, name: str, chunks: Iterable[dict[str, Any]]) -> None:
        """Write one of the smaller tables from chunks of columns."""
        schema = SCHEMAS[name]
        with pq.ParquetWriter(self._path(name), schema, compression="zstd") as writer:
            for columns in chunks:
                arrays = [column(columns[each.name], each.type) for each in schema]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    def scenario(self, described: dict[str, Any]) -> None:
        (self._aside / "scenario.json").write_text(
            json.dumps(described, indent=2, sort_keys=True) + "\n"
        )

    def finish(self) -> None:
        """Flush and close `sends` and `notices`, which can then be read."""
        self.flush_sends()
        self.flush_notices()
        for writer in self._writers.values():
            writer.close()

    def sent(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Batches of `sends`, after `finish`."""
        return batches(self._aside, "sends", columns)

    def close(self) -> None:
        """Give the complete journal its name."""
        self._aside.rename(self.directory)

    def discard(self) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self._aside, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self._aside / f"{name}.parquet"

    def _writer(self, name: str) -> pq.ParquetWriter:
        # Integers rise slowly or repeat: delta encoding takes a third of the space and time of
        # dictionaries.
        schema = SCHEMAS[name]
        strings = [each.name for each in schema if pa.types.is_dictionary(each.type)]
        numbers = {
            each.name: "DELTA_BINARY_PACKED" for each in schema if pa.types.is_integer(each.type)
        }
        return pq.ParquetWriter(
            self._path(name),
            schema,
            compression="zstd",
            use_dictionary=strings,
            column_encoding=numbers,
        )

    def flush_sends(self) -> None:
        if self.sends:
            rows = np.frombuffer(b"".join(self.sends), SENDS_DTYPE)
            self._writers["sends"].write_batch(_sends_batch(rows, self.kinds, self._warm_up))
            self.sends.clear()

    def flush_notices(self) -> None:
        if self.notices:
            rows = np.frombuffer(b"".join(self.notices), _NOTICES_DTYPE)
            arrays = [column(rows[each.name], each.type) for each in SCHEMAS["notices"]]
            self._writers["notices"].write_batch(pa.record_batch(arrays, schema=SCHEMAS["notices"]))
            self.notices.clear()


def _sends_batch(rows: np.ndarray[Any, Any], kinds: list[str], warm_up: int) -> pa.RecordBatch:
    purpose = rows["purpose"].copy()
    purpose[(purpose >= 0) & (purpose < warm_up)] = -PHASES.index("warm-up")
    phase = np.where(purpose >= 0, 0, -purpose).astype(np.int16)
    made = {
        "arrived_us": column(rows["arrived_us"], pa.int64(), rows["arrived_us"] >= 0),
        "kind": named(rows["kind"], kinds),
        "phase": named(phase, PHASES),
        "cast": column(purpose, pa.int32(), purpose >= 0),
    }
    arrays = [
        made[each.name] if each.name in made else column(rows[each.name], each.type)
        for each in SCHEMAS["sends"]
    ]
    return pa.record_batch(arrays, schema=SCHEMAS["sends"])


def table_path(directory: Path, name: str) -> Path:
    """The file of a table; under its former name if only that exists."""
    path = directory / f"{name}.parquet"
    if name in FORMER_NAMES and not path.is_file():
        former = directory / f"{FORMER_NAMES[name]}.parquet"
        return former if former.is_file() else path
    return path


def read(directory: Path, name: str, columns: list[str] | None = None) -> pa.Table:
    """Read one table; `ScenarioError` if the directory is not a complete journal."""
    path = table_path(directory, name)
    if not path.is_file():
        raise ScenarioError(f"{directory} is not a journal: it has no {name}.parquet")
    with pq.ParquetFile(
        path
    ) as file:  # `read_table` would import Arrow's datasets and with them pandas
        return file.read(columns=columns)


def batches(directory: Path, name: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Read one table in batches."""
    with pq.ParquetFile(table_path(directory, name)) as file:
        yield from file.iter_batches(batch_size=CHUNK_ROWS, columns=columns)
