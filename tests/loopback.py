"""A network of tasks on loopback, for as long as a test needs it."""

import contextlib
from collections.abc import AsyncIterator

from implicast.net.commands.local import InProcessNodes, LocalNetwork
from implicast.net.node import Node


@contextlib.asynccontextmanager
async def running(local: LocalNetwork) -> AsyncIterator[dict[str, Node]]:
    """Its nodes by name, joined and registered."""
    local.create_folders()
    tasks = InProcessNodes(local)
    try:
        await tasks.start_all()
        yield tasks.nodes
    finally:
        await tasks.stop()
