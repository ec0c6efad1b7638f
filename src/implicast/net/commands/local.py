"""A network on loopback with its own authority: creates its folders and runs its nodes, as
processes or as tasks of one process.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from implicast.casting.designs import design
from implicast.language.parameters import Setting
from implicast.net.commands import control
from implicast.net.commands.serving import (
    READY_S,
    Page,
    StartError,
    freeze_heap,
    no_page,
    run_node,
    serve_node,
)
from implicast.net.config import NodeConfig, write_config
from implicast.net.identity.authority import CertificateAuthority
from implicast.net.identity.enrolment import enrol
from implicast.net.identity.keys import own_key, pem
from implicast.net.node import Node
from implicast.net.storage.files import make_private_folder, write_private

__all__ = [
    "InProcessNodes",
    "LocalNetwork",
    "MemberSpec",
    "NodeProcesses",
    "Page",
    "StartError",
    "freeze_heap",
    "no_page",
    "run_node",
    "serve_node",
]

MARK = "local.json"
"""Marks a folder that `create_folders` made and may replace."""
CA = "ca"
"""Name of the folder of the network's authority."""
JOINS_AT_ONCE = 4
"""Nodes that join at once. With more, joins that affect the same neighbourhood collide, and their
retries take longer.
"""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: its name and its description."""

    name: str
    text: str


@dataclass(slots=True)
class LocalNetwork:
    """A network with its folders."""

    directory: Path
    design: str
    members: Sequence[MemberSpec]
    parameters: dict[str, Setting] = field(default_factory=dict)
    plain: bool = False
    limits: bool = True
    """Limit casts and messages per second, as on a public network."""
    journal: bool = False
    """Nodes write a journal."""
    separate_addresses: bool = False
    """Give each node its own address in 127.0.0.0/8, so that tests can partition them."""
    page: Page = no_page
    """Serves the web page of each member."""

    def create_folders(self) -> None:
        """Create the folders of all nodes, with keys and certificates. Deletes an existing local
        network in the folder.
        """
        if self.directory.exists():
            if not (self.directory / MARK).exists() and any(self.directory.iterdir()):
                raise StartError(
                    f"{self.directory} holds other files; choose another folder with --dir"
                )
            shutil.rmtree(self.directory)
        make_private_folder(self.directory)
        mark = {"design": self.design, "members": len(self.members)}
        write_private(self.directory / MARK, json.dumps(mark))
        authority = None if self.plain else CertificateAuthority.init(self.directory / CA, "local")
        infrastructure = self._infrastructure()
        addresses = self._addresses(sum(map(len, infrastructure.values())) + len(self.members))
        where = {role: [next(addresses) for _ in names] for role, names in infrastructure.items()}
        for role, names in infrastructure.items():
            for name, listen in zip(names, where[role], strict=True):
                self._folder(authority, name, NodeConfig("local", role=role, listen=listen), where)
        first = ""
        for number, member in enumerate(self.members):
            listen = next(addresses)
            self._folder(
                authority,
                member.name,
                NodeConfig("local", listen=listen, join=[first] * bool(first)),
                where,
            )
            first = first if number else listen
        if authority is not None:
            authority.close()

    def _addresses(self, count: int) -> Iterator[str]:
        for number, port in enumerate(free_ports(count)):
            yield (
                f"127.0.{number // 250}.{number % 250 + 2}:{port}"
                if self.separate_addresses
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
        make_private_folder(folder)
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
            write_private(folder / "node.pem", pem(certificate))
            root = (self.directory / CA / "authority.pem").read_bytes()
            write_private(folder / "authority.pem", root)
        if "authority" in design(self.design).durable_types:
            make_private_folder(self.directory / CA)
            enrol(self.directory / CA, folder, config.role)

    def fixtures(self) -> list[Path]:
        return sorted(each.parent for each in self.directory.glob("_*/node.toml"))

    def folders(self) -> list[Path]:
        return [self.directory / member.name for member in self.members]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def sample_members(count: int) -> list[MemberSpec]:
    """Members with the descriptions in `people.txt`, which repeat after twenty."""
    lines = resources.files("implicast.net").joinpath("people.txt").read_text().splitlines()
    return [MemberSpec(f"n{number + 1:02d}", lines[number % len(lines)]) for number in range(count)]


# --- running


class NodeProcesses:
    """Runs each node of a network as a process. Processes are forked, so that they share the loaded
    modules.
    """

    def __init__(self, local: LocalNetwork) -> None:
        self._local = local
        self._context = multiprocessing.get_context("fork")
        self.running: dict[str, multiprocessing.process.BaseProcess] = {}

    def start(self, folder: Path, describe_as: str | None = None) -> None:
        wanted = (folder, describe_as, self._local.page, os.getpid())
        process = self._context.Process(target=run_node, args=wanted, daemon=True)
        process.start()
        self.running[folder.name] = process

    def start_all(self, progress: Callable[[int, int], None] = lambda done, of: None) -> float:
        """Start infrastructure nodes, then the first member, then the others, `JOINS_AT_ONCE` at a
        time. Returns the seconds until all are registered.
        """
        begun = time.monotonic()
        for folder in self._local.fixtures():
            self.start(folder)
        wait_for(self._local.fixtures(), _joined)
        pairs = list(zip(self._local.folders(), self._local.members, strict=True))
        joining: list[Path] = []
        for number, (folder, member) in enumerate(pairs):
            self.start(folder, member.text)
            joining.append(folder)
            wait_for(joining, _joined, JOINS_AT_ONCE - 1 if number else 0)
        for done, _ in enumerate(wait_each([folder for folder, _ in pairs], _registered), 1):
            progress(done, len(pairs))
        return time.monotonic() - begun

    def kill(self, name: str) -> None:
        """Kill a node with SIGKILL."""
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
    """Wait until all but `but` nodes are ready, and remove the ready ones from the list."""
    if len(folders) > but:
        for folder in wait_each(folders, is_ready):
            folders.remove(folder)
            if len(folders) <= but:
                return


def wait_each(
    folders: Sequence[Path], is_ready: Callable[[dict[str, Any]], bool]
) -> Iterator[Path]:
    """Yield folders as their nodes become ready. Raises `StartError` with the names of those that
    do not.
    """
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


class InProcessNodes:
    """Runs the nodes of a network as tasks of this process."""

    def __init__(self, local: LocalNetwork, recorded: bool = False) -> None:
        """With `recorded`, every node writes its inputs to the file `record` in its folder."""
        self._local, self._recorded = local, recorded
        self.nodes: dict[str, Node] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def start_all(
        self, progress: Callable[[int, int], None] = lambda done, of: None
    ) -> float:
        begun = time.monotonic()
        for folder in self._local.fixtures():
            await self.start(folder.name, None)
        first, *others = self._local.members
        await self.start(first.name, first.text)  # alone, because the others join through it
        slots = asyncio.Semaphore(JOINS_AT_ONCE)

        async def start_one(member: MemberSpec) -> None:
            async with slots:
                await self.start(member.name, member.text)

        await asyncio.gather(*map(start_one, others))
        for done, member in enumerate(self._local.members, 1):
            await asyncio.wait_for(self.nodes[member.name].registered.wait(), READY_S)
            progress(done, len(self._local.members))
        return time.monotonic() - begun

    async def start(self, name: str, describe_as: str | None) -> None:
        """Start or restart a node. Returns when it has joined."""
        ready: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        folder = self._local.directory / name
        record = folder / "record" if self._recorded else None
        task = asyncio.create_task(
            serve_node(folder, describe_as, ready.set_result, record, self._local.page)
        )
        self.tasks[name] = task
        task.add_done_callback(lambda _: ready.cancel())
        with contextlib.suppress(asyncio.CancelledError):
            await ready
        if ready.cancelled():
            await task
        self.nodes[name] = ready.result()

    def crash(self, name: str) -> None:
        """Simulate a killed process: the node writes nothing more, and its connections break."""
        self.nodes.pop(name).crash()
        self.tasks.pop(name).cancel()

    async def stop(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


def is_running(directory: Path) -> bool:
    """True if a network runs in this folder."""
    mark = directory / "local.pid"
    try:
        os.kill(int(mark.read_text()), 0)
    except (OSError, ValueError):
        return False
    return True
