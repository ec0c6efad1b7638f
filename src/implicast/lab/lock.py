"""Who works in a folder: one sweep at a time, and the second process is told which one was first.

The lock is a file with its holder's name that the holder renews. A holder that is dead (its process
is gone, or it renewed nothing for a minute) has lost it. On a disk the process that looks and writes keeps
out all others meanwhile, so of two that come at once, or that replace the same dead holder, one wins. An
object store has nothing for that: there one writes, waits a moment, and reads whose name stayed.
"""

import fcntl
import getpass
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from implicast.lab.errors import FolderHeld
from implicast.lab.storage import Location

RENEW_S = 10.0
STALE_S = 60.0
"""A holder elsewhere that renewed nothing for so long is taken for dead."""
SETTLE_S = 1.0
"""How long one waits, on an object store, for another name to appear over one's own."""
LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose the folder is."""

    user: str
    host: str
    pid: int
    token: str
    since: str
    renewed: float
    born: str = ""
    """When the process began, as its machine counts: a number that is given again is another
    process.
    """

    @classmethod
    def here(cls) -> "Holder":
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        return cls(
            _user(),
            socket.gethostname(),
            os.getpid(),
            os.urandom(8).hex(),
            since,
            time.time(),
            _born(os.getpid()),
        )

    def alive(self) -> bool:
        if self.host == socket.gethostname() and self.born:
            return _born(self.pid) == self.born
        return time.time() - self.renewed < STALE_S

    def __str__(self) -> str:
        return f"{self.user} on {self.host} (process {self.pid}) since {self.since}"


@contextmanager
def held(
    place: Location, wait: bool = False, said: Callable[[str], None] = lambda text: None
) -> Iterator[Holder]:
    """The folder is ours as long as this lasts; `FolderHeld` names the holder, unless one waits."""
    mine, told = Holder.here(), False
    while not _take(place / "_lock.json", mine):
        other = holder(place)
        if other is not None and not wait:
            raise FolderHeld(f"{place} is being worked on by {other}; wait for it, or give --wait")
        if other is not None and not told:
            said(f"waiting for {other}")
            told = True
        time.sleep(LOOK_S)
    stop = threading.Event()
    renewing = threading.Thread(target=_renew, args=(place / "_lock.json", mine, stop), daemon=True)
    renewing.start()
    try:
        yield mine
    finally:
        stop.set()
        renewing.join()
        (place / "_lock.json").remove()


def refuse(place: Location, wait: bool = False) -> None:
    """`FolderHeld` when another process works there, before any session is started."""
    other = holder(place)
    if other is not None and other.alive() and not wait:
        raise FolderHeld(f"{place} is being worked on by {other}; wait for it, or give --wait")


def holder(place: Location) -> Holder | None:
    """Who holds the folder; None when no process does."""
    try:
        return Holder(**json.loads((place / "_lock.json").read()))
    except (OSError, ValueError, TypeError):
        return None


def _take(lock: Location, mine: Holder) -> bool:
    if lock.local is not None:
        with _guarded(lock.local.with_name("_lock.guard")):
            return _write_if_free(lock, mine)
    if not _write_if_free(lock, mine):
        return False
    time.sleep(SETTLE_S)
    found = holder(_parent(lock))
    return found is not None and found.token == mine.token


def _write_if_free(lock: Location, mine: Holder) -> bool:
    other = holder(_parent(lock))
    if other is not None and other.alive():
        return False
    lock.write(_text(mine))
    return True


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """One process at a time; the system frees it when that one dies. Where disks have no locks, all
    may pass.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _born(pid: int) -> str:
    """Boot and tick at which the process began; empty when there is none, or no /proc to tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except OSError:
        return ""


def _renew(lock: Location, mine: Holder, stop: threading.Event) -> None:
    while not stop.wait(RENEW_S):
        with suppress(OSError):  # a full disk does not end the sweep: the next attempt may succeed
            lock.write(_text(Holder(**{**asdict(mine), "renewed": time.time()})))


def _text(mine: Holder) -> bytes:
    return (json.dumps(asdict(mine)) + "\n").encode()


def _parent(lock: Location) -> Location:
    return Location(lock.url.replace("/_lock.json", "", 1))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "another process"
