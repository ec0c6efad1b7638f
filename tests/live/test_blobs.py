"""Large payloads: fetched whole and checked, resumed after a crash, once per reader."""

import asyncio
import contextlib
import os
import random

import pytest

from implicast.net.application.transfer import ChunkReply, ChunkRequest
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.storage.blobs import (
    BLOB_MAX,
    CHUNK_BYTES,
    BlobError,
    Blobs,
    Reference,
    leaves_of,
    referring,
    unwrapped,
    wrapped,
)

PEOPLE = [MemberSpec(f"n{number}", "jazz, football" if number else "chess") for number in range(5)]
LARGE = random.Random(1).randbytes(3 * CHUNK_BYTES + 12_345)


@contextlib.asynccontextmanager
async def network(directory, design="centralised", plain=True, people=PEOPLE):
    local = LocalNetwork(directory / "net", design, people, {}, plain, limits=False)
    local.create_folders()
    tasks = InProcessNodes(local)
    try:
        await tasks.start_all()
        yield tasks
    finally:
        await tasks.stop()


async def first(node, seconds=20):
    async with asyncio.timeout(seconds):
        return await anext(node.inbox())


def sent(tasks):
    return sum(node.counters["bytes_sent"] for node in tasks.nodes.values())


@pytest.mark.parametrize("payload", [b"", b"x", b"\x00implicast\x00\x01evil", b"\x00implicast\x00"])
def test_what_travels_inside_comes_back_whatever_it_looks_like(payload):
    assert unwrapped(wrapped(payload)) == payload


def test_a_reference_comes_back_and_a_broken_one_is_plain_bytes():
    reference = Reference(b"r" * 32, 5, (), "a.txt")

    assert unwrapped(referring(reference)) == reference
    assert isinstance(unwrapped(referring(reference)[:-3]), bytes)


@pytest.mark.parametrize(("design", "plain"), [("centralised", False), ("dht", True)])
def test_a_large_payload_reaches_all_whole_and_costs_once_per_reader(tmp_path, design, plain):
    async def story():
        async with network(tmp_path, design, plain) as tasks:
            before = sent(tasks)
            receipt = await tasks.nodes["n0"].cast("jazz", LARGE, name="noise.bin")
            notes = [await first(tasks.nodes[f"n{number}"]) for number in range(1, 5)]
            await asyncio.sleep(0.1)
            return (
                receipt,
                notes,
                sent(tasks) - before,
                tasks.nodes["n0"].payloads.fetched(receipt.cast),
            )

    receipt, notes, bytes_sent, fetched = asyncio.run(story())
    assert receipt.notified == 4
    assert [note.payload == LARGE for note in notes] == [True] * 4
    assert {note.name for note in notes} == {"noise.bin"}
    assert all(note.path.read_bytes() == LARGE for note in notes)
    assert bytes_sent <= 1.3 * 4 * len(LARGE) + 4096
    assert fetched == {"have": 4, "expected": 4, "size": len(LARGE)}


def test_a_reader_that_falls_in_the_middle_goes_on_where_it_was(tmp_path):
    async def story():
        async with network(tmp_path, people=PEOPLE[:2]) as tasks:
            publisher, asked = tasks.nodes["n0"], []
            give = publisher.payloads.transfers.on_chunk_request

            def two_only(hello, wanted):
                asked.append(wanted.number)
                if len(asked) <= 2:
                    give(hello, wanted)

            publisher.services.register(ChunkRequest, two_only)
            await publisher.cast("jazz", LARGE, wait=0.2)
            while tasks.nodes["n1"].status()["fetching"] != ["2 of 4 chunks"]:
                await asyncio.sleep(0.02)
            tasks.crash("n1")
            again = []
            publisher.services.register(
                ChunkRequest, lambda *told: again.append(told[1].number) or give(*told)
            )
            await tasks.start("n1", None)
            return (await first(tasks.nodes["n1"])).payload == LARGE, len(again)

    assert asyncio.run(story()) == (True, 2)


def test_chunks_that_are_on_the_disk_are_not_fetched_again(tmp_path):
    blobs, other = Blobs(tmp_path / "a"), Blobs(tmp_path / "b")
    for each in ("a", "b"):
        (tmp_path / each).mkdir()
    root, size = blobs.add(LARGE)
    reference, leaves = Reference(root, size, ()), blobs.leaves(root)

    assert other.begin_fetch(reference, leaves) == set()
    other.put_chunk(reference, 2, blobs.chunk(root, 2))
    other.put_chunk(reference, 3, b"something else")
    assert other.begin_fetch(reference, leaves) == {2}, "what is wrong does not count"
    for number in (0, 1, 3):
        other.put_chunk(reference, number, blobs.chunk(root, number))
    other.finish_fetch(reference)
    assert other.read(root) == LARGE


def test_a_holder_that_gives_something_else_is_not_believed(tmp_path):
    async def story():
        async with network(tmp_path, people=PEOPLE[:2]) as tasks:
            publisher, given = tasks.nodes["n0"], []

            def lie(hello, wanted):
                given.append(wanted.number)
                publisher.services.send(
                    hello.address, ChunkReply(wanted.root, wanted.number, b"lies")
                )

            publisher.services.register(ChunkRequest, lie)
            await publisher.cast("jazz", LARGE, wait=0.2)
            await asyncio.sleep(1.0)
            open_notes = [note async for note in tasks.nodes["n1"].inbox(follow=False)]
            transfers = publisher.payloads.transfers
            publisher.services.register(ChunkRequest, transfers.on_chunk_request)
            return given, open_notes, (await first(tasks.nodes["n1"])).payload == LARGE

    given, open_notes, same = asyncio.run(story())
    assert given
    assert open_notes == [], "a note is handed out when its payload is whole"
    assert same


def test_what_is_too_large_is_refused_in_a_sentence_and_not_fetched(tmp_path):
    async def story():
        async with network(tmp_path, people=PEOPLE[:2]) as tasks:
            with pytest.raises(BlobError, match="the limit is"):
                await tasks.nodes["n0"].cast("jazz", bytes(BLOB_MAX + 1))
            tasks.nodes["n1"].config.payload_max = 50_000
            await tasks.nodes["n0"].cast("jazz", LARGE, name="big")
            return await first(tasks.nodes["n1"])

    note = asyncio.run(story())
    assert (note.payload, note.name, note.path) == (b"", "big", None)


def test_the_oldest_that_nobody_needs_go_when_there_is_too_much(tmp_path):
    blobs = Blobs(tmp_path)
    roots = [blobs.add(bytes([number]) * 50_000)[0] for number in range(4)]
    for number, root in enumerate(roots):
        os.utime(blobs.path(root), (number, number))
    blobs.evict({roots[0]}, most=120_000)

    assert [blobs.whole(root) for root in roots] == [True, False, False, True]


def test_leaves_are_the_digests_of_chunks():
    assert len(leaves_of(iter((b"a", b"b")))) == 2
