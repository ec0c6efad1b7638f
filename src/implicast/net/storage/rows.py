"""What a node reads from its database: inbox, outbox, receipts."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from implicast.language.target import Target
from implicast.net.storage.bulk import NOTICE, Write
from implicast.peer.contract import CastId, Incarnation
from implicast.peer.events import Settled

_settled = msgspec.msgpack.Decoder(Settled)
_target = msgspec.msgpack.Decoder(Target)


class StoredRows(ABC):
    """The committed rows of one database."""

    pending_writes: list[Write]
    """Rows that wait for the next commit."""

    @abstractmethod
    def execute_now(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement at once, after the running commit."""

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

    def settled_since(
        self, since_us: int, now_us: int, most: int
    ) -> list[tuple[Incarnation, int, Target, bytes, int]]:
        """Settled casts made since a time that have not expired, the newest ones, oldest first:
        incarnation, serial, target, payload, expiry.
        """
        rows = self.execute_now(
            "select life, serial, target, payload, until_us from outbox where made_us >= ? "
            "and until_us > ? and settled_us is not null order by made_us desc limit ?",
            since_us,
            now_us,
            most,
        ).fetchall()
        return [
            (incarnation, serial, _target.decode(target), payload, until_us)
            for incarnation, serial, target, payload, until_us in reversed(rows)
        ]

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

    def receipts(
        self, most: int = 100, since_us: int = 0, open_only: bool = False
    ) -> list[tuple[Any, ...]]:
        """Rows of incarnation, serial, target, made_us, settled (or None) of casts made since a
        time; newest first.
        """
        clause = "and o.settled_us is null" if open_only else ""
        rows = self.execute_now(
            "select o.life, o.serial, o.target, o.made_us, r.settled "
            "from outbox o left join receipts r on o.life = r.life and o.serial = r.serial "
            f"where o.made_us >= ? {clause} order by o.made_us desc limit ?",
            since_us,
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
