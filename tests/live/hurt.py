"""Nodes as processes to which things are done: killed at the worst moment, starved, shifted in time, cut off.

What happens inside a process is put in before its node starts, in the child alone: the node's code knows nothing of it.
"""

import asyncio
import multiprocessing
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from implicast.net.commands.local import NodeProcesses, run_node
from implicast.net.config import address_of, read_config
from implicast.net.storage.store import Store
from implicast.net.transport import clock, connection_pool
from implicast.net.transport.connection import Connection

SLOW_S = 4.0


@dataclass(frozen=True)
class Hurt:
    """What is wrong with a process from its start."""

    dies_at_commit: bool = False
    """Killed between the commit of a notice and its confirmation."""
    shifted_s: float = 0.0
    """Its wall clock is off by so much."""
    loss: float = 0.0
    delay_s: float = 0.0


def run_hurt(folder, said, hurt):
    """As `run_node`, in a child."""
    shift_ns = [int(hurt.shifted_s * 1e9)]
    clock.Clock.__init__.__defaults__ = (lambda: time.time_ns() + shift_ns[0],)
    signal.signal(
        signal.SIGUSR2,
        lambda number, frame: shift_ns.__setitem__(0, random.choice((-1, 1)) * 3600 * 10**9),
    )
    _from_own_address(address_of(read_config(folder).listen)[0])
    _slowly()
    if hurt.dies_at_commit:
        _dies_at_commit()
    if hurt.loss or hurt.delay_s:
        _lossy(hurt)
    run_node(folder, said)


def _from_own_address(host):
    """Connections leave from the address of the node, so that a rule of the kernel can cut two nodes off."""
    connect = asyncio.BaseEventLoop.create_connection

    async def create_connection(self, factory, to_host, port, **options):
        return await connect(self, factory, to_host, port, local_addr=(host, 0), **options)

    asyncio.BaseEventLoop.create_connection = create_connection


def _dies_at_commit():
    lay, seal, noticed = Store.insert_rows, Store.commit_transaction, []

    def laid(self, writes):
        noticed.extend(statement for statement, _ in writes if "into notices" in statement)
        lay(self, writes)

    def committed_and_dead(self):
        seal(self)
        if noticed:
            os.kill(os.getpid(), signal.SIGKILL)

    Store.insert_rows, Store.commit_transaction = laid, committed_and_dead


def _lossy(hurt):
    send, chance = connection_pool.ConnectionPool.send, random.Random(7)

    def lossy(self, *arguments):
        if chance.random() >= hurt.loss:
            asyncio.get_running_loop().call_later(
                hurt.delay_s * chance.random(), send, self, *arguments
            )

    connection_pool.ConnectionPool.send = lossy


def _slowly():
    """After SIGUSR1 the process reads one byte a second from each connection, for a while."""
    until, get_buffer, updated = [0.0], Connection.get_buffer, Connection.buffer_updated

    def slow_buffer(self, hint):
        buffer = get_buffer(self, hint)
        return buffer[:1] if time.monotonic() < until[0] else buffer

    def slow_updated(self, count):
        updated(self, count)
        if time.monotonic() < until[0] and self.transport is not None:
            self.transport.pause_reading()
            asyncio.get_running_loop().call_later(1.0, _resume, self.transport)

    def _resume(transport):
        if not transport.is_closing():
            transport.resume_reading()

    Connection.get_buffer, Connection.buffer_updated = slow_buffer, slow_updated
    signal.signal(
        signal.SIGUSR1, lambda number, frame: until.__setitem__(0, time.monotonic() + SLOW_S)
    )


class HurtProcesses(NodeProcesses):
    """Processes that can be hurt. They are forked by a process without threads."""

    def __init__(self, local, hurt=None):
        super().__init__(local)
        self._fork = multiprocessing.get_context("fork")
        self.hurt = hurt or Hurt()

    def start(self, folder, said=None, hurt=None):
        process = self._fork.Process(
            target=run_hurt, args=(folder, said, hurt or self.hurt), daemon=True
        )
        process.start()
        self.running[folder.name] = process

    def signal(self, name, number):
        os.kill(self.running[name].pid, number)

    def wait_dead(self, name, seconds):
        """Is the process gone within so many seconds?"""
        process = self.running[name]
        process.join(seconds)
        if process.is_alive():
            return False
        self.running.pop(name)
        return True

    def memory_kb(self, name):
        """What the process has for itself alone; what it shares with its parent since the fork does not count."""
        text = Path(f"/proc/{self.running[name].pid}/smaps_rollup").read_text()
        return sum(
            int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")
        )


# --- the namespace in which a schedule runs


def prepare_namespace():
    """Loopback up, and room for rules before the kernel's own."""
    for words in ("link set lo up", "rule add pref 100 lookup local", "rule del pref 0"):
        subprocess.run(["ip", *words.split()], check=True, capture_output=True)


def cut(one, other):
    """No packet crosses between two groups of hosts."""
    for a in one:
        for b in other:
            for source, to in ((a, b), (b, a)):
                subprocess.run(
                    ["ip", "rule", "add", "pref", "10", "from", source, "to", to, "blackhole"],
                    check=True,
                )


def heal():
    while not subprocess.run(
        ["ip", "rule", "del", "pref", "10"], capture_output=True, check=False
    ).returncode:
        pass


def small_disk(folder, kilobytes):
    """The folder moves onto a disk of its own."""
    aside = folder.with_name(folder.name + ".aside")
    folder.rename(aside)
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], check=True
    )
    for each in aside.iterdir():
        (folder / each.name).write_bytes(each.read_bytes())
        (folder / each.name).chmod(each.stat().st_mode & 0o777)


def give_back(folder):
    subprocess.run(["umount", "-l", str(folder)], check=False)


def fill_disk(folder):
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            return


def free_disk(folder):
    (folder / "filler").unlink()
