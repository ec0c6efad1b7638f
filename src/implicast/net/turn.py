"""What the nodes of one process share, for they share a loop and a disk: who commits, and when the loop is calm."""

import asyncio
import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

log = logging.getLogger("implicast")

BUSY = 64
"""Reads in a turn of the loop from which on what is to be written waits for those of the next one."""
CALM_S = 0.002
"""How long a commit waits, at most, until what has come is worked off."""


class Turn:
    """Nodes of one process commit one after the other: they share a disk, and what waits for its turn gathers more.
    Four at a time were no sooner done with all of it, and took a third more CPU."""

    __slots__ = ("_flushes", "_put_off", "_reads_before", "lock", "reads")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.reads = 0
        """How often a connection of these nodes has read something."""
        self._reads_before, self._put_off = 0, False
        self._flushes: list[Callable[[], None]] = []

    def flush_soon(self, flush: Callable[[], None]) -> None:
        """Call this when all that has come is worked off."""
        if not self._flushes:
            asyncio.get_running_loop().call_soon(self._flush)
        self._flushes.append(flush)

    def _flush(self) -> None:
        """What is written in a turn is read in the next but one, so each of two turns has half of what is under way. A
        busy loop has all of it in one of them, and more on each connection at a time (in turns, `spice-unloaded`: a
        fifth less CPU for a delivery)."""
        if self.reads - self._reads_before > BUSY and not self._put_off:
            self._put_off = True
            asyncio.get_running_loop().call_soon(self._flush)
            return
        self._put_off, self._reads_before = False, self.reads
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            try:
                flush()
            except Exception:
                log.exception("what a node had to say could not be written")

    async def calm(self) -> None:
        """Wait until no connection has read anything for two turns of the loop: what comes is answered in the next
        one, and read by a node of this process in the one after. Putting rows in takes longer than a message takes on
        its way through a node, and nobody waits for it as long as messages come (in turns, `dht`, fifty nodes in a
        process: 0.3 to 0.5 ms of a cast's way to its members)."""
        loop = asyncio.get_running_loop()
        until_s, before = loop.time() + CALM_S, -1
        while self.reads != before and loop.time() < until_s:
            before = self.reads
            await asyncio.sleep(0)
            await asyncio.sleep(0)


_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, Turn]" = WeakKeyDictionary()


def turn_of(loop: asyncio.AbstractEventLoop) -> Turn:
    """The turn of all nodes that run on this loop."""
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = Turn()
    return found
