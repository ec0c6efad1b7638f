"""The head file of a node's database, `node.head`: the number of the last commit, beside the
database, so that a database that has lost commits is noticed.

SQLite ends the recovery of its write-ahead log at the first bad frame without an error, so a
database may come back older than it was. The head file has two slots, written in turn, each with a
digest. It is written after the commit, and synced at most once a second: after a power failure it
may be behind the database, never ahead of it.
"""

import os
import struct
import time
from hashlib import blake2b
from pathlib import Path

from implicast.net.storage.files import FILE_MODE

SLOT = struct.Struct(">QQ16s")
"""Number of the commit, its time in microseconds since 1970, digest of both."""
SYNC_S = 1.0


class Head:
    """Reads and writes the head file of one database."""

    def __init__(self, path: Path) -> None:
        self.existed = path.exists()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        self._synced_s = 0.0
        slots = [_slot(os.pread(self._file, SLOT.size, at * SLOT.size)) for at in (0, 1)]
        self.number, self.time_us = max((each for each in slots if each), default=(0, 0))
        self.damaged = self.existed and (slots[0] is None or slots[1] is None)

    def write(self, number: int, time_us: int, sync: bool = False) -> None:
        """Record that this commit is durable."""
        self.number, self.time_us = number, time_us
        os.pwrite(self._file, _packed(number, time_us), number % 2 * SLOT.size)
        now_s = time.monotonic()
        if sync or now_s - self._synced_s >= SYNC_S:
            self._synced_s = now_s
            os.fdatasync(self._file)

    def reset(self, number: int, time_us: int) -> None:
        """Make both slots hold this commit, durably."""
        for each in (number - 1, number):
            self.write(each, time_us, sync=True)

    def close(self) -> None:
        os.close(self._file)


def head_of(database: Path) -> Path:
    """The head file of a database."""
    return database.with_suffix(".head")


def _packed(number: int, time_us: int) -> bytes:
    return SLOT.pack(number, time_us, _digest(number, time_us))


def _slot(packed: bytes) -> tuple[int, int] | None:
    """Number and time in a slot; None if it is damaged."""
    if len(packed) < SLOT.size:
        return None
    number, time_us, digest = SLOT.unpack(packed)
    return (number, time_us) if digest == _digest(number, time_us) else None


def _digest(number: int, time_us: int) -> bytes:
    return blake2b(struct.pack(">QQ", number, time_us), digest_size=16, person=b"head").digest()
