"""Mutated frames for every node of a small network: no handler breaks down over one, and nothing grows.

    python tests/live/mutants.py 1000000 [--small] [DESIGN ...]
    python tests/live/mutants.py 10000000 --read [DESIGN ...]

feeds so many to each design, one after the other, and says of each what it cost and how memory grew, a line of JSON;
exit code 1 when a handler broke down. `--small`: tables of signatures that were found sound are small, and so full from
the beginning; else they fill for two million frames. `--read`: frames are cut and decoded, as they are before any
handler, and so many in all.
"""

import asyncio
import contextlib
import functools
import gc
import json
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from implicast.casting.designs import design
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.identity import signing as net_signing
from implicast.net.transport.connection_pool import DIAL_S, ConnectionPool
from implicast.net.transport.frames import PROTOCOL, Frames, Hello, framed, hello_frame, read_hello
from implicast.peer import identity, signing
from implicast.peer.errors import RemoteError

PEOPLE = [
    MemberSpec("ann", "samba, football"),
    MemberSpec("bob", "jazz, football"),
    MemberSpec("cy", "jazz, chess"),
]
DESIGNS = (
    "centralised",
    "broker",
    "dht",
    "dht-naive",
    "spice",
    "spice-unloaded",
    "condcast",
    "bft",
    "chord-pubsub",
    "opchord-pubsub",
)
QUARTERS = 4
REST_S, DIALLED_S = 0.2, DIAL_S + 2.0
"""How long nodes rest before their memory is looked at: for messages under way, and for addresses that nobody has."""
TABLE_MAX = 128
"""Signatures that a node of small tables remembers."""


@contextlib.contextmanager
def small_tables():
    """Nodes that are made meanwhile remember few sound signatures: what grows then is no table that fills."""
    sound = net_signing.SHARED_VERIFIER.verified_signatures
    before = signing.CHECKED_MAX, identity.CHECKED_MAX, sound.bound
    sound.clear()
    signing.CHECKED_MAX = identity.CHECKED_MAX = sound.bound = TABLE_MAX
    try:
        yield
    finally:
        signing.CHECKED_MAX, identity.CHECKED_MAX, sound.bound = before


def forget_decoded():
    """Empty what remembers values as decoded or worked out: each has a bound, and fills with whatever comes."""
    for each in gc.get_objects():
        if type(each) is functools._lru_cache_wrapper and each.__module__.startswith(
            "implicast."
        ):  # asks no proxy
            each.cache_clear()


def mutated(chance, frame):
    """A frame with some of it changed, cut off, doubled or made up."""
    data = bytearray(frame)
    for _ in range(chance.randrange(1, 4)):
        kind, at = chance.randrange(5), chance.randrange(len(data))
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.randrange(256)
        elif kind == 2 and len(data) > 2:
            del data[at : at + chance.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        else:
            data[at : at + 4] = chance.choice(
                (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xdf\xff\xff\xff")
            )
        if not data:
            return b"\0"
    return bytes(data)


class Heard:
    """The real messages of a network: what its nodes said to each other."""

    def __init__(self):
        self.frames = []
        self._send = ConnectionPool.send

    def __enter__(self):
        def noted(pool, to, body, serial, flags=0):
            if len(self.frames) < 3_000:
                self.frames.append(framed(body, flags, serial))
            self._send(pool, to, body, serial, flags)

        ConnectionPool.send = noted
        return self

    def __exit__(self, *_):
        ConnectionPool.send = self._send


class Network:
    """Three nodes that have spoken to each other, and all that they said."""

    def __init__(self, directory, name):
        self._local = LocalNetwork(
            directory / "net", name, PEOPLE, dict(design(name).quick), True, limits=False
        )
        self._local.create_folders()
        self._tasks = InProcessNodes(self._local)

    async def __aenter__(self):
        with Heard() as heard:
            await self._tasks.start_all()
            for number in range(6):
                await self._tasks.nodes["ann"].cast("jazz | samba", str(number).encode())
                await self._tasks.nodes["bob"].describe(f"jazz, t{number}", wait=60)
        self.frames, self.nodes = heard.frames, list(self._tasks.nodes.values())
        self.hellos = [
            Hello(PROTOCOL, node.network, node.digest, node.name, node.address, 1, 1)
            for node in self.nodes
        ]
        return self

    async def __aexit__(self, *_):
        await self._tasks.stop()

    async def rest(self, most_s):
        """Until nobody is being dialled any more, or so long: what waits for an answer is no growth."""
        until = time.monotonic() + most_s
        await asyncio.sleep(REST_S)
        while time.monotonic() < until and any(node.pool.waiting for node in self.nodes):
            await asyncio.sleep(REST_S)

    def count(self, name):
        return sum(node.counters[name] for node in self.nodes)

    def feed(self, chance, node):
        """One mutated frame, as if it had come from one of them."""
        hello = chance.choice(self.hellos)
        try:
            for flags, serial, body in Frames().feed(mutated(chance, chance.choice(self.frames))):
                if flags == 0:
                    node.driver.receive(hello, body, serial)
                elif flags == 2:
                    node.services.receive(hello, body)
        except RemoteError:
            node.counters["refused_frames"] += 1

    def read(self, chance, node):
        """One mutated frame, read as far as its message."""
        try:
            for flags, _, body in Frames().feed(mutated(chance, chance.choice(self.frames))):
                (
                    node.driver.own_codec
                    if flags == 0
                    else node.services.codec
                    if flags == 2
                    else HELLOS
                ).decode(body)
        except RemoteError:
            node.counters["refused_frames"] += 1


class Hellos:
    """Reads hellos as a connection does."""

    def decode(self, body):
        return read_hello(body)


HELLOS = Hellos()


async def attack(directory, name, count, chance, memory, reading=False, rest_s=REST_S):
    """Feed mutated frames to every node; what was counted, and the memory at the end of every quarter, after a rest of
    at most `rest_s`."""
    async with Network(directory, name) as network:
        sizes, feed = [], network.read if reading else network.feed
        if reading:
            network.frames += [hello_frame(each) for each in network.hellos]
        for number in range(count):
            feed(chance, network.nodes[number % len(network.nodes)])
            if number % 200 == 0:
                await asyncio.sleep(0)
            if number % (count // QUARTERS) == count // QUARTERS - 1:
                await network.rest(rest_s)
                forget_decoded()
                gc.collect()
                sizes.append(memory())
        return network.count("broken"), network.count("refused_frames"), sizes


def written_bytes():
    """Memory that this process has written to, and shares with nobody. Pages of libraries that it has only read do not
    count: they are its own or shared as other processes come and go, 3 MiB up and down."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return sum(
        int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private_Dirty")
    )


def run(name, count, reading=False):
    """One design, told as a row."""
    begun, wall = time.process_time(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        chance = random.Random(name)
        attacked = attack(Path(folder), name, count, chance, written_bytes, reading, DIALLED_S)
        broken, refused, sizes = asyncio.run(attacked)
    return {
        "design": name,
        "read" if reading else "frames": count,
        "broken": broken,
        "refused": refused,
        "cpu_s": round(time.process_time() - begun, 1),
        "seconds": round(time.monotonic() - wall, 1),
        "mib_after_each_quarter": [round(each / (1 << 20), 1) for each in sizes],
    }


def main(said):
    logging.disable(logging.WARNING)
    broken, reading = 0, "--read" in said
    names = [each for each in said[1:] if not each.startswith("--")] or DESIGNS
    for name in names:
        with small_tables() if "--small" in said else contextlib.nullcontext():
            row = run(name, int(said[0]) // (len(names) if reading else 1), reading)
        broken += row["broken"]
        print(json.dumps(row), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
