"""A network on loopback, with its own authority: its folders, its nodes as processes or as tasks of one process."""

import asyncio
import contextlib
import gc
import json
import multiprocessing
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from implicast.casting.designs import design
from implicast.language.parameters import Setting
from implicast.net import control
from implicast.net.authority import CertificateAuthority
from implicast.net.config import NodeConfig, write_config
from implicast.net.enrolment import enrol
from implicast.net.identity import own_key, pem
from implicast.net.node import Node
from implicast.peer.errors import LocalError

MARK = "local.json"
"""Says that a folder was made here, and may be made anew."""
CA = "ca"
"""The folder of the network's authority."""
READY_S = 120.0
ORPHANED_S = 1.0
"""How often a node looks whether the process that started it is still there."""
TOGETHER = 4
"""Nodes that join at the same time: those who meet while a neighbourhood changes ask again, and that takes longer."""


Page = Callable[[Node], AbstractAsyncContextManager[object]]
"""Serves a page of a node for as long as it is entered."""


def no_page(node: Node) -> AbstractAsyncContextManager[object]:
    return contextlib.nullcontext()


RARELY = (50_000, 10, 10)
"""How often cycles are looked for in a process of nodes (`gc.set_threshold`): what goes with a message is in no cycle.
In turns: a tenth less CPU for a delivery than at the usual 700."""


class StartError(LocalError):
    """The network cannot be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Someone:
    """One member: its name, and what it says of itself."""

    name: str
    text: str


@dataclass(slots=True)
class Local:
    """One network, laid out in a folder."""

    directory: Path
    design: str
    members: Sequence[Someone]
    parameters: dict[str, Setting] = field(default_factory=dict)
    plain: bool = False
    limits: bool = True
    """Are casts and messages per second limited, as on a network of strangers?"""
    journal: bool = False
    """Do nodes write a journal?"""
    apart: bool = False
    """Each node at an address of its own in 127.0.0.0/8, so that they can be cut off from each other."""
    page: Page = no_page
    """Serves the page of each member."""

    def lay_out(self) -> None:
        """The folders of all nodes, with keys and certificates; what was there from last time goes."""
        if self.directory.exists():
            if not (self.directory / MARK).exists() and any(self.directory.iterdir()):
                raise StartError(
                    f"{self.directory} holds something else; name another folder with --dir"
                )
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True, mode=0o700)
        (self.directory / MARK).write_text(
            json.dumps({"design": self.design, "members": len(self.members)})
        )
        authority = None if self.plain else CertificateAuthority.init(self.directory / CA, "local")
        infrastructure = self._infrastructure()
        places = self._places(sum(map(len, infrastructure.values())) + len(self.members))
        where = {role: [next(places) for _ in names] for role, names in infrastructure.items()}
        for role, names in infrastructure.items():
            for name, listen in zip(names, where[role], strict=True):
                self._folder(authority, name, NodeConfig("local", role=role, listen=listen), where)
        first = ""
        for number, someone in enumerate(self.members):
            listen = next(places)
            self._folder(
                authority,
                someone.name,
                NodeConfig("local", listen=listen, join=[first] * bool(first)),
                where,
            )
            first = first if number else listen
        if authority is not None:
            authority.close()

    def _places(self, count: int) -> Iterator[str]:
        for number, port in enumerate(free_ports(count)):
            yield (
                f"127.0.{number // 250}.{number % 250 + 2}:{port}"
                if self.apart
                else f"127.0.0.1:{port}"
            )

    def _infrastructure(self) -> dict[str, list[str]]:
        found = design(self.design)
        parameters = found.settle(self.parameters)
        count = found.infrastructure(len(self.members), parameters)
        return {
            role: [f"_{role}{number or ''}" for number in range(len(addresses))]
            for role, addresses in found.roles(len(self.members), count).items()
        }

    def _folder(
        self,
        authority: CertificateAuthority | None,
        name: str,
        config: NodeConfig,
        where: dict[str, list[str]],
    ) -> None:
        folder = self.directory / name
        folder.mkdir()
        config.design, config.parameters, config.infrastructure = (
            self.design,
            dict(self.parameters),
            where,
        )
        config.plain, config.journal = self.plain, self.journal
        if not self.limits:
            config.rate_per_s = config.casts_per_s = 0.0
        write_config(folder, config)
        if authority is not None:
            certificate = authority.issue(name, own_key(folder / "node.key").public_key())
            (folder / "node.pem").write_bytes(pem(certificate))
            shutil.copy(self.directory / CA / "authority.pem", folder / "authority.pem")
        if "authority" in design(self.design).kept:
            (self.directory / CA).mkdir(exist_ok=True)
            enrol(self.directory / CA, folder, config.role)

    def fixtures(self) -> list[Path]:
        return sorted(each.parent for each in self.directory.glob("_*/node.toml"))

    def folders(self) -> list[Path]:
        return [self.directory / someone.name for someone in self.members]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def everybody(count: int) -> list[Someone]:
    """So many members with descriptions that are shipped; they repeat after twenty."""
    lines = resources.files("implicast.net").joinpath("people.txt").read_text().splitlines()
    return [Someone(f"n{number + 1:02d}", lines[number % len(lines)]) for number in range(count)]


# --- running


def settle() -> None:
    """All nodes of this process are up. What is there now stays: looking through it for garbage would stop them for a
    moment, now and then."""
    gc.freeze()
    gc.set_threshold(*RARELY)


async def attend(
    folder: Path,
    said: str | None = None,
    ready: Callable[[Node], None] = lambda node: None,
    record: Path | None = None,
    page: Page = no_page,
) -> None:
    """Run one node until it is cancelled: join (then it is ready), describe itself, answer at its control socket."""
    async with Node.open(folder, record=record) as node:
        servers = [await control.serve(node), *await _measured(node)]
        try:
            if node.config.role == "member":
                await node.join()
            async with page(node):
                ready(node)
                if said and node.said is None:
                    await node.describe(said, wait=READY_S)
                await node.left.wait()
                await asyncio.sleep(1.0)
        finally:
            for server in servers:
                server.close()


async def _measured(node: Node) -> list[asyncio.Server]:
    """The page for Prometheus, where the node is to have one."""
    where = node.config.metrics
    if not where:
        return []
    from implicast.net import metrics

    try:
        return [await metrics.serve(node, where)]
    except OSError as error:
        raise StartError(
            f"metrics cannot be served at {where}: {error.strerror or error}"
        ) from None


async def _until_orphaned(parent: int) -> None:
    """Until the process that started this one is no more, however it ended."""
    while os.getppid() == parent:
        await asyncio.sleep(ORPHANED_S)


def run_node(
    folder: Path, said: str | None = None, page: Page = no_page, parent: int | None = None
) -> None:
    """One node as a process of its own, until it is told to stop, or `parent` is gone."""

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        watching = asyncio.ensure_future(_until_orphaned(parent)) if parent is not None else None
        if watching is not None:
            watching.add_done_callback(lambda _: task.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await attend(folder, said, lambda node: settle(), page=page)

    asyncio.run(main())


class Processes:
    """The nodes of a network, a process each. Forked, so that they share what has been loaded already."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self._context = multiprocessing.get_context("fork")
        self.running: dict[str, multiprocessing.process.BaseProcess] = {}

    def start(self, folder: Path, said: str | None = None) -> None:
        wanted = (folder, said, self._local.page, os.getpid())
        process = self._context.Process(target=run_node, args=wanted, daemon=True)
        process.start()
        self.running[folder.name] = process

    def start_all(self, progress: Callable[[int, int], None] = lambda done, of: None) -> float:
        """Fixtures first, then the first member, then the others, some at a time; seconds until all are registered."""
        begun = time.monotonic()
        for folder in self._local.fixtures():
            self.start(folder)
        wait_for(self._local.fixtures(), _joined)
        pairs = list(zip(self._local.folders(), self._local.members, strict=True))
        joining: list[Path] = []
        for number, (folder, someone) in enumerate(pairs):
            self.start(folder, someone.text)
            joining.append(folder)
            wait_for(joining, _joined, TOGETHER - 1 if number else 0)
        for done, _ in enumerate(wait_each([folder for folder, _ in pairs], _registered), 1):
            progress(done, len(pairs))
        return time.monotonic() - begun

    def kill(self, name: str) -> None:
        """As `kill -9`."""
        process = self.running.pop(name)
        process.kill()
        process.join()

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()
        self.running.clear()


def _registered(status: dict[str, Any]) -> bool:
    return bool(status["registered"])


def _joined(status: dict[str, Any]) -> bool:
    return bool(status["joined"])


def wait_for(folders: list[Path], is_ready: Callable[[dict[str, Any]], bool], but: int = 0) -> None:
    """Until all but so many are ready; those that are leave the list."""
    if len(folders) > but:
        for folder in wait_each(folders, is_ready):
            folders.remove(folder)
            if len(folders) <= but:
                return


def wait_each(
    folders: Sequence[Path], is_ready: Callable[[dict[str, Any]], bool]
) -> Iterator[Path]:
    """The folders as their nodes get ready; an error that names those that do not."""
    deadline, left = time.monotonic() + READY_S, list(folders)
    while left:
        for folder in list(left):
            with contextlib.suppress(control.ControlError):
                if is_ready(next(control.ask(folder, {"do": "status"}, 5.0))):
                    left.remove(folder)
                    yield folder
        if left and time.monotonic() > deadline:
            names = ", ".join(each.name for each in left[:5])
            raise StartError(f"{len(left)} nodes are not ready after {READY_S:.0f} s: {names}")
        if left:
            time.sleep(0.05)


class Tasks:
    """The nodes of a network as tasks of this process."""

    def __init__(self, local: Local, recorded: bool = False) -> None:
        """`recorded`: every node writes its inputs to `record` in its folder."""
        self._local, self._recorded = local, recorded
        self.nodes: dict[str, Node] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def start_all(
        self, progress: Callable[[int, int], None] = lambda done, of: None
    ) -> float:
        begun = time.monotonic()
        for folder in self._local.fixtures():
            await self.start(folder.name, None)
        first, *others = self._local.members
        await self.start(first.name, first.text)  # alone: the others join through it
        places = asyncio.Semaphore(TOGETHER)

        async def in_turn(someone: Someone) -> None:
            async with places:
                await self.start(someone.name, someone.text)

        await asyncio.gather(*map(in_turn, others))
        for done, someone in enumerate(self._local.members, 1):
            await asyncio.wait_for(self.nodes[someone.name].registered.wait(), READY_S)
            progress(done, len(self._local.members))
        return time.monotonic() - begun

    async def start(self, name: str, said: str | None) -> None:
        """Start a node, or start it again; returns when it is in."""
        ready: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        folder = self._local.directory / name
        record = folder / "record" if self._recorded else None
        task = asyncio.create_task(attend(folder, said, ready.set_result, record, self._local.page))
        self._tasks[name] = task
        task.add_done_callback(lambda _: ready.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await ready
        if ready.cancelled():
            await task
        self.nodes[name] = ready.result()

    def crash(self, name: str) -> None:
        """As if the process had been killed: nothing is written any more, connections break."""
        self.nodes.pop(name).crash()
        self._tasks.pop(name).cancel()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def is_running(directory: Path) -> bool:
    """Is a network running in this folder?"""
    mark = directory / "local.pid"
    try:
        os.kill(int(mark.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True
