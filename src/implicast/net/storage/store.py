"""The database of a node, one SQLite file: incarnation, durable state of the peer, inbox, outbox,
receipts.

Writes are collected and committed together with `synchronous=FULL`, so that committed rows survive
a killed process and a power failure. The event loop inserts the rows, because passing the GIL to a
thread for them costs more; a thread waits for the disk. `committed()` returns when everything
written so far is durable.

The primary key of `notices` detects repeats: a cast enters the inbox once. The schema has a
version. A file with an older version is migrated when it is opened; a file with a newer one is
refused. Every commit has a number (`head.py`), and every row a digest (`schema.py`).
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from implicast.language.target import Target
from implicast.net.storage.bulk import CAST, NOTICE, RECEIPT, SETTLED, Write, write_all
from implicast.net.storage.commit_scheduler import scheduler_of
from implicast.net.storage.files import Lock, make_private_folder, touch_private
from implicast.net.storage.head import Head, head_of
from implicast.net.storage.loss import (
    Loss,
    acknowledge,
    commit_row,
    last_commit,
    losses,
    notice_losses,
)
from implicast.net.storage.rows import StoredRows
from implicast.net.storage.schema import MIGRATIONS, SCHEMA, VERSION, connect
from implicast.peer.contract import CastId
from implicast.peer.errors import LocalError
from implicast.peer.events import Settled

COMMIT_DELAY_S = (0.003, 0.02)
"""Bounds in seconds of the pause between two commits of a node that writes continuously. Within
these bounds the pause is as long as the last commit took.
"""
NOTICES_MAX = 100_000
"""Notices kept in the inbox. Beyond this number the oldest done ones are deleted."""

_encode = msgspec.msgpack.Encoder().encode


class StoreError(LocalError):
    """The file cannot be used; the text says why."""


class Store(StoredRows):
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
        self._number, self._commit_us = 0, 0
        """Number and time of the last commit."""
        self.new_losses: list[Loss] = []
        """Losses that were noticed when the file was opened."""
        self._last_us = 0
        """Arrival time of the last notice; 0 until it is read from the database."""
        self.before_commit: Callable[[], None] = lambda: None
        """Called before every commit, to write state that changes so often that once per commit is
        enough.
        """
        self.after_commit: Callable[[], None] = lambda: None
        """Called after every commit."""
        with contextlib.ExitStack() as opened:
            try:
                make_private_folder(path.parent)
                self._lock = Lock(path)
                opened.callback(self._lock.release)
                touch_private(path)
                self._db = connect(path)
                opened.callback(self._db.close)
                self._head = Head(head_of(path))
                opened.callback(self._head.close)
                self._prepare()
            except TimeoutError:
                raise StoreError(
                    f"{path.parent} is in use by another process: stop that process"
                ) from None
            except sqlite3.DatabaseError as error:
                raise StoreError(_damage(path, error)) from None
            except OSError as error:
                raise StoreError(f"{path} cannot be used: {error}") from None
            opened.pop_all()

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
            self._db.executescript(f"begin; {SCHEMA} pragma user_version={VERSION}; commit;")
            version = VERSION
        while 0 < version < VERSION:
            self._db.executescript(
                f"begin; {MIGRATIONS[version]} pragma user_version={version + 1}; commit;"
            )
            version = min(version + 1, VERSION)
        self._notice_losses()

    def _notice_losses(self) -> None:
        """Check the structure of the database, its head file and the digests of its rows."""
        (found,) = self._db.execute("pragma integrity_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        self.new_losses = notice_losses(self._db, self._head)
        number, _ = last_commit(self._db)
        self._number = max(number, self._head.number)
        if self.new_losses or self._head.damaged or not self._head.existed:
            self._commit_now(lambda: None)
            self._head.reset(self._number, self._commit_us)

    # --- executed at once, at startup

    def get(self, key: str) -> bytes | None:
        row = self.execute_now("select value from meta where key = ?", key).fetchone()
        return None if row is None else bytes(row[0])

    def put_now(self, key: str, value: bytes) -> None:
        """Write a value and commit before returning: for values that must be durable before the
        node sends anything.
        """
        self._commit_now(
            lambda: self._db.execute("insert or replace into meta values (?, ?)", (key, value))
        )

    def _commit_now(self, write: Callable[[], object]) -> None:
        """Write within a transaction of its own, and commit it. A running commit ends first."""
        if self.commit_running is not None:
            self.commit_running.exception()
        self._db.execute("begin immediate")
        try:
            write()
            self._number_commit()
        except BaseException:
            self.rollback()
            raise
        self.commit_transaction()

    def _number_commit(self) -> None:
        """Give the open transaction its number."""
        self._commit_us = time.time_ns() // 1000
        row = commit_row(self._number + 1, self._commit_us)
        self._db.execute("insert or replace into meta values (?, ?)", row)

    @property
    def losses(self) -> list[Loss]:
        """The losses that the operator has not acknowledged."""
        return losses(self._db)

    def acknowledge_losses(self) -> int:
        """Forget the recorded losses. Returns how many there were."""
        count = len(self.losses)
        self._commit_now(lambda: acknowledge(self._db))
        return count

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
            self._number_commit()
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
        self._number += 1
        with contextlib.suppress(OSError):  # a full disk: the head file stays behind
            self._head.write(self._number, self._commit_us)

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

    # --- end

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
        with contextlib.suppress(OSError):
            self._head.write(self._number, self._commit_us, sync=not self._abandoned)
        self._head.close()
        self._lock.release()


def _damage(path: Path, error: sqlite3.DatabaseError) -> str:
    """What is wrong with a database that cannot be used, and what to do."""
    damaged = "malformed" in str(error) or not isinstance(error, sqlite3.OperationalError)
    if not damaged:
        return f"{path} cannot be used: {error}"
    folder, reason = path.parent, " ".join(str(error).replace("*", "").split())
    return (
        f"{path} is damaged ({reason}): run `implicast doctor {folder} --salvage` to "
        f"keep what can be read, or `implicast restore BACKUP {folder} --replace`"
    )
