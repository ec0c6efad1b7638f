"""Files and folders that only their owner may use, whatever the process's umask: folders have mode
0700, files 0600. And the lock by which one process at a time uses a node's database: two processes
would act as the same incarnation.
"""

import contextlib
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

log = logging.getLogger("implicast")

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
"""Permissions of the group and of all others."""
SUBFOLDERS = ("blobs", "clients", "journal", "standin*")
"""Folders that Implicast creates in the folder of a node or client."""
_FLAGS = {
    "wb": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "ab": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "xb": os.O_WRONLY | os.O_CREAT | os.O_EXCL,
}


def make_private_folder(path: Path) -> None:
    """Create a folder with mode 0700. An existing folder keeps its mode; parents that do not exist
    get the default mode.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=FOLDER_MODE)
        path.chmod(FOLDER_MODE)


def open_private(
    path: Path, mode: Literal["wb", "ab", "xb"] = "wb", buffering: int = -1
) -> BinaryIO:
    """Open a file for writing. It has mode 0600 before the first byte is written."""
    descriptor = os.open(path, _FLAGS[mode] | os.O_CLOEXEC, FILE_MODE)
    try:
        with contextlib.suppress(PermissionError):  # an existing file of another user
            os.fchmod(descriptor, FILE_MODE)
        return os.fdopen(descriptor, "wb", buffering)
    except BaseException:
        os.close(descriptor)
        raise


def write_private(path: Path, data: bytes | str) -> None:
    with open_private(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def touch_private(path: Path) -> None:
    """Create a file unless it exists. SQLite creates the files beside a database with the mode of
    the database file.
    """
    with contextlib.suppress(FileExistsError):
        open_private(path, "xb").close()


def tighten(folder: Path) -> None:
    """Remove the permissions of group and others from a folder of a node, client or authority, from
    the files in it, and from the subfolders that Implicast creates. Logs one line if there were
    any. Other subfolders keep their modes, and symbolic links are not followed.
    """
    changed = 0
    try:
        for path in (folder, *own_paths(folder)):
            changed += _tightened(path)
    except OSError as error:
        log.warning(
            "%s: other users may have access, because its mode cannot be changed: %s",
            error.filename or folder,
            error.strerror or error,
        )
    if changed:
        log.warning(
            "%s was open to other users: its mode is 0700 now, and 0600 for the files in it "
            "(%d changed)",
            folder,
            changed,
        )


def _tightened(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # a running node removes files of its own
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)
            return True
    return False


def own_paths(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if not path.is_dir():
            yield path
        elif any(path.match(each) for each in SUBFOLDERS):
            yield path
            yield from sorted(each for each in path.rglob("*") if not each.is_symlink())


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
