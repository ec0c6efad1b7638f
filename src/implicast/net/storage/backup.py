"""Backups of a node's folder: one file with a consistent copy of the database, the configuration,
the keys and the complete payloads. And salvage: a new database from what a damaged one still holds.

A backup is a tar archive with mode 0600. `backup.json` in it holds the number and the time of the
last commit. The node may run while the backup is made: the copy contains all that was committed
before it began.
"""

import contextlib
import io
import json
import sqlite3
import tarfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from implicast.net.storage.files import (
    Lock,
    make_private_folder,
    open_private,
    tighten,
    touch_private,
)
from implicast.net.storage.head import Head, head_of
from implicast.net.storage.loss import Loss, commit_row, last_commit, record
from implicast.net.storage.schema import COLUMNS, SCHEMA, VERSION, connect
from implicast.peer.errors import LocalError

DATABASE, ABOUT = "node.db", "backup.json"
FILES = ("node.toml", "node.key", "node.pem", "authority.pem", "enrolment", "places.secret")
"""Files of a node's folder that a backup contains, besides the database and `blobs`."""
REPLACED = ("-wal", "-shm")
"""Ends of the names of the files that SQLite keeps beside a database."""


class BackupError(LocalError):
    """The backup cannot be made or used; the text says why."""


def back_up(folder: Path, file: Path) -> dict[str, Any]:
    """Write a backup of a node's folder, and return what `backup.json` in it says."""
    if not (folder / DATABASE).exists():
        raise BackupError(f"{folder} is not a node's folder: it has no {DATABASE}")
    aside, copy = file.with_name(file.name + ".new"), file.with_name(file.name + ".db")
    try:
        about = _copy_database(folder / DATABASE, copy)
        with open_private(aside) as out, tarfile.open(fileobj=out, mode="w") as archive:
            _add(archive, ABOUT, json.dumps(about, indent=2).encode())
            archive.add(copy, DATABASE)
            for path in [*map(folder.joinpath, FILES), *_payloads(folder)]:
                if path.exists():
                    archive.add(path, str(path.relative_to(folder)))
        aside.replace(file)
    except (OSError, sqlite3.Error) as error:
        raise BackupError(f"{folder} cannot be backed up to {file}: {error}") from None
    finally:
        copy.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)
    return about


def _payloads(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.glob("blobs/*")) if each.suffix in ("", ".leaves")]


def _copy_database(path: Path, copy: Path) -> dict[str, Any]:
    """Copy a database in one transaction. Raises `BackupError` if it is damaged."""
    copy.unlink(missing_ok=True)
    touch_private(copy)
    with contextlib.closing(connect(path)) as source, contextlib.closing(connect(copy)) as target:
        source.backup(target)
        (found,) = target.execute("pragma integrity_check(1)").fetchone()
        if found != "ok":
            raise BackupError(f"{path} is damaged ({found}): no backup was made")
        target.execute("pragma journal_mode=delete")
        number, time_us = last_commit(target)
        (notices,) = target.execute("select count(*) from notices").fetchone()
    return {"commit": number, "time_us": time_us, "notices": notices, "schema": VERSION}


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
    archive.addfile(info, io.BytesIO(data))


def restore(file: Path, folder: Path, replace: bool) -> dict[str, Any]:
    """Write the files of a backup into a folder. With `replace`, a database that is there is moved
    aside. Records in the database that casts since the backup may be missing.
    """
    database = folder / DATABASE
    if database.exists() and not replace:
        raise BackupError(
            f"{folder} has a database: add --replace to move it aside, or name another folder"
        )
    try:
        with tarfile.open(file) as archive:
            names = archive.getnames()
            if ABOUT not in names or DATABASE not in names:
                raise BackupError(f"{file} is not a backup of a node")
            make_private_folder(folder)
            with _locked(database):
                set_database_aside(database)
                archive.extractall(folder, [each for each in archive if _is_ours(each)])
                about: dict[str, Any] = json.loads((folder / ABOUT).read_bytes())
                (folder / ABOUT).unlink()
                tighten(folder)
                _record_restore(database, about)
    except (OSError, tarfile.TarError, ValueError, sqlite3.Error) as error:
        raise BackupError(f"{file} cannot be restored: {error}") from None
    return about


def _is_ours(member: tarfile.TarInfo) -> bool:
    """True for the files that `back_up` writes. Anything else in an archive is not extracted."""
    parts = Path(member.name).parts
    known = parts[-1:] and (parts[-1] in (*FILES, ABOUT, DATABASE) or parts[:1] == ("blobs",))
    return member.isfile() and bool(known) and len(parts) <= 2 and ".." not in parts


@contextlib.contextmanager
def _locked(database: Path) -> Any:
    """Exclude a running node while the files change."""
    try:
        lock = Lock(database)
    except TimeoutError:
        raise BackupError(f"{database.parent} is in use by a running node: stop it first") from None
    try:
        yield
    finally:
        lock.release()


def set_database_aside(database: Path) -> Path | None:
    """Rename a database and the files beside it. Returns its new name."""
    if not database.exists():
        return None
    number = 1
    while (aside := database.with_name(f"{database.name}.old{number}")).exists():
        number += 1
    for end in ("", *REPLACED):
        path = database.with_name(database.name + end)
        if path.exists():
            path.rename(aside.with_name(aside.name + end))
    return aside


def _record_restore(database: Path, about: dict[str, Any]) -> None:
    since_us = int(about["time_us"])
    when = datetime.fromtimestamp(since_us / 1e6, UTC)
    what = f"restored from a backup of {when:%Y-%m-%d %H:%M:%S} UTC"
    _continue_with_loss(database, Loss(time.time_ns() // 1000, since_us, what))


def _continue_with_loss(database: Path, loss: Loss) -> None:
    """Record a loss in a database, and make the head file agree with the database."""
    with contextlib.closing(connect(database)) as db:
        record(db, [loss])
        number, now_us = last_commit(db)[0] + 1, time.time_ns() // 1000
        db.execute("insert or replace into meta values (?, ?)", commit_row(number, now_us))
    head = Head(head_of(database))
    head.reset(number, now_us)
    head.close()


def salvage(folder: Path) -> dict[str, int]:
    """Replace a damaged database by a new one with all rows that can be read and whose digests are
    right. The damaged one is moved aside. Returns the number of rows kept by table.
    """
    database = folder / DATABASE
    try:
        with _locked(database):
            aside = set_database_aside(database)
            if aside is None:
                raise BackupError(f"{folder} has no {DATABASE}")
            touch_private(database)
            with contextlib.closing(connect(database)) as db:
                db.executescript(f"begin; {SCHEMA} pragma user_version={VERSION}; commit;")
                kept = {table: _keep_rows(aside, db, table) for table in COLUMNS}
            now_us = time.time_ns() // 1000
            what = f"the damaged database was replaced; {sum(kept.values())} rows were kept"
            since_us = now_us - 86_400_000_000
            _continue_with_loss(database, Loss(now_us, since_us, what))
    except (OSError, sqlite3.Error) as error:
        raise BackupError(f"{database} cannot be salvaged: {error}") from None
    return kept


def _keep_rows(damaged: Path, db: sqlite3.Connection, table: str) -> int:
    """Copy the readable rows of a table, from both of its ends up to the damaged page."""
    columns = COLUMNS[table]
    names = ", ".join(columns)
    covered = ", ".join(each for each in columns if (table, each) != ("kept_rows", "number"))
    into = f"insert or ignore into {table} ({names}) values ({', '.join('?' * len(columns))})"
    db.execute("begin")
    for order in ("asc", "desc"):
        with (
            contextlib.suppress(sqlite3.DatabaseError),
            contextlib.closing(connect(damaged)) as source,
        ):
            for row in source.execute(
                f"select {names} from {table} where digest is row_digest({covered}) "
                f"order by {columns[0]} {order}"
            ):
                db.execute(into, row)
    db.execute("commit")
    count: int = db.execute(f"select count(*) from {table}").fetchone()[0]
    return count
