"""A lake of live journals: what nodes saw, in the world's columns, as Delta tables that grow.

    LAKE/TABLE/experiment=NETWORK/run=R/*.parquet   sends, notices, casts, receipts, peers
    LAKE/names/...                                  which numbers stand for which names
    LAKE/steps/...                                  one row for each step of gathering
    LAKE/_gather/R/                                 the gatherer's state after the newest steps
    LAKE/run=R/TABLE.parquet                        the whole journal of a run, read by `lab measure`

**A step is a transaction over all tables.** A gatherer writes its data files and its state, which
no reader sees, and then commits one row to `steps` that names them all. Of two gatherers only one
can commit a step number; the other drops its files and goes on from the state of the first. Then
the files are added to each table as a transaction with the step's number, which happens once
however often it is tried. Any gatherer that opens the lake first does this for the newest step, so
that a gatherer may be killed at any moment.

Compaction joins small files and changes no row. A stream reads what steps added and never what
compaction did.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from implicast.lab.delta import KEEP_HOURS, Compacted, LakeTable, StagedFile
from implicast.lab.errors import LakeConflict, TableError
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
"""Tables of the stream, in the order in which a step is added to them: casts before what names
them.
"""
NAMES = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("number", pa.int64()),
        ("time_us", pa.int64()),
        ("target", pa.string()),
        ("digest", pa.binary()),
    ]
)
"""A name and its number, once. `kind`: peer, incarnation, continues, cast, made (what was cast)
or receipt.
"""
STEPS = pa.schema([("step", pa.int64()), ("design", pa.string()), ("record", pa.string())])
TABLES = {**STREAMED, "names": NAMES}
TRIES_MAX = 20
"""Another gatherer may be adding the same step at the same moment."""
Rows = list[dict[str, Any]]


class Lake:
    """One run in a lake."""

    def __init__(self, place: Any, run: str, design: str, experiment: str = "live") -> None:
        self.place, self.run, self.design = Location.of(place), check_run(run), design
        self.experiment = check_run(experiment)
        self.tables = {name: LakeTable(self.place, name, schema) for name, schema in TABLES.items()}
        self._steps = LakeTable(self.place, "steps", STEPS)
        self._writer = f"gather {run}"

    # --- steps

    def head(self) -> tuple[int, bytes]:
        """The number of the newest step and the gatherer's state after it, the step being in all
        tables; (0, b"") before the first.
        """
        for _ in range(TRIES_MAX):
            number = self._steps.committed(self._writer)
            if not number:
                return 0, b""
            record = self._record(number)
            self._apply(record)
            with suppress(FileNotFoundError, OSError):
                return number, self._state(record["state"]).read()
        raise LakeConflict(f"{self.place}: others commit faster than this process can read")

    def is_at(self, step: int) -> bool:
        """Is this the newest step still?"""
        return self._steps.committed(self._writer) == step

    def commit(self, step: int, tables: Mapping[str, Rows], state: bytes = b"") -> None:
        """Add rows to all tables and replace the gatherer's state, all or nothing. `LakeConflict`
        when another gatherer committed this step; then nothing of this one is left.
        """
        token = f"{step:08d}-{os.urandom(4).hex()}"
        kept = self._state(f"{token}.state")
        files = [
            self.tables[name].stage(
                self.experiment, self.run, f"step-{token}", _table(rows, TABLES[name])
            )
            for name, rows in tables.items()
            if rows
        ]
        kept.write(state)
        record = {"step": step, "files": [asdict(each) for each in files], "state": kept.name}
        row = {"step": step, "design": self.design, "record": json.dumps(record)}
        try:
            self._begin(step, token, row)
        except LakeConflict:
            for each in files:
                (self.place / each.table / each.path).remove()
            kept.remove()
            raise
        self._apply(record)
        self._forget_states(step)

    def add(self, tables: Mapping[str, Rows]) -> None:
        """Add rows as the next step, for a lake that is filled by other means than a gatherer."""
        self.commit(self.head()[0] + 1, tables)

    def _begin(self, step: int, token: str, row: dict[str, Any]) -> None:
        """The commit that decides who made this step."""
        if self._steps.committed(self._writer) >= step:
            raise LakeConflict(f"step {step} of {self.run} was made by another gatherer")
        file = self._steps.stage(self.experiment, self.run, f"step-{token}", _table([row], STEPS))
        try:
            added = self._steps.commit([file], self._writer, step)
        except LakeConflict:
            added = False
        if not added:
            (self._steps.place / file.path).remove()
            raise LakeConflict(f"step {step} of {self.run} was made by another gatherer")

    def _record(self, step: int) -> dict[str, Any]:
        mine = (ds.field("run") == self.run) & (ds.field("step") == step)
        rows = self._steps.dataset().to_table(columns=["record"], filter=mine)
        found: dict[str, Any] = json.loads(rows["record"][0].as_py())
        return found

    def _apply(self, record: Mapping[str, Any]) -> None:
        """The files of a step are in their tables."""
        files = [StagedFile(**each) for each in record["files"]]
        for name, table in self.tables.items():
            mine = [each for each in files if each.table == name]
            if mine:
                self._add(table, mine, int(record["step"]))

    def _add(self, table: LakeTable, files: Sequence[StagedFile], step: int) -> None:
        for _ in range(TRIES_MAX):
            with suppress(LakeConflict):
                table.commit(files, self._writer, step)
                return
        raise LakeConflict(f"{table.place}: others commit faster than this process can add")

    def _state(self, name: str) -> Location:
        return self.place / "_gather" / self.run / name

    def _forget_states(self, step: int) -> None:
        """States before the last but one: a reader may be between the step and its state."""
        folder = self.place / "_gather" / self.run
        for name in folder.names():
            if name[:8].isdecimal() and int(name[:8]) < step - 1:
                with suppress(OSError):
                    (folder / name).remove()

    # --- reading

    def gathered(self, table: str, columns: list[str] | None = None) -> pa.Table:
        """All rows of a table so far."""
        return self.tables[table].read(self.run, columns)


def runs_in(place: Location) -> dict[str, str]:
    """Run -> design, of all runs of a lake."""
    rows = LakeTable(place, "steps", STEPS).dataset().to_table(columns=["run", "design"])
    return dict(zip(rows["run"].to_pylist(), rows["design"].to_pylist(), strict=True))


def is_lake(place: Location) -> bool:
    return bool((place / "steps" / "_delta_log").names())


def compact(place: Location, keep_hours: int = KEEP_HOURS) -> list[Compacted]:
    """Join the small files of all tables of a lake."""
    if not is_lake(place):
        raise TableError(f"{place} is not a lake: `implicast journal` makes one")
    tables = {**TABLES, "steps": STEPS}
    return [LakeTable(place, name, schema).compact(keep_hours) for name, schema in tables.items()]


def _table(rows: Rows, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


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
