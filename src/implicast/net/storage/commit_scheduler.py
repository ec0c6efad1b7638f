"""Coordinates the nodes of one process, which share an event loop and a disk: when each commits,
and when they write to their sockets.
"""

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

log = logging.getLogger("implicast")

BUSY = 64
"""More reads than this in one iteration of the loop postpone socket writes to the next iteration.
"""
CALM_S = 0.002
"""Maximum time in seconds that a commit waits for the loop to become idle."""


class CommitScheduler:
    """Serialises the commits of the nodes of one process. They share a disk, and rows that arrive
    while a node waits for the lock join its next commit. Four commits in parallel take as long in
    all and a third more CPU.
    """

    __slots__ = ("_flushes", "_postponed", "_reads_before", "lock", "reads")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.reads = 0
        """Number of socket reads by all connections of these nodes."""
        self._reads_before, self._postponed = 0, False
        self._flushes: list[Callable[[], None]] = []

    def flush_soon(self, flush: Callable[[], None]) -> None:
        """Call `flush` once the input that is already received has been processed."""
        if not self._flushes:
            asyncio.get_running_loop().call_soon(self._flush)
        self._flushes.append(flush)

    def _flush(self) -> None:
        """Write to all sockets, in a busy loop one iteration later.

        Bytes written in one iteration are read two iterations later, so the traffic splits into two
        halves that alternate. In a busy loop the delay merges the halves: each write then carries
        more frames (`spice-unloaded`: a fifth less CPU per delivery).
        """
        if self.reads - self._reads_before > BUSY and not self._postponed:
            self._postponed = True
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self._postponed, self._reads_before = False, self.reads
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            try:
                flush()
            except Exception:
                log.exception("a node's output could not be written")

    async def until_calm(self) -> None:
        """Wait until no connection has read anything for two iterations of the loop, at most
        `CALM_S`.

        A message is answered in the next iteration, and read by a node of this process in the one
        after. Inserting rows takes longer than processing a message, so the commit goes after the
        messages (`dht`, fifty nodes in one process: this saves 0.3 to 0.5 ms of a cast's latency).
        """
        loop = asyncio.get_running_loop()
        until_s, before = loop.time() + CALM_S, -1
        while self.reads != before and loop.time() < until_s:
            before = self.reads
            await asyncio.sleep(0)
            await asyncio.sleep(0)


_schedulers: "WeakKeyDictionary[asyncio.AbstractEventLoop, CommitScheduler]" = WeakKeyDictionary()


def scheduler_of(loop: asyncio.AbstractEventLoop) -> CommitScheduler:
    """The scheduler shared by all nodes on this loop."""
    found = _schedulers.get(loop)
    if found is None:
        found = _schedulers[loop] = CommitScheduler()
    return found
