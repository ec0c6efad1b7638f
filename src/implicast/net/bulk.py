"""Rows of one kind that a commit writes together: many rows a statement.

SQLite gives Python's lock away for every statement that it carries out, and takes it again after: for a row a statement
that is most of what a row costs, in a thread beside a busy loop.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

Write = tuple[str, tuple[Any, ...]]
"""A statement and its values."""

MOST = 64
"""Rows of a statement, at most. Fewer are cut into powers of two, so that a handful of statements is prepared once."""

NOTICE = "insert or ignore into notices values (?, ?, ?, ?, ?, ?, null)"
CAST = "insert into outbox values (?, ?, ?, ?, ?, ?, null)"
RECEIPT = "insert or replace into receipts values (?, ?, ?, ?)"
SETTLED = "update outbox set settled_us = ? where life = ? and serial = ?"

_MANY = {
    NOTICE: ("insert or ignore into notices values ", "(?, ?, ?, ?, ?, ?, null)", ""),
    CAST: ("insert into outbox values ", "(?, ?, ?, ?, ?, ?, null)", ""),
    RECEIPT: ("insert or replace into receipts values ", "(?, ?, ?, ?)", ""),
    SETTLED: (
        "update outbox set settled_us = new.column1 from (values ",
        "(?, ?, ?)",
        ") as new where life = new.column2 and serial = new.column3",
    ),
}
"""How a statement begins and ends when it is about many rows, and what stands between for each. They are carried out in
this order, before all others: a cast is there before it is settled, a notice before it is done."""


def carry_out(db: sqlite3.Connection, writes: Iterable[Write]) -> None:
    """Write all of it, within the transaction that is open."""
    alike: dict[str, list[tuple[Any, ...]]] = {statement: [] for statement in _MANY}
    others: list[Write] = []
    for statement, values in writes:
        if statement in alike:
            alike[statement].append(values)
        else:
            others.append((statement, values))
    alike[RECEIPT] = list(
        {row[:2]: row for row in alike[RECEIPT]}.values()
    )  # the last word on each cast
    for statement, rows in alike.items():
        _write_rows(db, statement, rows)
    for statement, same in groupby(others, itemgetter(0)):
        db.executemany(statement, map(itemgetter(1), same))


def _write_rows(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    begins, each, ends = _MANY[statement]
    at = 0
    while at < len(rows):
        count = min(MOST, 1 << (len(rows) - at).bit_length() - 1)
        text = f"{begins}{', '.join([each] * count)}{ends}"
        db.execute(text, tuple(chain.from_iterable(rows[at : at + count])))
        at += count
