"""What a live network costs on this machine, in CPU seconds: the figures of
`docs/reference/live.md`.

    python bench/live/figures.py [pace] [throughput] [latency] [ready] [memory] [process]

All nodes are tasks of this process, on loopback; a delivery is a notice in the inbox of a member,
confirmed to the publisher in its receipt, and the CPU time is that of all nodes and of those who
cast. "Without inbox" means that nothing is written. "Signed" is as people run it: each notice is
checked by its receiver, each confirmation is signed and checked, about 250 us of Ed25519 for a
delivery; without it the figures say what carrying costs. `pace` says how quick the machine is at
the moment: on a busy one a CPU second is worth less. Where the system allows it, the process runs
before all others (`"scheduler": "fifo"`): else the tail of latencies is the time for which others
had the core.
"""

import asyncio
import gc
import json
import logging
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from implicast.casting.designs import DESIGN_MODULES
from implicast.net.commands.local import (
    InProcessNodes,
    LocalNetwork,
    MemberSpec,
    freeze_heap,
    sample_members,
)
from implicast.net.storage.store import Store
from implicast.net.transport.connection_pool import ConnectionPool

NODES = 50
WINDOW = 256
"""Casts under way at a time, in all: five of each node."""
WARM_ROUNDS, QUIET_ROUNDS = 20, 3
"""Rounds of casts, at most, until every connection that is needed is there: so many in which nobody
dials. One is not enough where copies move: after one 180 connections were still made while the
figure was taken.
"""


def people(groups):
    """Descriptions such that a cast to tag gK reaches one of `groups` equal groups."""
    return [MemberSpec(f"n{number:02d}", f"all, g{number % groups}") for number in range(NODES)]


class Network:
    """Fifty nodes in this process."""

    def __init__(self, design, plain, members, **parameters):
        self._folder = tempfile.TemporaryDirectory(prefix="implicast-bench-")
        self.local = LocalNetwork(
            Path(self._folder.name) / "net", design, members, parameters, plain, limits=False
        )
        self.local.create_folders()
        self.tasks = InProcessNodes(self.local)

    async def __aenter__(self):
        self.ready_s = await self.tasks.start_all()
        self.members = [self.tasks.nodes[each.name] for each in self.local.members]
        freeze_heap()  # as `implicast local --in-process` does
        return self

    async def __aexit__(self, *_):
        await self.tasks.stop()
        gc.unfreeze()
        self._folder.cleanup()

    def count(self, name):
        return sum(node.counters[name] for node in self.tasks.nodes.values())

    async def casts(self, count, target, payload=b"x" * 64):
        """So many casts, a few at a time, from all members in turn."""
        gate = asyncio.Semaphore(WINDOW)

        async def one(number):
            async with gate:
                receipt = await self.members[number % NODES].cast(
                    target(number), payload, wait=30.0
                )
                return receipt.notified

        return sum(await asyncio.gather(*(one(number) for number in range(count))))

    async def warm(self, target):
        """Casts until nobody dials any more."""
        quiet = 0
        for _ in range(WARM_ROUNDS):
            dialled = self.count("dials")
            await self.casts(4 * NODES, target)
            quiet = quiet + 1 if self.count("dials") == dialled else 0
            if quiet == QUIET_ROUNDS:
                return


class Unwritten:
    """Stores that write nothing, for the figures without inbox."""

    def __enter__(self):
        self._before = Store.write, Store.committed, Store.touch, Store.commit
        Store.write = lambda self, statement, values: None
        Store.touch = lambda self: None
        Store.committed = _at_once
        Store.commit = _done

    def __exit__(self, *_):
        Store.write, Store.committed, Store.touch, Store.commit = self._before


def _done(self):
    future = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


async def _at_once(self):
    return None


async def deliveries_per_cpu_s(design, plain, casts, signed=False, groups=5):
    async with Network(design, plain, people(groups), signed=signed) as network:
        await network.warm(lambda number: f"g{number % groups}")
        gc.collect()
        before, begun, wall = network.count("delivered"), time.process_time(), time.monotonic()
        notified = await network.casts(casts, lambda number: f"g{number % groups}")
        cpu_s, seconds = time.process_time() - begun, time.monotonic() - wall
        delivered = network.count("delivered") - before
        assert delivered == notified == casts * NODES // groups, (delivered, notified)
        return {
            "delivered": delivered,
            "cpu_s": round(cpu_s, 2),
            "per_cpu_s": round(delivered / cpu_s),
            "seconds": round(seconds, 2),
        }


def throughput(say):
    for design, casts in (("centralised", 3000), ("spice-unloaded", 2000)):
        for plain, inbox, signed in (
            (True, False, False),
            (False, False, False),
            (False, True, False),
            (False, True, True),
        ):
            with nullcontext() if inbox else Unwritten():
                found = asyncio.run(
                    deliveries_per_cpu_s(design, plain, casts // (1 + 3 * signed), signed)
                )
            say(
                {
                    "what": "deliveries per CPU second",
                    "design": design,
                    "tls": not plain,
                    "inbox": inbox,
                    "signed": signed,
                    **found,
                }
            )
        pace(say)


def pace(say):
    """How long plain work takes at the moment: packing a small message, and checking a signature."""
    from implicast.peer.contract import CastId
    from implicast.peer.signatures import Ed25519
    from implicast.peer.wire import pack

    signer, cast = Ed25519().signer(b"s" * 32), CastId(b"n" * 16, 1, 1)
    signature = signer.sign(b"text")
    pack_us = _took_us(lambda: pack(cast), 200_000)
    check_us = _took_us(lambda: Ed25519().verify(signer.public, b"text", signature), 2_000)
    say(
        {
            "what": "pace",
            "load": round(os.getloadavg()[0], 1),
            "pack_ns": round(pack_us * 1000),
            "check_us": round(check_us),
        }
    )


def _took_us(what, times):
    begun = time.process_time()
    for _ in range(times):
        what()
    return (time.process_time() - begun) / times * 1e6


async def _latency(design, casts):
    async with Network(design, False, sample_members(NODES)) as network:
        targets = ("gpu & eu", "training", "eu & !gpu", "gpu")
        for number in range(2 * NODES):  # warm: connections are there
            await network.members[number % NODES].cast(targets[number % 4], b"x", wait=10.0)
        found = []
        for number in range(casts):
            node = network.members[(7 * number) % NODES]
            begun_us = node.driver.tick()
            payload = str(number).encode()
            await node.cast(targets[number % 4], payload, wait=10.0)
            for each in network.members:
                await each.store.committed()
                found += [
                    (row[5] - begun_us) / 1000
                    for row in each.store.inbox(after_us=begun_us - 1)
                    if bytes(row[3]) == payload
                ]
            await asyncio.sleep(0.01)
        found.sort()
        return {
            "p50_ms": round(found[len(found) // 2], 2),
            "p99_ms": round(found[int(len(found) * 0.99)], 2),
            "deliveries": len(found),
        }


def latency(say):
    for design in ("centralised", "spice-unloaded", "dht"):
        say({"what": "latency, warm, TLS", "design": design, **asyncio.run(_latency(design, 100))})


def ready(say):
    """Each in a process of its own: up, joined, registered, as tasks of one process."""
    for design in DESIGN_MODULES:
        words = [
            sys.executable,
            "-m",
            "implicast",
            "local",
            str(NODES),
            "--design",
            design,
            "--in-process",
            "--casts",
            "1",
            "--json",
        ]
        with tempfile.TemporaryDirectory() as folder:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            went = subprocess.run(
                [*words, "--dir", f"{folder}/net"], capture_output=True, text=True, check=False
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row = json.loads(went.stdout) if went.stdout else {}
        say(
            {
                "what": "local 50 --in-process",
                "design": design,
                "seconds_to_ready": row.get("seconds_to_ready"),
                "cpu_s": round(cpu_s, 1),
            }
        )


async def _connections(count):
    """Bytes per end of a TLS connection: two carriers, many connections between them."""
    from implicast.net.identity.authority import CertificateAuthority
    from implicast.net.identity.keys import own_key, pem
    from implicast.net.transport.counters import Counters
    from implicast.net.transport.frames import PROTOCOL, Hello
    from implicast.net.transport.tls import contexts

    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        authority = CertificateAuthority.init(base / "ca", "bench")
        (base / "node.pem").write_bytes(
            pem(authority.issue("one", own_key(base / "node.key").public_key()))
        )
        tls = contexts(base / "node.key", base / "node.pem", base / "ca" / "authority.pem")
        authority.close()
        counters = Counters()
        says = lambda: Hello(PROTOCOL, b"n", b"d", b"x" * 16, ("127.0.0.1", 1), 1, 1)  # noqa: E731
        server = ConnectionPool(says, lambda *told: None, counters, *tls)
        port = await server.listen("127.0.0.1", 0)
        dialled = [
            ConnectionPool(says, lambda *told: None, counters, *tls) for _ in range(count)
        ]  # a buffer each, as a node
        gc.collect()
        before_kb = memory_kb()
        for each in dialled:
            each.send(("127.0.0.1", port), b"x" * 100, 0)
            await asyncio.sleep(0.004)
        await asyncio.sleep(4.0)
        gc.collect()
        grown_kb = memory_kb() - before_kb
        for each in [*dialled, server]:
            await each.close()
        return {"connections": count, "kib_per_end": round(grown_kb / count / 2, 1)}


def memory_kb():
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_"))


def memory(say):
    say({"what": "memory of a TLS connection end", **asyncio.run(_connections(400))})


def process(say):
    """One node as a process of its own: until it answers, and what it has then."""
    with tempfile.TemporaryDirectory() as folder:
        local = LocalNetwork(Path(folder) / "net", "spice-unloaded", sample_members(1))
        local.create_folders()
        code = (
            "import asyncio, resource, sys, time; from pathlib import Path; from implicast.net.node import Node\n"
            "async def main():\n"
            "    async with Node.open(Path(sys.argv[1])) as node:\n"
            "        await node.join()\n"
            "        status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)\n"
            "        used = resource.getrusage(resource.RUSAGE_SELF)\n"
            "        print(used.ru_utime + used.ru_stime, int(status['VmHWM'].split()[0]) / 1024)\n"
            "asyncio.run(main())\n"
        )
        took = []
        for _ in range(5):
            begun = time.monotonic()
            went = subprocess.run(
                [sys.executable, "-c", code, str(local.folders()[0])],
                capture_output=True,
                text=True,
                check=True,
            )
            cpu_s, peak_mb = map(float, went.stdout.split())
            took.append((time.monotonic() - begun, cpu_s, peak_mb))
        say(
            {
                "what": "node process",
                "seconds": round(min(each[0] for each in took), 2),
                "cpu_s": round(min(each[1] for each in took), 2),
                "peak_mb": round(took[-1][2], 1),
            }
        )


PARTS = {
    "pace": pace,
    "throughput": throughput,
    "latency": latency,
    "ready": ready,
    "memory": memory,
    "process": process,
}


def before_others():
    """Run before all other processes, as on a machine without any; says whether that was granted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except (OSError, AttributeError):
        return "other"
    return "fifo"


def main(words):
    logging.disable(logging.WARNING)
    print(
        json.dumps(
            {
                "python": sys.version.split()[0],
                "openssl": ssl.OPENSSL_VERSION,
                "cores": os.cpu_count(),
                "load": os.getloadavg()[0],
                "scheduler": before_others(),
            }
        )
    )
    for word in words or PARTS:
        PARTS[word](lambda row: print(json.dumps(row), flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
