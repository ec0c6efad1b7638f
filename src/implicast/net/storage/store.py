"""The database of a node, one SQLite file: incarnation, durable state of the peer, inbox, outbox,
receipts.

Writes are collected and committed together with `synchronous=FULL`, so that committed rows survive
a killed process and a power failure. The event loop inserts the rows, because passing the GIL to a
thread for them costs more; a thread waits for the disk. `committed()` returns when everything
written so far is durable.

The primary key of `notices` detects repeats: a cast enters the inbox once. The schema has a
version. A file with an older version is migrated when it is opened; a file with a newer one is
refused.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from implicast.language.target import Target
from implicast.net.storage.bulk import CAST, NOTICE, RECEIPT, SETTLED, Write, write_all
from implicast.net.storage.commit_scheduler import scheduler_of
from implicast.net.storage.files import Lock, make_private_folder, touch_private
from implicast.peer.contract import CastId, Incarnation
from implicast.peer.errors import LocalError
from implicast.peer.events import Settled

VERSION = 3
SCHEMA = """
create table meta (key text primary key, value blob) without rowid;
create table notices (
    publisher blob, life integer, serial integer, payload blob, target text,
    arrived_us integer, done_us integer,
    primary key (publisher, life, serial)) without rowid;
create index notices_open on notices (arrived_us) where done_us is null;
create table outbox (
    life integer, serial integer, target blob, payload blob, made_us integer,
    until_us integer, settled_us integer,
    primary key (life, serial)) without rowid;
create table receipts (life integer, serial integer, settled blob, at_us integer,
    primary key (life, serial)) without rowid;
"""
DURABLE_ROWS = """
create table kept_rows (
    number integer primary key, part text, key blob, value blob, unique (part, key));
"""
REMEMBERED = """
alter table notices add column until_us integer;
create table remembered (
    publisher blob, life integer, serial integer, until_us integer,
    primary key (publisher, life, serial)) without rowid;
"""
"""Until when the cast of a notice is remembered, and the ids of casts whose notice is deleted and
that are still remembered (`durable_state.py`).
"""
MIGRATIONS: dict[int, str] = {
    1: DURABLE_ROWS,
    2: REMEMBERED,
}
"""Migration scripts by the version they start from."""
COMMIT_DELAY_S = (0.003, 0.02)
"""Bounds in seconds of the pause between two commits of a node that writes continuously. Within
these bounds the pause is as long as the last commit took.
"""
NOTICES_MAX = 100_000
"""Notices kept in the inbox. Beyond this number the oldest done ones are deleted."""

_encode = msgspec.msgpack.Encoder().encode
_settled = msgspec.msgpack.Decoder(Settled)
_target = msgspec.msgpack.Decoder(Target)


class StoreError(LocalError):
    """The file cannot be used; the text says why."""


class Store:
    """The database of one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self.pending_writes: list[Write] = []
        self._next_commit: asyncio.Future[None] | None = None
        """Done with the next commit; None if no commit is requested."""
        self._loop_running = False
        self._task: asyncio.Task[None] | None = None
        self.full = False
        """The disk is full. Nothing is acknowledged until a commit succeeds."""
        self.commits = 0
        self.commit_running: Future[None] | None = None
        """The commit that the thread was last given. No transaction is open between its end and the
        next commit.
        """
        self._touched = self._abandoned = False
        self._last_us = 0
        """Arrival time of the last notice; 0 until it is read from the database."""
        self.before_commit: Callable[[], None] = lambda: None
        """Called before every commit, to write state that changes so often that once per commit is
        enough.
        """
        self.after_commit: Callable[[], None] = lambda: None
        """Called after every commit."""
        try:
            make_private_folder(path.parent)
            self._lock = Lock(path)
            touch_private(path)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except TimeoutError:
            raise StoreError(
                f"{path.parent} is in use by another process: stop that process"
            ) from None
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path} cannot be used: {error}") from None

    def _prepare(self) -> None:
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        (version,) = self._db.execute("pragma user_version").fetchone()
        if version > VERSION:
            raise StoreError(
                f"{self.path} was written by a newer version of Implicast (schema {version}); "
                "update Implicast"
            )
        if version == 0:
            self._db.executescript(
                f"begin; {SCHEMA} {DURABLE_ROWS} {REMEMBERED} pragma user_version={VERSION}; commit;"
            )
        while 0 < version < VERSION:
            self._db.executescript(
                f"begin; {MIGRATIONS[version]} pragma user_version={version + 1}; commit;"
            )
            version += 1

    # --- executed at once, at startup

    def get(self, key: str) -> bytes | None:
        row = self.execute_now("select value from meta where key = ?", key).fetchone()
        return None if row is None else bytes(row[0])

    def put_now(self, key: str, value: bytes) -> None:
        """Write a value and commit before returning: for values that must be durable before the
        node sends anything.
        """
        self.execute_now("insert or replace into meta values (?, ?)", key, value)

    def rows(self, part: str) -> list[bytes]:
        """The stored rows of one part of the durable state, in the order of their last write."""
        found = self.execute_now("select value from kept_rows where part = ? order by number", part)
        return [bytes(value) for (value,) in found]

    # --- collected and committed together

    def write(self, statement: str, values: tuple[Any, ...]) -> None:
        self.pending_writes.append((statement, values))

    def put(self, key: str, value: bytes) -> None:
        self.write("insert or replace into meta values (?, ?)", (key, value))

    def put_row(self, part: str, key: bytes, value: bytes | None) -> None:
        """Write one row of the durable state; None deletes it."""
        if value is None:
            self.write("delete from kept_rows where part = ? and key = ?", (part, key))
        else:
            self.write(
                "insert or replace into kept_rows (part, key, value) values (?, ?, ?)",
                (part, key, value),
            )

    def drop_rows(self) -> None:
        self.write("delete from kept_rows", ())

    def arrival_us(self, now_us: int) -> int:
        """Arrival time for a new notice. It is later than all earlier ones, even if the clock was
        set back, because readers continue after the last time they have seen.
        """
        if not self._last_us:
            (last_us,) = self.execute_now("select max(arrived_us) from notices").fetchone()
            self._last_us = last_us or 0
        self._last_us = max(now_us, self._last_us + 1)
        return self._last_us

    def notice(
        self, cast: CastId, target: str, payload: bytes, now_us: int, until_us: int = 0
    ) -> None:
        """Add a notice. `until_us`: until when its cast is remembered; 0 for the default."""
        key = (cast.publisher, cast.incarnation, cast.serial)
        self.write(NOTICE, (*key, payload, target, now_us, until_us or None))

    def done(self, cast: CastId, now_us: int) -> None:
        self.write(
            "update notices set done_us = ? where publisher = ? and life = ? and serial = ?",
            (now_us, cast.publisher, cast.incarnation, cast.serial),
        )

    def cast(
        self, cast: CastId, target: Target, payload: bytes, now_us: int, until_us: int
    ) -> None:
        self.write(
            CAST, (cast.incarnation, cast.serial, _encode(target), payload, now_us, until_us)
        )

    def settled(self, settled: Settled, now_us: int) -> None:
        key = (settled.cast.incarnation, settled.cast.serial)
        self.write(RECEIPT, (*key, _encode(settled), now_us))
        if not settled.open:
            self.write(SETTLED, (now_us, *key))

    @property
    def dirty(self) -> bool:
        return bool(self.pending_writes) or self._touched or self._loop_running

    def touch(self) -> None:
        """Mark that `before_commit` may have something to write."""
        self._touched = True

    def commit(self) -> "asyncio.Future[None]":
        """Request a commit. The future is done when everything written so far is durable. Requests
        during a commit share the next one.
        """
        if self._next_commit is None:
            self._next_commit = asyncio.get_running_loop().create_future()
            if not self._loop_running:
                self._loop_running = True
                self._task = asyncio.ensure_future(self._commit_loop())
        return self._next_commit

    async def committed(self) -> None:
        """Wait until everything written so far is durable."""
        if self.dirty:
            await asyncio.shield(self.commit())

    async def _commit_loop(self) -> None:
        try:
            took_s, (least_s, most_s) = -1.0, COMMIT_DELAY_S
            scheduler = scheduler_of(asyncio.get_running_loop())
            while (gathering := self._next_commit) is not None:
                # This request came during the last commit, so more are likely to follow.
                if took_s >= 0:
                    await asyncio.sleep(min(max(took_s, least_s), most_s))
                begun = time.monotonic()
                async with scheduler.lock:
                    if took_s < 0:
                        await scheduler.until_calm()
                    self._next_commit, self._touched = None, False
                    self.before_commit()
                    writes, self.pending_writes = self.pending_writes, []
                    done = not writes or await self._try_commit(writes)
                while not done:
                    await asyncio.sleep(0.5)
                    done = await self._try_commit(writes)
                if not gathering.done():
                    gathering.set_result(None)
                self.after_commit()
                took_s = time.monotonic() - begun
        finally:
            self._loop_running = False

    async def _try_commit(self, writes: list[Write]) -> bool:
        try:
            self.insert_rows(writes)
            self.commit_running = self._thread.submit(self.commit_transaction)
            await asyncio.shield(asyncio.wrap_future(self.commit_running))
        except sqlite3.OperationalError as error:
            self.full = "full" in str(error) or "disk" in str(error)
            return False
        self.full = False
        self.commits += 1
        return True

    def insert_rows(self, writes: list[Write]) -> None:
        """Insert rows in a transaction that stays open."""
        self._db.execute("begin immediate")
        try:
            write_all(self._db, writes)
        except BaseException:
            self.rollback()
            raise

    def commit_transaction(self) -> None:
        """Commit the open transaction."""
        try:
            self._db.execute("commit")
        except BaseException:
            self.rollback()
            raise

    def rollback(self) -> None:
        if self._db.in_transaction:
            self._db.execute("rollback")

    def execute_now(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement at once. A running commit ends first, so that nothing is read before
        it is durable.
        """
        if self.commit_running is not None:
            self.commit_running.exception()
        return self._db.execute(statement, values)

    # --- reading

    def inbox(
        self, open_only: bool = True, after_us: int = 0, most: int = 1_000
    ) -> list[tuple[Any, ...]]:
        """Rows of publisher, incarnation, serial, payload, target, arrived_us, done_us; oldest
        first.
        """
        clause = "and done_us is null" if open_only else ""
        return self.execute_now(
            "select publisher, life, serial, payload, target, arrived_us, done_us "
            f"from notices where arrived_us > ? {clause} order by arrived_us limit ?",
            after_us,
            most,
        ).fetchall()

    def unsettled(self) -> Iterator[tuple[Incarnation, int, Target, bytes, int]]:
        """Unsettled casts: incarnation, serial, target, payload, expiry time in microseconds."""
        rows = self.execute_now(
            "select life, serial, target, payload, until_us from outbox "
            "where settled_us is null order by life, serial"
        ).fetchall()
        for incarnation, serial, target, payload, until_us in rows:
            yield incarnation, serial, _target.decode(target), payload, until_us

    def expired(self, before_us: int) -> list[tuple[Incarnation, int]]:
        """Incarnation and serial of unsettled casts that expired before this time."""
        return self.execute_now(
            "select life, serial from outbox where settled_us is null and until_us <= ?", before_us
        ).fetchall()

    def has(self, cast: CastId) -> bool:
        """True if the cast is in the inbox or waits for the next commit."""
        key = (cast.publisher, cast.incarnation, cast.serial)
        if any(
            statement is NOTICE and values[:3] == key for statement, values in self.pending_writes
        ):
            return True
        found = self.execute_now(
            "select 1 from notices where publisher = ? and life = ? and serial = ?", *key
        )
        return found.fetchone() is not None

    def carried(self, incarnation: Incarnation, serial: int) -> bytes | None:
        """The bytes that a cast of this node carries as its payload."""
        row = self.execute_now(
            "select payload from outbox where life = ? and serial = ?", incarnation, serial
        ).fetchone()
        return None if row is None else bytes(row[0])

    def receipt(self, incarnation: Incarnation, serial: int) -> Settled | None:
        row = self.execute_now(
            "select settled from receipts where life = ? and serial = ?", incarnation, serial
        ).fetchone()
        return None if row is None else _settled.decode(row[0])

    def receipts(self, most: int = 100) -> list[tuple[Any, ...]]:
        """Rows of incarnation, serial, target, made_us, settled (or None); newest first."""
        rows = self.execute_now(
            "select o.life, o.serial, o.target, o.made_us, r.settled "
            "from outbox o left join receipts r on o.life = r.life and o.serial = r.serial "
            "order by o.made_us desc limit ?",
            most,
        ).fetchall()
        return [
            (
                incarnation,
                serial,
                _target.decode(target),
                made_us,
                None if settled is None else _settled.decode(settled),
            )
            for incarnation, serial, target, made_us, settled in rows
        ]

    def counts(self) -> dict[str, int]:
        return {
            "inbox": self._count("notices"),
            "inbox_open": self._count("notices where done_us is null"),
            "outbox_open": self._count("outbox where settled_us is null"),
        }

    def _count(self, what: str) -> int:
        return int(self.execute_now(f"select count(*) from {what}").fetchone()[0])

    def abandon(self) -> None:
        """Discard all uncommitted writes, for tests of crashes."""
        self.pending_writes.clear()
        self.before_commit = lambda: None
        self._abandoned = True

    def close(self) -> None:
        """Commit the remaining writes and close the file. Gives up after 5 s on a full disk."""
        writes, self.pending_writes = [] if self._abandoned else self.pending_writes, []
        if self.commit_running is not None:
            self.commit_running.exception()
        deadline = time.monotonic() + 5
        while writes:
            try:
                self.insert_rows(writes)
                self.commit_transaction()
                break
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.1)
        if self._task is not None and not self._task.done():
            self._task.cancel()
        self._thread.shutdown(wait=True)
        self._db.close()
        self._lock.release()
