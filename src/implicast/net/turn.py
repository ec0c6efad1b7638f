"""What the nodes of one process share, for they share a loop and a disk: who commits, and when the loop is calm."""

import asyncio
from weakref import WeakKeyDictionary

CALM_S = 0.002
"""How long a commit waits, at most, until what has come is worked off."""


class Turn:
    """Nodes of one process commit one after the other: they share a disk, and what waits for its turn gathers more.
    Four at a time were no sooner done with all of it, and took a third more CPU."""

    __slots__ = ("lock", "reads")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.reads = 0
        """How often a connection of these nodes has read something."""

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
