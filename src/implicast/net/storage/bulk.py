"""Writes the rows of a commit with few SQL statements, many rows each.

Python's sqlite3 module releases and reacquires the GIL for each statement. With one row per
statement this would be most of the cost of a row in a process with a busy event loop.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

Write = tuple[str, tuple[Any, ...]]
"""A statement and its values."""

MOST = 64
"""Rows in one statement. A smaller number is split into powers of two, so that few statements need
to be prepared.
"""

NOTICE = "insert or ignore into notices values (?, ?, ?, ?, ?, ?, null, ?)"
CAST = "insert into outbox values (?, ?, ?, ?, ?, ?, null)"
RECEIPT = "insert or replace into receipts values (?, ?, ?, ?)"
SETTLED = "update outbox set settled_us = ? where life = ? and serial = ?"

_BULK = {
    NOTICE: ("insert or ignore into notices values ", "(?, ?, ?, ?, ?, ?, null, ?)", ""),
    CAST: ("insert into outbox values ", "(?, ?, ?, ?, ?, ?, null)", ""),
    RECEIPT: ("insert or replace into receipts values ", "(?, ?, ?, ?)", ""),
    SETTLED: (
        "update outbox set settled_us = new.column1 from (values ",
        "(?, ?, ?)",
        ") as new where life = new.column2 and serial = new.column3",
    ),
}
"""For each statement with many rows: its start, the part for each row, its end. They are executed
in this order and before all other statements, so that a cast is inserted before it is settled and a
notice before it is marked done.
"""


def write_all(db: sqlite3.Connection, writes: Iterable[Write]) -> None:
    """Execute all writes within the open transaction."""
    alike: dict[str, list[tuple[Any, ...]]] = {statement: [] for statement in _BULK}
    others: list[Write] = []
    for statement, values in writes:
        if statement in alike:
            alike[statement].append(values)
        else:
            others.append((statement, values))
    alike[RECEIPT] = list(
        {row[:2]: row for row in alike[RECEIPT]}.values()
    )  # only the last receipt of each cast
    for statement, rows in alike.items():
        _write_rows(db, statement, rows)
    for statement, same in groupby(others, itemgetter(0)):
        db.executemany(statement, map(itemgetter(1), same))


def _write_rows(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    begins, each, ends = _BULK[statement]
    at = 0
    while at < len(rows):
        count = min(MOST, 1 << (len(rows) - at).bit_length() - 1)
        text = f"{begins}{', '.join([each] * count)}{ends}"
        db.execute(text, tuple(chain.from_iterable(rows[at : at + count])))
        at += count
