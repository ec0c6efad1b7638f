"""What a node writes down: its life, what its peer keeps, the inbox, the outbox, receipts. One SQLite file.

Writes gather and are committed together, with `synchronous=FULL`: what was committed outlives a killed process and a
lost power supply. Rows are put in by the loop, which takes less than handing Python's lock over for them; a thread
waits for the disk. Whoever needs to know that something is safe awaits `committed()`.

The primary key of `notices` is the memory of repeats: a cast is taken once, whatever happens. The schema has a version;
a file of an older one is migrated when it is opened, one of a newer one is refused in a sentence.
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
from implicast.net.bulk import CAST, NOTICE, RECEIPT, SETTLED, Write, carry_out
from implicast.net.lock import Lock
from implicast.net.turn import turn_of
from implicast.peer.contract import CastId, Incarnation
from implicast.peer.errors import LocalError
from implicast.peer.events import Settled
from implicast.peer.memory import HEARD_BITS, HeardBlock

VERSION = 2
SCHEMA = """
create table meta (key text primary key, value blob) without rowid;
create table notices (
    publisher blob, life integer, serial integer, payload blob, target text, arrived_us integer, done_us integer,
    primary key (publisher, life, serial)) without rowid;
create index notices_open on notices (arrived_us) where done_us is null;
create table outbox (
    life integer, serial integer, target blob, payload blob, made_us integer, until_us integer, settled_us integer,
    primary key (life, serial)) without rowid;
create table receipts (life integer, serial integer, settled blob, at_us integer,
    primary key (life, serial)) without rowid;
"""
KEPT_ROWS = """
create table kept_rows (number integer primary key, part text, key blob, value blob, unique (part, key));
"""
MIGRATIONS: dict[int, str] = {1: KEPT_ROWS}
"""By the version they start from."""
GATHER_S = (0.003, 0.02)
"""How long a node that has something to write all the time lets it gather before the next commit: as long as the last
one took, within these."""
NOTICES_MAX = 100_000
"""Notices kept; the oldest that are done go first."""

_encode = msgspec.msgpack.Encoder().encode
_settled = msgspec.msgpack.Decoder(Settled)
_target = msgspec.msgpack.Decoder(Target)


class StoreError(LocalError):
    """The file cannot be used; the text says why."""


class Store:
    """One node's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._writes: list[Write] = []
        self._gathering: asyncio.Future[None] | None = None
        """Done with the next commit; None while nobody waits for one."""
        self._working = False
        self._task: asyncio.Task[None] | None = None
        self.full = False
        """The disk is full: nothing is confirmed until there is room."""
        self.commits = 0
        self._sealing: Future[None] | None = None
        """The last commit that the thread was given; between its end and the next no transaction is open."""
        self._touched = self._abandoned = False
        self._last_us = 0
        """When the last notice arrived; 0: not looked up yet."""
        self.before: Callable[[], None] = lambda: None
        """Called before every commit, to add what changes all the time and is worth writing once per commit only."""
        self.after: Callable[[], None] = lambda: None
        """Called after every commit."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(path)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._prepare()
        except TimeoutError:
            raise StoreError(
                f"{path.parent} is in use by another process: stop the one that runs there"
            ) from None
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{path} cannot be used: {error}") from None

    def _prepare(self) -> None:
        self._db.execute("pragma journal_mode=wal")
        self._db.execute("pragma synchronous=full")
        (version,) = self._db.execute("pragma user_version").fetchone()
        if version > VERSION:
            raise StoreError(
                f"{self.path} was written by a newer version of Implicast (schema {version}); update it"
            )
        if version == 0:
            self._db.executescript(
                f"begin; {SCHEMA} {KEPT_ROWS} pragma user_version={VERSION}; commit;"
            )
        while 0 < version < VERSION:
            self._db.executescript(
                f"begin; {MIGRATIONS[version]} pragma user_version={version + 1}; commit;"
            )
            version += 1

    # --- at once, when a node begins

    def get(self, key: str) -> bytes | None:
        row = self._at_once("select value from meta where key = ?", key).fetchone()
        return None if row is None else bytes(row[0])

    def put_now(self, key: str, value: bytes) -> None:
        """Write and commit before returning: for what must be safe before the node speaks."""
        self._at_once("insert or replace into meta values (?, ?)", key, value)

    def heard(self, since_us: int) -> tuple[HeardBlock, ...]:
        """Which casts were taken since a moment, as the inbox of a peer remembers them."""
        blocks: dict[tuple[bytes, int, int], int] = {}
        rows = self._at_once(
            "select publisher, life, serial from notices where arrived_us >= ?", since_us
        )
        for publisher, incarnation, serial in rows:
            block = (bytes(publisher), incarnation, serial >> HEARD_BITS)
            blocks[block] = blocks.get(block, 0) | 1 << (serial & (1 << HEARD_BITS) - 1)
        return tuple(HeardBlock(*block, bits) for block, bits in blocks.items())

    def rows(self, part: str) -> list[bytes]:
        """What was kept of one part, as it was put in last."""
        found = self._at_once("select value from kept_rows where part = ? order by number", part)
        return [bytes(value) for (value,) in found]

    # --- gathered, committed together

    def write(self, statement: str, values: tuple[Any, ...]) -> None:
        self._writes.append((statement, values))

    def put(self, key: str, value: bytes) -> None:
        self.write("insert or replace into meta values (?, ?)", (key, value))

    def put_row(self, part: str, key: bytes, value: bytes | None) -> None:
        """One row of what is kept; None: it is kept no more."""
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
        """When a notice arrives: after all that arrived before, though the machine's clock was set back meanwhile.
        Readers go on from the last one that they have seen."""
        if not self._last_us:
            (last_us,) = self._at_once("select max(arrived_us) from notices").fetchone()
            self._last_us = last_us or 0
        self._last_us = max(now_us, self._last_us + 1)
        return self._last_us

    def notice(self, cast: CastId, target: str, payload: bytes, now_us: int) -> None:
        self.write(NOTICE, (cast.publisher, cast.incarnation, cast.serial, payload, target, now_us))

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
        return bool(self._writes) or self._touched or self._working

    def touch(self) -> None:
        """Something may have changed that `before` writes."""
        self._touched = True

    def commit(self) -> "asyncio.Future[None]":
        """Done when all that was written so far is safe. Those who come while a commit is under way share the next."""
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().create_future()
            if not self._working:
                self._working = True
                self._task = asyncio.ensure_future(self._work_off())
        return self._gathering

    async def committed(self) -> None:
        """When all that was written so far is safe."""
        if self.dirty:
            await asyncio.shield(self.commit())

    async def _work_off(self) -> None:
        try:
            took_s, (least_s, most_s) = -1.0, GATHER_S
            turn = turn_of(asyncio.get_running_loop())
            while (gathering := self._gathering) is not None:
                if took_s >= 0:  # they came while the last commit was under way: more will
                    await asyncio.sleep(min(max(took_s, least_s), most_s))
                begun = time.monotonic()
                async with turn.lock:
                    if took_s < 0:
                        await turn.calm()
                    self._gathering, self._touched = None, False
                    self.before()
                    writes, self._writes = self._writes, []
                    done = not writes or await self._attempt(writes)
                while not done:
                    await asyncio.sleep(0.5)
                    done = await self._attempt(writes)
                if not gathering.done():
                    gathering.set_result(None)
                self.after()
                took_s = time.monotonic() - begun
        finally:
            self._working = False

    async def _attempt(self, writes: list[Write]) -> bool:
        try:
            self._lay(writes)
            self._sealing = self._thread.submit(self._seal)
            await asyncio.shield(asyncio.wrap_future(self._sealing))
        except sqlite3.OperationalError as error:
            self.full = "full" in str(error) or "disk" in str(error)
            return False
        self.full = False
        self.commits += 1
        return True

    def _lay(self, writes: list[Write]) -> None:
        """Put rows in, in a transaction that stays open."""
        self._db.execute("begin immediate")
        try:
            carry_out(self._db, writes)
        except BaseException:
            self._undo()
            raise

    def _seal(self) -> None:
        """Commit what was put in."""
        try:
            self._db.execute("commit")
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("rollback")

    def _at_once(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Ask the file, or tell it. A commit that is under way ends first, so nothing is read before it is safe."""
        if self._sealing is not None:
            self._sealing.exception()
        return self._db.execute(statement, values)

    # --- reading

    def inbox(
        self, open_only: bool = True, after_us: int = 0, most: int = 1_000
    ) -> list[tuple[Any, ...]]:
        """publisher, life, serial, payload, target, arrived_us, done_us; oldest first."""
        clause = "and done_us is null" if open_only else ""
        return self._at_once(
            f"select * from notices where arrived_us > ? {clause} order by arrived_us limit ?",
            after_us,
            most,
        ).fetchall()

    def unsettled(self) -> Iterator[tuple[Incarnation, int, Target, bytes, int]]:
        """Casts that are not settled yet: life, serial, target, payload, until when."""
        rows = self._at_once(
            "select life, serial, target, payload, until_us from outbox where settled_us is null order by life, serial"
        ).fetchall()
        for incarnation, serial, target, payload, until_us in rows:
            yield incarnation, serial, _target.decode(target), payload, until_us

    def has(self, cast: CastId) -> bool:
        """Is this cast in the inbox, or about to be?"""
        key = (cast.publisher, cast.incarnation, cast.serial)
        if any(statement is NOTICE and values[:3] == key for statement, values in self._writes):
            return True
        found = self._at_once(
            "select 1 from notices where publisher = ? and life = ? and serial = ?", *key
        )
        return found.fetchone() is not None

    def carried(self, incarnation: Incarnation, serial: int) -> bytes | None:
        """What a cast of this node carries as its payload."""
        row = self._at_once(
            "select payload from outbox where life = ? and serial = ?", incarnation, serial
        ).fetchone()
        return None if row is None else bytes(row[0])

    def receipt(self, incarnation: Incarnation, serial: int) -> Settled | None:
        row = self._at_once(
            "select settled from receipts where life = ? and serial = ?", incarnation, serial
        ).fetchone()
        return None if row is None else _settled.decode(row[0])

    def receipts(self, most: int = 100) -> list[tuple[Any, ...]]:
        """life, serial, target, made_us, settled or None; newest first."""
        rows = self._at_once(
            "select o.life, o.serial, o.target, o.made_us, r.settled from outbox o left join receipts r "
            "on o.life = r.life and o.serial = r.serial order by o.made_us desc limit ?",
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
        return int(self._at_once(f"select count(*) from {what}").fetchone()[0])

    def prune(self, keep: int = NOTICES_MAX) -> None:
        """Oldest that are done go first; what is not done stays."""
        self.write(
            "delete from notices where (publisher, life, serial) in (select publisher, life, serial from notices "
            "where done_us is not null order by arrived_us limit max(0, (select count(*) from notices) - ?))",
            (keep,),
        )

    def abandon(self) -> None:
        """For trials of crashes: what is not committed yet is lost."""
        self._writes.clear()
        self.before = lambda: None
        self._abandoned = True

    def close(self) -> None:
        """What is not committed yet is, unless there is no room."""
        writes, self._writes = [] if self._abandoned else self._writes, []
        if self._sealing is not None:
            self._sealing.exception()
        deadline = time.monotonic() + 5
        while writes:
            try:
                self._lay(writes)
                self._seal()
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
