"""Notices what a database has lost: commits that the head file knows of, and rows that were altered.

A loss is recorded in the database until the operator acknowledges it (`implicast doctor
--acknowledge`), and the node asks other nodes for the casts since then (`application/redelivery.py`).
"""

import logging
import sqlite3
import time

import msgspec

from implicast.net.storage.head import Head
from implicast.net.storage.schema import COLUMNS, KEYS

log = logging.getLogger("implicast")

COMMITS_KEY, LOSSES_KEY = "commits", "losses"
LOSSES_MAX = 32
"""Losses that are recorded. The oldest is dropped."""
DAY_US = 86_400_000_000


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """One loss that was noticed."""

    noticed_us: int
    since_us: int
    """Data committed after this time may be missing."""
    what: str


def last_commit(db: sqlite3.Connection) -> tuple[int, int]:
    """Number and time of the last commit in a database; zeros if it has none."""
    row = db.execute("select value from meta where key = ?", (COMMITS_KEY,)).fetchone()
    if row is None:
        return 0, 0
    number, time_us = msgspec.msgpack.decode(row[0], type=tuple[int, int])
    return number, time_us


def commit_row(number: int, time_us: int) -> tuple[str, bytes]:
    """The row of `meta` that numbers a commit."""
    return COMMITS_KEY, msgspec.msgpack.encode((number, time_us))


def losses(db: sqlite3.Connection) -> list[Loss]:
    row = db.execute("select value from meta where key = ?", (LOSSES_KEY,)).fetchone()
    return [] if row is None else msgspec.msgpack.decode(row[0], type=list[Loss])


def record(db: sqlite3.Connection, found: list[Loss]) -> None:
    """Record losses beside those that are not acknowledged."""
    kept = [*losses(db), *found][-LOSSES_MAX:]
    row = (LOSSES_KEY, msgspec.msgpack.encode(kept))
    db.execute("insert or replace into meta values (?, ?)", row)


def acknowledge(db: sqlite3.Connection) -> int:
    """Delete the recorded losses. Returns how many there were."""
    count = len(losses(db))
    db.execute("delete from meta where key = ?", (LOSSES_KEY,))
    return count


def notice_losses(db: sqlite3.Connection, head: Head) -> list[Loss]:
    """Compare a database with its head file and its rows with their digests. Records what is
    missing, sets altered rows aside, and logs a warning for each. Returns the new losses.
    """
    now_us = time.time_ns() // 1000
    altered = set_aside(db, now_us)
    number, time_us = last_commit(db)
    found = [
        Loss(now_us, now_us - DAY_US, f"{count} altered rows in table {table} were set aside")
        for table, count in altered.items()
    ]
    if head.number > number:
        lost = head.number - number
        found.append(Loss(now_us, time_us, f"the database has lost its last {lost} commits"))
    elif number and not head.existed:
        found.append(Loss(now_us, now_us, "node.head is missing: a loss cannot be excluded"))
    elif head.damaged and head.number:
        found.append(Loss(now_us, now_us, "node.head is damaged: a loss cannot be excluded"))
    for each in found:
        log.warning("%s", each.what)
    if found:
        record(db, found)
    return found


def altered_rows(db: sqlite3.Connection) -> dict[str, int]:
    """The number of rows whose digest is wrong, by table."""
    counts = {table: len(db.execute(_altered("1", table)).fetchall()) for table in COLUMNS}
    return {table: count for table, count in counts.items() if count}


def _altered(what: str, table: str) -> str:
    """A query for the rows of a table whose digest is wrong."""
    names = [each for each in COLUMNS[table] if (table, each) != ("kept_rows", "number")]
    return f"select {what} from {table} where digest is not row_digest({', '.join(names)})"


def set_aside(db: sqlite3.Connection, now_us: int) -> dict[str, int]:
    """Move rows with a wrong digest into the table `damaged`. Returns their number by table."""
    counts = {}
    for table, columns in COLUMNS.items():
        rows = db.execute(_altered(", ".join(columns), table)).fetchall()
        if not rows:
            continue
        for row in rows:
            content = msgspec.msgpack.encode(row)
            db.execute("insert into damaged values (?, ?, ?)", (now_us, table, content))
        same = " and ".join(f"{each} is ?" for each in KEYS[table])
        places = [columns.index(each) for each in KEYS[table]]
        db.executemany(
            f"delete from {table} where {same}", [tuple(row[at] for at in places) for row in rows]
        )
        counts[table] = len(rows)
    return counts
