"""The tables of a sweep's folder: one Parquet file for each table and experiment, replaced in one
step.

A table that grows is read, extended and written anew: rows are few (one for each run; some hundreds
for its curves), and a data set of one file is what every reader is quickest with. Who reads
meanwhile sees the old file or the new.
"""

import io
import math

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from implicast.lab import tables
from implicast.lab.dictionary import LAB
from implicast.lab.errors import TableError
from implicast.lab.folder import Folder
from implicast.lab.storage import Location
from implicast.world.columns import with_meaning

SCHEMAS: dict[str, pa.Schema] = {
    "runs": tables.RUNS,
    "measures": tables.RUN_MEASURES,
    "contract": tables.RUN_CONTRACT,
    "costs": tables.RUN_COSTS,
    "lorenz": tables.RUN_LORENZ,
    "change": tables.RUN_CHANGE,
    "trials": tables.RUN_TRIALS,
    "summary": tables.SUMMARY,
    "rejected": tables.REJECTED,
}
MEASURED = ("measures", "contract", "costs", "lorenz", "change", "trials")
"""Tables with rows of single runs that are computed once."""
LEVEL = 3
"""Of zstd: what its makers use."""


def described(name: str) -> pa.Schema:
    """A table's schema, each column with its unit and meaning."""
    return pa.schema([with_meaning(each, *LAB[name][each.name]) for each in SCHEMAS[name]])


def has(folder: Folder, name: str) -> bool:
    return _file(folder, name).is_file()


def load(folder: Folder, name: str) -> pa.Table:
    """The table as it is; empty when there is none. Columns that it does not have yet are null."""
    if not has(folder, name):
        return described(name).empty_table()
    found = _with_label(pq.read_table(io.BytesIO(_file(folder, name).read())))
    absent = [each for each in SCHEMAS[name] if each.name not in found.column_names]
    for each in absent:
        found = found.append_column(each.name, pa.nulls(len(found), each.type))
    return found.select(SCHEMAS[name].names).cast(described(name))


def _with_label(found: pa.Table) -> pa.Table:
    """A table in which the point is a text, as version 0.1 wrote it, gets it as a number too."""
    place = found.schema.get_field_index("point")
    if place < 0 or not pa.types.is_string(found.schema.field(place).type):
        return found
    labels = found["point"]
    numbers = pa.array([number(each) for each in labels.to_pylist()], pa.float64())
    return found.set_column(place, "point", numbers).append_column("point_label", labels)


def number(text: str) -> float | None:
    """A text as a number, where it is one that can be drawn."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def required(folder: Folder, name: str) -> pa.Table:
    if not has(folder, name):
        raise TableError(f"{folder.place} has no table {name}; run the experiment first")
    return load(folder, name)


def store(folder: Folder, name: str, table: pa.Table) -> None:
    """In place of what was there, in one step."""
    held = io.BytesIO()
    made = table.select(SCHEMAS[name].names).cast(described(name))
    pq.write_table(made, held, compression="zstd", compression_level=LEVEL)
    _file(folder, name).write(held.getvalue())


def extend(folder: Folder, name: str, rows: pa.Table) -> None:
    """Add rows of runs; those of a run that was there already give way."""
    there = load(folder, name)
    old = there.filter(pc.invert(pc.is_in(there["run"], value_set=pc.unique(rows["run"]))))
    store(
        folder,
        name,
        pa.concat_tables([old, rows.select(SCHEMAS[name].names).cast(described(name))]).sort_by(
            "run"
        ),
    )


def runs_in(folder: Folder, name: str) -> set[str]:
    return set(load(folder, name)["run"].to_pylist())


def _file(folder: Folder, name: str) -> Location:
    return folder.place / name / f"experiment={folder.experiment}" / "part-0.parquet"
