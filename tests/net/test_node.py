"""Nodes over real sockets: casts arrive once, receipts add up, strangers stay out, what was accepted is not lost."""

import asyncio
import ssl
import time
from pathlib import Path

import msgspec
import pytest

from implicast.net.application.record import replay
from implicast.net.commands import control
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.config import NodeConfig, address_of, read_config, text_of, write_config
from implicast.net.identity.authority import CertificateAuthority
from implicast.net.identity.keys import own_key, pem
from implicast.net.node import Node, NodeError
from implicast.peer.bucket import Bucket
from implicast.peer.errors import LocalError
from loopback import running

PEOPLE = [
    MemberSpec("ann", "samba, football"),
    MemberSpec("bob", "jazz, football"),
    MemberSpec("cy", "jazz, chess"),
]


def network(directory, design="centralised", plain=True, **parameters):
    return running(LocalNetwork(directory / "net", design, PEOPLE, parameters, plain, limits=False))


async def inbox(node):
    return [note.payload async for note in node.inbox(follow=False)]


@pytest.mark.parametrize("plain", [True, False])
def test_a_cast_reaches_whom_it_describes_and_the_receipt_says_so(tmp_path, plain):
    async def story():
        async with network(tmp_path, plain=plain) as nodes:
            receipt = await nodes["cy"].cast("(samba | jazz) & football", b"hi")
            return receipt, [await inbox(nodes[name]) for name in ("ann", "bob", "cy")]

    receipt, boxes = asyncio.run(story())
    assert (receipt.expected, receipt.notified, receipt.open, receipt.complete) == (2, 2, 0, True)
    assert boxes == [[b"hi"], [b"hi"], []]


def test_nobody_matched_is_a_complete_answer(tmp_path):
    async def story():
        async with network(tmp_path) as nodes:
            return await nodes["ann"].cast("tango")

    receipt = asyncio.run(story())
    assert receipt.complete
    assert receipt.expected == 0


def test_a_note_comes_again_until_it_is_done_also_after_a_restart(tmp_path):
    async def story():
        async with network(tmp_path) as nodes:
            await nodes["cy"].cast("samba", b"one")
            await nodes["cy"].cast("samba", b"two")
            notes = [note async for note in nodes["ann"].inbox(follow=False)]
            await notes[0].done()
        async with Node.open(tmp_path / "net" / "ann", join=[]) as again:
            return await inbox(again), again.incarnation >> 16

    assert asyncio.run(story()) == ([b"two"], 2)


def test_one_that_returns_with_its_disk_is_in_its_next_life_and_reached_again(tmp_path):
    async def story():
        local = LocalNetwork(tmp_path / "net", "centralised", PEOPLE, {}, True, limits=False)
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        try:
            await tasks.nodes["ann"].cast("jazz", b"before")
            tasks.crash("bob")
            await tasks.start("bob", None)
            await asyncio.wait_for(tasks.nodes["bob"].registered.wait(), 15)
            receipt = await tasks.nodes["ann"].cast("jazz & football", b"after")
            back = tasks.nodes["bob"]
            return receipt, await inbox(back), str(back.description), back.incarnation >> 16
        finally:
            await tasks.stop()

    receipt, box, said, starts = asyncio.run(story())
    assert (receipt.expected, receipt.notified) == (1, 1)
    assert sorted(box) == [b"after", b"before"]
    assert said == "football, jazz"
    assert starts == 2


def test_bad_words_and_too_much_are_refused_in_a_sentence(tmp_path):
    async def story():
        async with network(tmp_path) as nodes:
            ann = nodes["ann"]
            with pytest.raises(LocalError, match="bytes"):
                await ann.cast("jazz", bytes((16 << 20) + 1))
            server = nodes["_server"]
            with pytest.raises(NodeError, match="server"):
                await server.cast("jazz")
            ann.application.outbox.bucket = Bucket(0.01, 2.0, time.monotonic())
            for _ in range(2):
                await ann.cast("tango")
            with pytest.raises(NodeError, match="casts per second"):
                await ann.cast("tango")

    asyncio.run(story())


def test_a_node_of_another_network_or_design_is_parted_from_with_a_sentence(tmp_path):
    async def story():
        async with network(tmp_path) as nodes:
            server = nodes["_server"]
            where = {"server": [text_of(server.address)]}
            for name, changes in (
                ("a", {"network": "other"}),
                ("b", {"parameters": {"lease_s": 5.0}}),
            ):
                config = msgspec.structs.replace(
                    NodeConfig("local", design="centralised", plain=True, infrastructure=where),
                    **changes,
                )
                async with Node.open(tmp_path / name, config) as stranger:
                    await stranger.join()
                    with pytest.raises(NodeError, match="not complete"):
                        await stranger.describe("jazz", wait=0.5)
                    yield_ = stranger.pool.last_refusal
                assert yield_
            return server.status()["counters"]["refused_strangers"], await nodes["ann"].cast("jazz")

    refused, receipt = asyncio.run(story())
    assert refused >= 2
    assert receipt.expected == 2


async def _dial(address, context):
    """Connect as a stranger and say a thousand bytes; how many bytes came back before the end."""
    try:
        reader, writer = await asyncio.open_connection(
            *address, ssl=context, server_hostname="" if context else None
        )
        writer.write(b"\0" * 1000)
        data = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return len(data)
    except (OSError, ssl.SSLError):
        return 0


def test_without_a_certificate_of_the_network_no_frame_is_read(tmp_path):
    async def story():
        other = CertificateAuthority.init(tmp_path / "other", "other")
        key = own_key(tmp_path / "other.key")
        (tmp_path / "other.pem").write_bytes(pem(other.issue("eve", key.public_key())))
        stranger, nobody = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
        for context in (stranger, nobody):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        stranger.load_cert_chain(tmp_path / "other.pem", tmp_path / "other.key")
        async with network(tmp_path, plain=False) as nodes:
            ann = nodes["ann"]
            others = [each for each in nodes.values() if each is not ann]
            before, said = ann.counters["received"], sum(each.counters["sent"] for each in others)
            heard = [await _dial(ann.address, each) for each in (stranger, nobody, None)]
            said = sum(each.counters["sent"] for each in others) - said
            return heard, ann.counters["received"] - before - said, await nodes["bob"].cast("samba")

    heard, strange, receipt = asyncio.run(story())
    assert heard == [0, 0, 0]
    assert strange <= 0, "more was received than members have said meanwhile"
    assert receipt.notified == 1


def test_a_revoked_name_is_cut_off_and_not_let_in_again(tmp_path):
    async def story():
        async with network(tmp_path, plain=False) as nodes:
            server, ann = nodes["_server"], nodes["ann"]
            server.pool.ban({ann.name})
            await asyncio.sleep(0.2)
            receipt = await nodes["bob"].cast("samba", wait=3.0)
            return receipt.notified, receipt.open + receipt.unreachable

    assert asyncio.run(story()) == (0, 1)


def test_a_configuration_comes_back_as_it_was_written(tmp_path):
    config = NodeConfig(
        'a "quoted" net',
        "dht",
        listen="[::1]:70",
        join=["a:1", "b:2"],
        parameters={"copies": 3},
        infrastructure={"server": ["c:3"]},
    )
    write_config(tmp_path, config)

    assert read_config(tmp_path) == config


@pytest.mark.parametrize("text", ["nowhere", "a:b", "a:99999", ""])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(Exception, match="not an address"):
        address_of(text)


def test_keys_are_for_their_owner_alone(tmp_path):
    own_key(tmp_path / "node.key")

    assert Path(tmp_path / "node.key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("design", ["centralised", "broker", "dht"])
def test_recorded_inputs_fed_to_a_fresh_peer_give_the_same_bytes(tmp_path, design):
    async def story():
        local = LocalNetwork(tmp_path / "net", design, PEOPLE, {}, True, limits=False)
        local.create_folders()
        tasks = InProcessNodes(local, recorded=True)
        await tasks.start_all()
        try:
            for _ in range(3):
                await tasks.nodes["ann"].cast("jazz | samba", b"x")
        finally:
            await tasks.stop()

    asyncio.run(story())
    records = sorted((tmp_path / "net").glob("*/record"))
    assert len(records) >= len(PEOPLE)
    for path in records:
        went = replay(path)
        assert went.inputs > 3
        assert went.differs_at is None, f"{path.parent.name}: {went}"


def test_a_folder_whose_path_is_too_long_for_a_socket_is_reached_all_the_same(tmp_path):
    deep = tmp_path / ("so long a name that no socket's path has room for it " * 3)

    async def story():
        async with network(deep):
            return await asyncio.to_thread(
                lambda: list(control.ask(deep / "net" / "ann", {"do": "status"}))
            )

    deep.mkdir()
    (status,) = asyncio.run(story())
    assert status["registered"] is True


def test_a_system_without_such_a_way_in_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "OPEN_FILES", Path("/nowhere"))
    with (
        pytest.raises(LocalError, match="shorter name"),
        control.socket_name(tmp_path / ("x" * 120)),
    ):
        pass
