"""Workloads that are stated, not drawn: given as values, or read from a directory of Parquet
tables.

    registrations   peer int, tags list<string>; optional: values list<struct<attribute string,
                    value string>>, version int (the last one counts), withdrawn bool,
                    capacity double (the load that the peer can bear; 1)
    casts           cast int, publisher int, target string (read by `language/parse.py`, without
                    a schema)

Each is a file `NAME.parquet` or a folder `NAME/` of them. A journal has both tables, so the load of
one run can be applied to another. Values are texts that need no schema: a grid step `@17`, or
anything else for a string. An empty cell of an optional column is treated as if the column were
missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from implicast.language.errors import LanguageError, LocalError
from implicast.language.parse import parse
from implicast.language.tags import tag
from implicast.language.target import Description, Target, Value, read_scalar, scalar_text
from implicast.workload.base import DescriptionColumns, TargetColumns, Workload
from implicast.workload.draw import Numbers
from implicast.workload.knobs import WorkloadError

VALUES = pa.list_(pa.struct([("attribute", pa.string()), ("value", pa.string())]))
REGISTRATIONS = pa.schema(
    [
        ("peer", pa.int32()),
        ("tags", pa.list_(pa.string())),
        ("values", VALUES),
        ("capacity", pa.float64()),
    ]
)
CASTS = pa.schema([("cast", pa.int32()), ("publisher", pa.int32()), ("target", pa.string())])


@dataclass(frozen=True, kw_only=True)
class Stated(Workload):
    """Descriptions, targets and publishers as they are given; nothing is left to chance."""

    name: ClassVar[str] = "stated"
    summary: ClassVar[str] = "registrations and casts read from a directory of Parquet tables"

    given_descriptions: Sequence[Description] = field(repr=False)
    given_targets: Sequence[Target] = field(repr=False)
    given_publishers: Sequence[int] = field(repr=False)
    given_capacities: Sequence[float] = field(repr=False, default=())
    """Of each peer; 1 of those beyond."""

    def descriptions(self, first: int, last: int) -> DescriptionColumns:
        rows = [
            (peer, name)
            for peer in range(first, last)
            for name in self.given_descriptions[peer].tags
        ]
        return DescriptionColumns(
            _numbers([peer for peer, _ in rows]), self._coded([name for _, name in rows])
        )

    def targets(self, first: int, last: int) -> TargetColumns:
        rows = [
            (cast, number, name, name in term.lacks)
            for cast in range(first, last)
            for number, term in enumerate(self.given_targets[cast].terms)
            for name in term.has + term.lacks
        ]
        casts, terms, names, lacks = ([row[column] for row in rows] for column in range(4))
        return TargetColumns(
            _numbers(casts),
            _numbers(terms),
            self._coded([str(name) for name in names]),
            np.array(lacks, dtype=np.bool_),
        )

    def publishers(self, first: int, last: int) -> Numbers:
        return _numbers(self.given_publishers[first:last])

    def capacities(self, first: int, last: int) -> NDArray[np.float64]:
        given = self.given_capacities[first:last]
        return np.array([*given, *[1.0] * (last - first - len(given))], dtype=np.float64)

    def described(self, first: int = 0, last: int | None = None) -> list[Description]:
        return list(self.given_descriptions[first : self.peers if last is None else last])

    def targeted(self, first: int = 0, last: int | None = None) -> list[Target]:
        return list(self.given_targets[first : self.casts if last is None else last])

    def tag_names(self, tags: Numbers) -> list[str]:
        return [self._vocabulary[number] for number in tags.tolist()]

    @cached_property
    def _vocabulary(self) -> list[str]:
        held = {name for each in self.given_descriptions for name in each.tags}
        asked = {
            name
            for each in self.given_targets
            for term in each.terms
            for name in term.has + term.lacks
        }
        return sorted(held | asked)

    @cached_property
    def _codes(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self._vocabulary)}

    def _coded(self, names: Sequence[str]) -> Numbers:
        return _numbers([self._codes[name] for name in names])


def stated(
    descriptions: Sequence[Description],
    targets: Sequence[Target],
    publishers: Sequence[int],
    seed: int = 0,
    capacities: Sequence[float] = (),
) -> Stated:
    """A workload of these very registrations and casts; peer i has description i."""
    if len(targets) != len(publishers):
        raise WorkloadError(
            f"{len(targets)} targets need as many publishers, {len(publishers)} are given"
        )
    for cast, publisher in enumerate(publishers):
        if not 0 <= publisher < len(descriptions):
            raise WorkloadError(
                f"cast {cast} is published by peer {publisher}; peers are 0 to "
                f"{len(descriptions) - 1}"
            )
    return Stated(
        seed=seed,
        peers=len(descriptions),
        casts=len(targets),
        given_descriptions=tuple(descriptions),
        given_targets=tuple(targets),
        given_publishers=tuple(publishers),
        given_capacities=tuple(capacities),
    )


def read_stated(
    directory: Path, seed: int = 0, peers: int | None = None, casts: int | None = None
) -> Stated:
    """The workload of a directory: its first `peers` peers and `casts` casts, or all of them."""
    last = _last_registrations(directory)
    registered = {peer: _description(directory, row) for peer, row in last.items()}
    rows = _rows(directory, "casts", CASTS)
    _check_numbers(directory, "casts", "cast", sorted(row["cast"] for row in rows))
    rows.sort(key=lambda row: int(row["cast"]))
    known = max(registered, default=-1) + 1
    count = known if peers is None else peers
    if count > known or (casts or 0) > len(rows):
        raise WorkloadError(
            f"{directory} states {known} peers and {len(rows)} casts; {count} peers and "
            f"{casts or 0} casts are wanted"
        )
    used = rows[:casts]
    targets = [_target(directory, row) for row in used]
    publishers = [int(row["publisher"]) for row in used]
    capacities = [_capacity(directory, last.get(peer, {})) for peer in range(count)]
    described = [registered.get(peer, Description()) for peer in range(count)]
    return stated(described, targets, publishers, seed, capacities)


def write_stated(workload: Workload, directory: Path) -> None:
    """The two tables of any workload, for `read_stated`, for Spark, or for other systems."""
    directory.mkdir(parents=True, exist_ok=True)
    capacities = workload.capacities(0, workload.peers).tolist()
    registrations = [
        {
            "peer": peer,
            "tags": list(each.tags),
            "values": [
                {"attribute": value.attribute, "value": scalar_text(value.value)}
                for value in each.values
            ],
            "capacity": capacity,
        }
        for peer, (each, capacity) in enumerate(zip(workload.described(), capacities, strict=True))
    ]
    publishers = workload.publishers(0, workload.casts).tolist()
    casts = [
        {"cast": cast, "publisher": publishers[cast], "target": str(target)}
        for cast, target in enumerate(workload.targeted())
    ]
    pq.write_table(
        pa.Table.from_pylist(registrations, REGISTRATIONS), directory / "registrations.parquet"
    )
    pq.write_table(pa.Table.from_pylist(casts, CASTS), directory / "casts.parquet")


Row = dict[str, Any]


def _last_registrations(directory: Path) -> dict[int, Row]:
    """By peer; of several versions the last."""
    rows = _rows(directory, "registrations", REGISTRATIONS, optional=("values", "capacity"))
    rows.sort(key=lambda row: (int(row["peer"]), row.get("version") or 0))
    versioned = all("version" in row for row in rows)
    if not versioned:
        _check_numbers(directory, "registrations", "peer", [row["peer"] for row in rows], gaps=True)
    return {int(row["peer"]): row for row in rows}


def _capacity(directory: Path, row: Row) -> float:
    given = row.get("capacity")
    capacity = 1.0 if given is None else float(given)
    if not 0 < capacity < float("inf"):
        raise WorkloadError(
            f"{directory}: registrations, peer {row['peer']}: a capacity of {capacity} cannot be "
            "borne;"
            " it is a number above 0"
        )
    return capacity


def _description(directory: Path, row: Row) -> Description:
    if row.get("withdrawn"):
        return Description()
    try:
        tags = tuple(sorted({tag(each) for each in row["tags"] or ()}))
        values = [
            Value(tag(each["attribute"]), read_scalar(each["value"]))
            for each in row.get("values") or ()
        ]
    except LanguageError as error:
        raise WorkloadError(f"{directory}: registrations, peer {row['peer']}: {error}") from None
    return Description(tags, tuple(sorted(values, key=lambda value: value.attribute)))


def _target(directory: Path, row: Row) -> Target:
    try:
        return parse(row["target"])
    except LanguageError as error:
        raise WorkloadError(f"{directory}: casts, cast {row['cast']}: {error}") from None


def _rows(directory: Path, name: str, schema: pa.Schema, optional: Sequence[str] = ()) -> list[Row]:
    """All rows of one table, with the columns it must have and no empty cell in them."""
    path = directory / f"{name}.parquet"
    path = path if path.exists() else directory / name
    if not path.exists():
        raise WorkloadError(
            f"{directory} is no workload: it has neither {name}.parquet nor a folder {name}"
        )
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise WorkloadError(
            f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}"
        ) from None
    for column in schema:
        if column.name in table.column_names:
            table = _cast(table, column, path, column.name in optional)
        elif column.name not in optional:
            raise WorkloadError(
                f"{path} has no column {column.name!r}; it has "
                f"{', '.join(table.column_names) or 'none'}"
            )
    rows: list[Row] = table.to_pylist()
    return rows


def _cast(table: pa.Table, column: pa.Field, path: Path, optional: bool) -> pa.Table:
    position = table.column_names.index(column.name)
    if table.column(position).null_count and not optional and not pa.types.is_list(column.type):
        raise WorkloadError(f"{path}: the column {column.name!r} has empty cells")
    try:
        return table.set_column(position, column.name, table.column(position).cast(column.type))
    except (pa.ArrowException, LocalError) as error:
        raise WorkloadError(
            f"{path}: the column {column.name!r} is not {column.type}: {error}"
        ) from None


def _check_numbers(
    directory: Path, table: str, column: str, numbers: Sequence[int], gaps: bool = False
) -> None:
    """Sorted numbers from 0, each once, and without gaps unless they are allowed."""
    for position, number in enumerate(numbers):
        repeated = position > 0 and numbers[position - 1] == number
        if repeated or number < 0 or (number != position and not gaps):
            raise WorkloadError(
                f"{directory}: {table} must number its {column}s from 0, each once; {number} is"
                f" {'there twice' if repeated else 'out of place'}"
            )


def _numbers(values: Sequence[Any]) -> Numbers:
    return np.array(values, dtype=np.int64)
