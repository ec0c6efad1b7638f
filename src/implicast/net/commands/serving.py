"""Runs one node as a process or as a task: its control socket, its metrics, its page."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from implicast.net.commands import control
from implicast.net.config import NodeConfig
from implicast.net.errors import NodeError
from implicast.net.node import Node
from implicast.peer.errors import LocalError

READY_S = 120.0
PARENT_CHECK_S = 1.0
"""Seconds between two checks whether the parent process still runs."""

Page = Callable[[Node], AbstractAsyncContextManager[object]]
"""Serves the web page of a node while the context is entered."""


def no_page(node: Node) -> AbstractAsyncContextManager[object]:
    return contextlib.nullcontext()


GC_THRESHOLDS = (50_000, 10, 10)
"""Thresholds of the garbage collector (`gc.set_threshold`). Objects that belong to a message form
no cycles, so rare collections suffice: a tenth less CPU per delivery than with the default of 700.
"""


class StartError(LocalError):
    """The network cannot be started; the text says why."""


def freeze_heap() -> None:
    """Exclude all existing objects from garbage collection and collect rarely. Call it when the
    nodes of this process are up: a collection would pause them.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def serve_node(
    folder: Path,
    describe_as: str | None = None,
    ready: Callable[[Node], None] = lambda node: None,
    record: Path | None = None,
    page: Page = no_page,
    config: NodeConfig | None = None,
) -> None:
    """Run one node until it leaves or is cancelled: open its control socket, join, call `ready`,
    register its description.
    """
    async with Node.open(folder, config, record=record) as node:
        servers = [await control.serve(node), *await _metrics_servers(node)]
        try:
            if node.config.role == "member":
                await node.join()
            async with page(node):
                ready(node)
                if describe_as and node.description is None:
                    await node.describe(describe_as, wait=READY_S)
                await _until_left(node)
        finally:
            for server in servers:
                server.close()


async def _until_left(node: Node) -> None:
    """Wait until the node has left its network. Raises `NodeError` if it was revoked."""
    left, revoked = (
        asyncio.ensure_future(each.wait()) for each in (node.left, node.identity.revoked)
    )
    try:
        await asyncio.wait((left, revoked), return_when=asyncio.FIRST_COMPLETED)
        if revoked.done():
            raise NodeError("this node was revoked: its authority must admit a new key")
        await asyncio.sleep(1.0)
    finally:
        left.cancel()
        revoked.cancel()


async def _metrics_servers(node: Node) -> list[asyncio.Server]:
    """The metrics server, if the node's configuration has one."""
    where = node.config.metrics
    if not where:
        return []
    from implicast.net.observation import metrics

    try:
        return [await metrics.serve(node, where)]
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StartError(f"metrics cannot be served at {where}: {reason}") from None


async def _until_parent_exits(parent: int) -> None:
    """Wait until the parent process has ended."""
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_CHECK_S)


def run_node(
    folder: Path, describe_as: str | None = None, page: Page = no_page, parent: int | None = None
) -> None:
    """Run one node as a process, until a signal stops it or `parent` ends."""

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the node stops when its parent has ended
        watching = (
            asyncio.ensure_future(_until_parent_exits(parent)) if parent is not None else None
        )
        if watching is not None:
            watching.add_done_callback(lambda _: task.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await serve_node(folder, describe_as, lambda node: freeze_heap(), page=page)

    asyncio.run(main())
