"""What comes from outside and is nonsense: counted, dropped, and no growth."""

import asyncio
import gc
import random
import socket
import ssl
import tracemalloc

import pytest

from implicast.net.carrier import HANDSHAKES_MAX, Carrier
from implicast.net.counters import Counters
from implicast.net.frames import HEADER, PROTOCOL, Frames, Hello, framed, hello_frame
from implicast.net.local import Local, Someone, Tasks
from implicast.net.services import Services
from implicast.peer.errors import RemoteError

PEOPLE = [Someone("ann", "samba, football"), Someone("bob", "jazz, football"), Someone("cy", "jazz, chess")]
FRAMES = 100_000


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
            data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xdf\xff\xff\xff"))
        if not data:
            return b"\0"
    return bytes(data)


class Heard:
    """The real messages of a network: what its nodes said to each other."""

    def __init__(self):
        self.frames = []
        self._send = Carrier.send

    def __enter__(self):
        def noted(carrier, to, body, cause, flags=0):
            if len(self.frames) < 3_000:
                self.frames.append(framed(body, flags, cause))
            self._send(carrier, to, body, cause, flags)

        Carrier.send = noted
        return self

    def __exit__(self, *_):
        Carrier.send = self._send


async def attack(directory, name, count, chance):
    """Feed mutated frames to every node of a small network; what was counted, and how memory grew."""
    local = Local(directory / "net", name, PEOPLE, {}, True, limits=False)
    local.lay_out()
    tasks = Tasks(local)
    with Heard() as heard:
        await tasks.start_all()
        for number in range(6):
            await tasks.nodes["ann"].cast("jazz | samba", str(number).encode())
            await tasks.nodes["bob"].describe(f"jazz, t{number}")
    nodes = list(tasks.nodes.values())
    hellos = [Hello(PROTOCOL, node.network, node.digest, node.name, node.address, 1, 1) for node in nodes]
    sizes = []
    tracemalloc.start()
    for number in range(count):
        node, hello = nodes[number % len(nodes)], hellos[chance.randrange(len(hellos))]
        reader = Frames()
        try:
            for flags, cause, body in reader.feed(mutated(chance, chance.choice(heard.frames))):
                if flags == 0:
                    node.driver.receive(hello, body, cause)
                elif flags == 2:
                    node.services.receive(hello, body)
        except RemoteError:
            node.counters["refused_frames"] += 1
        if number % 200 == 0:
            await asyncio.sleep(0)
        if number % (count // 4) == count // 4 - 1:
            await asyncio.sleep(0.2)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    broken = sum(node.counters["broken"] for node in nodes)
    refused = sum(node.counters["refused_frames"] for node in nodes)
    await tasks.stop()
    return broken, refused, sizes


@pytest.mark.parametrize("name", ["centralised", "dht"])
def test_mutated_frames_break_no_handler_and_grow_nothing(tmp_path, name):
    broken, refused, sizes = asyncio.run(attack(tmp_path, name, FRAMES // 20, random.Random(1)))

    assert broken == 0
    assert refused > FRAMES // 60, "most are refused while they are read"
    assert sizes[-1] < sizes[0] + 8_000_000


@pytest.mark.long
@pytest.mark.parametrize("name", ["centralised", "broker", "dht", "spice-unloaded", "condcast", "chord-pubsub"])
def test_ten_million_mutated_frames(tmp_path, name):
    broken, _, sizes = asyncio.run(attack(tmp_path, name, 10_000_000 // 6, random.Random(name)))

    assert broken == 0
    assert sizes[-1] < sizes[1] + 16_000_000


def test_a_reader_of_frames_bears_a_hundred_thousand_mutated_ones():
    chance, hello = random.Random(3), Hello(PROTOCOL, b"n", b"d", b"x" * 16, ("127.0.0.1", 1), 1, 1)
    good = [hello_frame(hello), framed(b"x" * 200, 0, 7), framed(b"", 2, 0)]
    services, counters = Services(Counters()), 0
    for _ in range(FRAMES):
        reader = Frames(largest=4_096)
        try:
            for _, _, body in reader.feed(mutated(chance, chance.choice(good))):
                services.receive(hello, body)
        except RemoteError:
            counters += 1
        assert len(reader) <= HEADER.size + 4_096 + 64
    assert counters > 1_000


def test_a_thousand_connections_of_a_stranger_leave_room_for_members(tmp_path):
    async def story():
        local = Local(tmp_path / "net", "centralised", PEOPLE, {}, limits=False)
        local.lay_out()
        tasks = Tasks(local)
        await tasks.start_all()
        server = tasks.nodes["_server"]
        lines = []
        try:
            for _ in range(1_000):
                line = socket.socket()
                line.setblocking(False)
                line.connect_ex(server.address)
                lines.append(line)
                if len(lines) % 50 == 0:
                    await asyncio.sleep(0)
            during = await tasks.nodes["ann"].cast("jazz & chess", b"x", wait=10)
            young = len(server.carrier._young)
            return during, young, server.status()["connections"]
        finally:
            for line in lines:
                line.close()
            await tasks.stop()

    receipt, young, connections = asyncio.run(story())
    assert receipt.notified == 1
    assert young <= HANDSHAKES_MAX
    assert connections <= 4
    assert ssl.HAS_TLSv1_3
