"""The tables of a node's database, and the digest that each row carries.

The column `digest` is computed by SQLite when a row is written, from all other columns. A row whose
columns give another digest was altered on the disk. The schema has a version. A file with an older
version is migrated when it is opened.
"""

import sqlite3
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

VERSION = 4
DIGEST_BYTES = 8
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "meta": ("key", "value"),
    "notices": (
        *("publisher", "life", "serial", "payload", "target"),
        *("arrived_us", "done_us", "until_us"),
    ),
    "outbox": ("life", "serial", "target", "payload", "made_us", "until_us", "settled_us"),
    "receipts": ("life", "serial", "settled", "at_us"),
    "kept_rows": ("number", "part", "key", "value"),
    "remembered": ("publisher", "life", "serial", "until_us"),
}
"""The columns of each table, without the digest."""
KEYS: Mapping[str, tuple[str, ...]] = {
    "meta": ("key",),
    "notices": ("publisher", "life", "serial"),
    "outbox": ("life", "serial"),
    "receipts": ("life", "serial"),
    "kept_rows": ("number",),
    "remembered": ("publisher", "life", "serial"),
}


def _digest(table: str) -> str:
    columns = ", ".join(each for each in COLUMNS[table] if (table, each) != ("kept_rows", "number"))
    return f"digest blob generated always as (row_digest({columns})) stored"


SCHEMA = f"""
create table meta (key text primary key, value blob, {_digest("meta")}) without rowid;
create table notices (
    publisher blob, life integer, serial integer, payload blob, target text,
    arrived_us integer, done_us integer, until_us integer, {_digest("notices")},
    primary key (publisher, life, serial)) without rowid;
create index notices_open on notices (arrived_us) where done_us is null;
create table outbox (
    life integer, serial integer, target blob, payload blob, made_us integer,
    until_us integer, settled_us integer, {_digest("outbox")},
    primary key (life, serial)) without rowid;
create table receipts (life integer, serial integer, settled blob, at_us integer,
    {_digest("receipts")}, primary key (life, serial)) without rowid;
create table kept_rows (
    number integer primary key, part text, key blob, value blob, {_digest("kept_rows")},
    unique (part, key));
create table remembered (
    publisher blob, life integer, serial integer, until_us integer, {_digest("remembered")},
    primary key (publisher, life, serial)) without rowid;
create table damaged (found_us integer, origin text, content blob);
"""
"""`notices.until_us`: until when the cast of a notice is remembered. `remembered`: the ids of casts
whose notice is deleted and that are still remembered (`durable_state.py`). `damaged`: rows that
were set aside because their digest was wrong.
"""
MIGRATE_1 = """
create table kept_rows (
    number integer primary key, part text, key blob, value blob, unique (part, key));
"""
MIGRATE_2 = """
alter table notices add column until_us integer;
create table remembered (
    publisher blob, life integer, serial integer, until_us integer,
    primary key (publisher, life, serial)) without rowid;
"""


def _migrate_3() -> str:
    """Copy each table into one with digests."""
    renames = [f"alter table {table} rename to old_{table};" for table in COLUMNS]
    copies = []
    for table, columns in COLUMNS.items():
        names = ", ".join(columns)
        copies.append(f"insert into {table} ({names}) select {names} from old_{table};")
        copies.append(f"drop table old_{table};")
    return "\n".join([*renames, "drop index notices_open;", SCHEMA, *copies])


MIGRATIONS: Mapping[int, str] = {1: MIGRATE_1, 2: MIGRATE_2, 3: _migrate_3()}
"""Migration scripts by the version they start from."""


def row_digest(*values: Any) -> bytes:
    """The digest of the columns of one row."""
    return blake2b(msgspec.msgpack.encode(values), digest_size=DIGEST_BYTES).digest()


def with_digests(db: sqlite3.Connection) -> sqlite3.Connection:
    """Give a connection the function that computes digests; the tables need it."""
    db.create_function("row_digest", -1, row_digest, deterministic=True)
    return db


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """Open a node's database. Each statement is its own transaction unless one is begun."""
    where = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    db = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
    return with_digests(db)
