"""Tables of a lake in Delta's format, by delta-rs: transactions on any place that `Location` names,
without a Java process.

A file becomes part of a table by a commit that names it, and a commit is all or nothing, on a disk
by a hard link and on S3 by a conditional write. A commit may carry a transaction of its writer (a
name and a number); two writers with one name cannot both commit from the same state. So a writer
that was interrupted knows what it had committed, and of two that do the same work one fails.
"""

import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from implicast.lab.errors import LakeConflict
from implicast.lab.storage import Location
from implicast.lab.tables import plain

PARTITIONED_BY = ["experiment", "run"]
"""As the tables of a sweep's folder: one query fits both."""
KEEP_HOURS = 168
"""Files that compaction replaced are kept so long for readers that are behind."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that is written and not part of its table yet."""

    table: str
    path: str
    """Within the table's folder."""
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction did to a table."""

    table: str
    before: int
    after: int
    removed: int
    """Files deleted, of earlier compactions and of writers that were killed."""


class LakeTable:
    """One Delta table: `LAKE/NAME/experiment=E/run=R/*.parquet` and its log."""

    def __init__(self, lake: Location, name: str, schema: pa.Schema) -> None:
        self.name, self.place = name, lake / name
        self.body = plain(schema)
        keys = [pa.field(each, pa.string()) for each in PARTITIONED_BY]
        self.schema = pa.schema([*keys, *self.body])

    # --- reading

    def opened(self) -> DeltaTable | None:
        """The table as it is now; None before the first commit."""
        try:
            return DeltaTable(table_url(self.place), storage_options=storage_options(self.place))
        except TableNotFoundError:
            return None

    def version(self) -> int:
        table = self.opened()
        return -1 if table is None else int(table.version())

    def dataset(self) -> ds.Dataset:
        """All rows, to be filtered and read piece by piece."""
        table = self.opened()
        if table is None:
            return ds.dataset(self.schema.empty_table())
        return table.to_pyarrow_dataset(schema=self.schema)

    def read(self, run: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a run."""
        wanted = list(columns or self.body.names)
        return self.dataset().to_table(columns=wanted, filter=ds.field("run") == run)

    def batches(self, run: str) -> Iterator[pa.RecordBatch]:
        """The rows of a run in the columns of the table, never all at once."""
        rows = self.dataset().scanner(columns=self.body.names, filter=ds.field("run") == run)
        yield from rows.to_batches()

    def files(self) -> list[str]:
        """Paths of the files that the table consists of now, within its folder."""
        table = self.opened()
        return [] if table is None else sorted(_paths(table))

    def committed(self, writer: str) -> int:
        """The last transaction of a writer; 0: none."""
        table = self.opened()
        return 0 if table is None else int(table.transaction_version(writer) or 0)

    # --- writing

    def stage(self, experiment: str, run: str, name: str, rows: pa.Table) -> StagedFile:
        """Write a data file. It is invisible until a commit names it."""
        path = f"experiment={experiment}/run={run}/{name}.parquet"
        held = io.BytesIO()
        pq.write_table(rows.select(self.body.names).cast(self.body), held, compression="zstd")
        content = held.getvalue()
        (self.place / path).write(content)
        return StagedFile(self.name, path, len(content), len(rows))

    def commit(self, files: Sequence[StagedFile], writer: str, number: int) -> bool:
        """Add the files as transaction `number` of the writer; False when that was done before.
        `LakeConflict` when another one with this name committed at the same time.
        """
        table = self.opened() or self._created()
        if int(table.transaction_version(writer) or 0) >= number:
            return False
        added: list[AddAction | RemoveAction] = [_add(each) for each in files]
        try:
            table.create_write_transaction(
                added,
                "append",
                Schema.from_arrow(self.schema),
                PARTITIONED_BY,
                commit_properties=CommitProperties(app_transactions=[Transaction(writer, number)]),
                post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
            )
        except CommitFailedError as lost:
            raise LakeConflict(f"{self.place}: another process committed first ({lost})") from None
        return True

    def compact(self, keep_hours: int = KEEP_HOURS) -> Compacted:
        """Join small files, run by run, and delete what no reader needs any more."""
        table = self.opened()
        if table is None:
            return Compacted(self.name, 0, 0, 0)
        before = len(_paths(table))
        table.optimize.compact()
        removed = table.vacuum(
            retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        table.create_checkpoint()
        return Compacted(self.name, before, len(_paths(table)), len(removed))

    def _created(self) -> DeltaTable:
        return DeltaTable.create(
            table_url(self.place),
            schema=Schema.from_arrow(self.schema),
            mode="ignore",
            partition_by=PARTITIONED_BY,
            storage_options=storage_options(self.place),
        )


def _add(file: StagedFile) -> AddAction:
    keys = dict(part.split("=", 1) for part in file.path.split("/")[:-1])
    now_ms = int(time.time() * 1000)
    return AddAction(
        file.path, file.size, keys, now_ms, True, json.dumps({"numRecords": file.rows})
    )


def _paths(table: DeltaTable) -> list[str]:
    found: list[str] = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return found


def table_url(place: Location) -> str:
    """As delta-rs knows the place."""
    return place.url if place.local is not None else str(place)


def storage_options(place: Location) -> dict[str, str]:
    """For S3 beside the environment of AWS: keys and endpoint that the URL names. An endpoint may be
    one without TLS.
    """
    if not place.url.startswith("s3://"):
        return {}
    asked = {name: values[0] for name, values in parse_qs(urlsplit(place.url).query).items()}
    endpoint = asked.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL", "")
    parts, options = urlsplit(place.url), dict[str, str]()
    if parts.username and parts.password:
        options["AWS_ACCESS_KEY_ID"] = unquote(parts.username)
        options["AWS_SECRET_ACCESS_KEY"] = unquote(parts.password)
    if endpoint:
        scheme = "" if "://" in endpoint else f"{asked.get('scheme', 'https')}://"
        options["AWS_ENDPOINT_URL"] = f"{scheme}{endpoint}"
        options["AWS_ALLOW_HTTP"] = str(options["AWS_ENDPOINT_URL"].startswith("http://")).lower()
    if "region" in asked:
        options["AWS_REGION"] = asked["region"]
    return options


def commits(place: Location, start: int, end: int) -> Iterator[list[dict[str, Any]]]:
    """The actions of the commits after version `start` up to `end`, as Delta's log has them."""
    for version in range(start + 1, end + 1):
        text = (place / "_delta_log" / f"{version:020d}.json").read().decode()
        yield [json.loads(line) for line in text.splitlines() if line]
