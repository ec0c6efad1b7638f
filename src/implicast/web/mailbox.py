"""The page's file, beside the node's: letters, drafts, what is on its way, rules, what is blocked.
One SQLite file.

Everything a person has done is committed (`synchronous=FULL`) before the page says so: a killed
process loses nothing.
"""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from implicast.peer.errors import LocalError

VERSION = 1
SCHEMA = """
create table meta (key text primary key, value text not null) without rowid;
create table letters (
    id integer primary key, cast_id text unique not null, uid text not null, thread text not null, own integer not null,
    publisher text not null, author text not null, target text not null, subject text not null, body text not null,
    at_us integer not null, alone integer not null, read integer not null, hidden text not null, complained integer);
create index letters_folder on letters (hidden, target, at_us);
create index letters_thread on letters (thread, at_us);
create index letters_at on letters (hidden, at_us);
create index letters_unread on letters (target) where read = 0 and hidden = '';
create virtual table words using fts5 (subject, body, author, target, content='letters', content_rowid='id');
create trigger letters_in after insert on letters begin
    insert into words (rowid, subject, body, author, target)
    values (new.id, new.subject, new.body, new.author, new.target); end;
create table files (letter integer not null, number integer not null, name text not null, content blob not null,
    primary key (letter, number)) without rowid;
create table drafts (
    id integer primary key, target text not null, subject text not null, body text not null, thread text not null,
    alone integer not null, at_us integer not null);
create table draft_files (id integer primary key, draft integer not null, name text not null, content blob not null);
create table outgoing (
    uid text primary key, draft integer, kind text not null, target text not null, subject text not null,
    payload blob not null, due_us integer not null, tried text, cast_id text, error text, at_us integer not null)
    without rowid;
create table blocks (kind text not null, what text not null, at_us integer not null, primary key (kind, what))
    without rowid;
create table rules (publisher text not null, tag text not null, relation text not null, other text not null,
    primary key (publisher, tag, relation, other)) without rowid;
create index rules_tag on rules (tag);
create index rules_other on rules (other);
create table rule_lists (publisher text primary key, life integer not null, serial integer not null) without rowid;
create table tags (tag text primary key, times integer not null) without rowid;
create table people (publisher text primary key, author text not null, at_us integer not null) without rowid;
"""


class MailboxError(LocalError):
    """The page's file cannot be used; the text says why."""


class Mailbox:
    """One page's file."""

    def __init__(self, path: Path) -> None:
        try:
            path.touch(mode=0o600, exist_ok=True)
            self.db = sqlite3.connect(path, isolation_level=None)
            self.db.row_factory = sqlite3.Row
            self._prepare(path)
        except (OSError, sqlite3.Error) as error:
            raise MailboxError(f"{path} cannot be used: {error}") from None

    def _prepare(self, path: Path) -> None:
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=full")
        (version,) = self.db.execute("pragma user_version").fetchone()
        if version > VERSION:
            raise MailboxError(
                f"{path} was written by a newer version of Implicast (schema {version}); update it"
            )
        if version == 0:
            self.db.executescript(f"begin; {SCHEMA} pragma user_version={VERSION}; commit;")

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """All of it is safe when the block ends, or none of it happened."""
        self.db.execute("begin immediate")
        try:
            yield self.db
            self.db.execute("commit")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("rollback")
            raise

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        return self.db.execute(statement, values).fetchall()

    def row(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        found: sqlite3.Row | None = self.db.execute(statement, values).fetchone()
        return found

    def number(self, statement: str, values: Sequence[Any] = ()) -> int:
        found = self.db.execute(statement, values).fetchone()
        return int(found[0] or 0) if found else 0

    def get(self, key: str, otherwise: str = "") -> str:
        found = self.row("select value from meta where key = ?", (key,))
        return otherwise if found is None else str(found["value"])

    def put(self, key: str, value: str) -> None:
        with self.change() as db:
            db.execute("insert or replace into meta values (?, ?)", (key, value))

    def token(self) -> str:
        """The secret in the page's address: drawn once, the same after a restart."""
        token = self.get("token")
        if not token:
            token = secrets.token_urlsafe(24)
            self.put("token", token)
        return token

    def close(self) -> None:
        self.db.close()
