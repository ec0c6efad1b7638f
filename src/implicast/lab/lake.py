"""A lake of live journals: what nodes saw, in the world's columns, growing piece by piece.

    LAKE/stream/TABLE/design=D/run=R/part-N.parquet    what was gathered, a file each time; read by `lab stream`
    LAKE/run=R/TABLE.parquet                           the same, whole, as a simulation writes it; read by `lab measure`
    LAKE/gathered/R.json                               which numbers stand for which names

A part is written aside and renamed: a stream never meets half a file. A cast's part is there before
any part that names it.
"""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from implicast.lab.errors import TableError
from implicast.lab.storage import Location
from implicast.world.journal import SCHEMAS

RECEIPTS = pa.schema(
    [
        ("cast", pa.int32()),
        ("time_us", pa.int64()),
        ("settled_us", pa.int64()),
        ("notified", pa.int64()),
        ("declined", pa.int64()),
        ("unreachable", pa.int64()),
        ("uncertain", pa.int64()),
    ]
)
CASTS = pa.schema(
    [SCHEMAS["casts"].field(name) for name in ("cast", "publisher", "time_us", "target")]
)
PEERS = pa.schema([("peer", pa.int32()), ("role", pa.string()), ("time_us", pa.int64())])
STREAMED: dict[str, pa.Schema] = {
    "peers": PEERS,
    "casts": CASTS,
    "receipts": RECEIPTS,
    "sends": SCHEMAS["sends"],
    "notices": SCHEMAS["notices"],
}
"""Tables of the stream, in the order in which their parts are written."""
Rows = list[dict[str, Any]]


class Lake:
    """One run in a lake."""

    def __init__(self, lake: Path, run: str, design: str) -> None:
        self.lake, self.run, self.design = lake, run, design
        self._parts = 1 + max(
            (int(each.stem.removeprefix("part-")) for each in self._files()), default=0
        )

    def folder(self, table: str) -> Path:
        return self.lake / "stream" / table / f"design={self.design}" / f"run={self.run}"

    def _files(self) -> list[Path]:
        return sorted(
            each for table in STREAMED for each in self.folder(table).glob("part-*.parquet")
        )

    # --- parts

    def add(self, tables: dict[str, Rows]) -> None:
        """A part of each table that has rows."""
        for name, schema in STREAMED.items():
            if tables.get(name):
                self._write(
                    self.folder(name) / f"part-{self._parts:08d}.parquet", tables[name], schema
                )
        self._parts += 1

    def gathered(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """All parts of a table so far."""
        files = sorted(self.folder(table).glob("part-*.parquet"))
        if not files:
            return STREAMED[table].empty_table().select(columns or STREAMED[table].names)
        return ds.dataset(files, schema=STREAMED[table]).to_table(columns=columns)

    # --- numbers

    def numbers(self) -> dict[str, dict[str, int]]:
        path = self._numbers
        return json.loads(path.read_text()) if path.is_file() else {}

    def keep_numbers(self, numbers: dict[str, dict[str, int]]) -> None:
        Location(str(self._numbers.absolute())).write(json.dumps(numbers).encode())

    @property
    def _numbers(self) -> Path:
        return self.lake / "gathered" / f"{self.run}.json"

    # --- the whole journal

    def write_whole(self, small: dict[str, Rows], scenario: dict[str, Any]) -> Path:
        """The journal of the run, as the world writes one; it takes the place of the one before."""
        folder = self.lake / f"run={self.run}"
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("sends", "notices"):
            self._put(folder / f"{name}.parquet", self.gathered(name))
        self._put(folder / "casts.parquet", self._casts())
        for name in ("registrations", "peers", "links", "paths"):
            self._write(folder / f"{name}.parquet", small.get(name, []), SCHEMAS[name])
        Location(str((folder / "scenario.json").absolute())).write(
            json.dumps(scenario, indent=2, sort_keys=True).encode()
        )
        return folder

    def _casts(self) -> pa.Table:
        """Casts with what their publishers were told last."""
        told = {
            row["cast"]: row for row in self.gathered("receipts").sort_by("settled_us").to_pylist()
        }
        empty = dict.fromkeys(("settled_us", "notified", "declined", "unreachable", "uncertain"))
        made = self.gathered("casts").to_pylist()
        rows = [{**empty, **told.get(row["cast"], {}), **row, "warm_up": False} for row in made]
        return pa.Table.from_pylist(
            sorted(rows, key=lambda row: int(row["cast"])), schema=SCHEMAS["casts"]
        )

    def _write(self, path: Path, rows: Rows, schema: pa.Schema) -> None:
        self._put(path, pa.Table.from_pylist(rows, schema=schema))

    def _put(self, path: Path, table: pa.Table) -> None:
        held = io.BytesIO()
        pq.write_table(table, held, compression="zstd")
        Location(str(path.absolute())).write(held.getvalue())


def check_run(name: str) -> str:
    """A run's name is part of paths."""
    if (
        not name
        or not all(each.isalnum() or each in "-_." for each in name)
        or name.startswith(".")
    ):
        raise TableError(
            f"{name!r} is no name for a run: letters, digits, dots, dashes and underscores make one"
        )
    return name
