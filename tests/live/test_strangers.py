"""What comes from outside and is nonsense: counted, dropped, and no growth."""

import asyncio
import random
import socket
import ssl
import tracemalloc

import pytest
from mutants import DESIGNS, DIALLED_S, PEOPLE, attack, mutated, small_tables, written_bytes

from implicast.net.commands.local import InProcessNodes, LocalNetwork
from implicast.net.transport.connection_pool import HELLOS_PENDING_MAX
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import HEADER, PROTOCOL, Frames, Hello, framed, hello_frame
from implicast.net.transport.services import Services
from implicast.peer.errors import RemoteError

FRAMES = 100_000


def traced():
    """Bytes that Python objects take."""
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("name", ["centralised", pytest.param("dht", marks=pytest.mark.long)])
def test_mutated_frames_break_no_handler_and_grow_nothing(tmp_path, name):
    tracemalloc.start()
    broken, refused, sizes = asyncio.run(
        attack(tmp_path, name, FRAMES // 20, random.Random(1), traced)
    )
    tracemalloc.stop()

    assert broken == 0
    assert refused > FRAMES // 60, "most are refused while they are read"
    assert sizes[-1] < sizes[0] + 8_000_000


@pytest.mark.long
@pytest.mark.parametrize("name", DESIGNS)
def test_ten_million_mutated_frames(tmp_path, name):
    count, chance = 10_000_000 // len(DESIGNS), random.Random(name)
    with small_tables():
        broken, _, sizes = asyncio.run(
            attack(tmp_path, name, count, chance, written_bytes, rest_s=DIALLED_S)
        )

    assert broken == 0
    assert sizes[-1] < sizes[1] + 2_000_000


def test_a_reader_of_frames_bears_a_hundred_thousand_mutated_ones():
    chance, hello = random.Random(3), Hello(PROTOCOL, b"n", b"d", b"x" * 16, ("127.0.0.1", 1), 1, 1)
    good = [hello_frame(hello), framed(b"x" * 200, 0, 7), framed(b"", 2, 0)]
    services, counters = Services(Counters(), None), 0
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
        local = LocalNetwork(tmp_path / "net", "centralised", PEOPLE, {}, limits=False)
        local.create_folders()
        tasks = InProcessNodes(local)
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
            young = len(server.pool.awaiting_hello)
            return during, young, server.status()["connections"]
        finally:
            for line in lines:
                line.close()
            await tasks.stop()

    receipt, young, connections = asyncio.run(story())
    assert receipt.notified == 1
    assert young <= HELLOS_PENDING_MAX
    assert connections <= 4
    assert ssl.HAS_TLSv1_3
