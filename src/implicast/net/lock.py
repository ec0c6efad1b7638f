"""Ensures that one process at a time uses the database of a node. Two processes would act as the
same incarnation.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path

LOCK_TIMEOUT_S = 2.0
"""Seconds to wait for a process that is stopping."""


class Lock:
    """An exclusive lock on a file beside the database, because SQLite locks the database itself.
    The operating system releases it when the process ends.
    """

    def __init__(self, path: Path) -> None:
        """Raises `TimeoutError` if another process holds the lock."""
        self._file = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + LOCK_TIMEOUT_S
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
