"""A file of a node belongs to one process at a time: two would take turns in one life, and answer for each other."""

import contextlib
import fcntl
import os
import time
from pathlib import Path

PATIENCE_S = 2.0
"""A process that was told to stop may take a moment."""


class Lock:
    """Held by one process; the system lets go of it however the process ends. It stands beside the file: SQLite has
    locks of its own on the file itself."""

    def __init__(self, path: Path) -> None:
        """`TimeoutError`: another process has it."""
        self._file = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + PATIENCE_S
        while not self._taken():
            if time.monotonic() > deadline:
                os.close(self._file)
                raise TimeoutError
            time.sleep(0.05)

    def _taken(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)
