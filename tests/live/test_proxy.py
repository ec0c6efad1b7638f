"""Light clients: heard for while they sleep, by two proxies; nothing lost, nothing twice."""

import asyncio
import contextlib

import pytest

from implicast.net.application.proxy import Proxy
from implicast.net.client import Client, ClientError
from implicast.net.commands.authority_cli import admit
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.config import read_config, text_of, write_config
from implicast.net.identity.authority import CertificateAuthority

PEOPLE = [
    MemberSpec("ann", "chess"),
    MemberSpec("p1", "proxy"),
    MemberSpec("p2", "proxy"),
    MemberSpec("p3", "proxy"),
]


@contextlib.asynccontextmanager
async def network(directory, design="centralised"):
    local = LocalNetwork(directory / "net", design, PEOPLE, {}, limits=False)
    local.create_folders()
    for folder in local.folders():
        config = read_config(folder)
        config.proxy = folder.name.startswith("p")
        write_config(folder, config)
    authority = CertificateAuthority.open(local.directory / "ca")
    for each in ("", ".standin0", ".standin1"):
        admit(authority, f"phone{each}", directory / "phone" / each.removeprefix("."), "member")
    authority.close()
    tasks = InProcessNodes(local)
    try:
        await tasks.start_all()
        yield tasks
    finally:
        await tasks.stop()


@contextlib.asynccontextmanager
async def awake(directory, tasks, *names):
    proxies = [text_of(tasks.nodes[name].address) for name in names]
    async with Client.open(directory / "phone", proxies, "local") as client:
        yield client


async def stood_in(tasks, *names):
    """Until the stand-ins are registered."""
    async with asyncio.timeout(20):
        for name in names:
            proxy = tasks.nodes[name].proxy
            while not any(node.registered.is_set() for node in proxy.stand_ins.values()):
                await asyncio.sleep(0.05)


async def texts(client):
    return [payload.decode() for _, payload in await client.fetch()]


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_what_came_while_it_slept_is_fetched_once_though_two_proxies_have_it(tmp_path, design):
    async def story():
        async with network(tmp_path, design) as tasks:
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                assert await client.describe("jazz, football") == 2
                await stood_in(tasks, "p1", "p2")
            receipts = [
                await tasks.nodes["ann"].cast("jazz & !chess", f"{number}".encode())
                for number in range(3)
            ]
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                first, second = await texts(client), await texts(client)
            return receipts[-1].notified, first, second

    assert asyncio.run(story()) == (2, ["0", "1", "2"], [])


def test_with_one_proxy_gone_the_other_has_it_and_one_that_returns_stands_in_again(tmp_path):
    async def story():
        async with network(tmp_path) as tasks:
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                await client.describe("jazz")
                await stood_in(tasks, "p1", "p2")
                proxies = client.proxies
            tasks.crash("p1")
            await tasks.nodes["ann"].cast("jazz", b"one", wait=1.0)
            async with Client.open(tmp_path / "phone", [text_of(proxies[1])], "local") as client:
                found = await texts(client)
            await tasks.start("p1", None)
            await stood_in(tasks, "p1")
            await tasks.nodes["ann"].cast("jazz", b"two", wait=5.0)
            async with Client.open(tmp_path / "phone", [text_of(proxies[0])], "local") as client:
                return found, await texts(client)

    assert asyncio.run(story()) == (["one"], ["two"]), "the cast that both have is not given twice"


def test_a_client_that_moves_to_another_proxy_misses_nothing_and_hears_nothing_twice(tmp_path):
    async def story():
        async with network(tmp_path) as tasks:
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                await client.describe("jazz")
                await stood_in(tasks, "p1", "p2")
            await tasks.nodes["ann"].cast("jazz", b"one")
            async with awake(tmp_path, tasks, "p2") as client:
                heard = await texts(client)
            await tasks.nodes["ann"].cast("jazz", b"two")
            async with awake(tmp_path, tasks, "p1") as client:
                return heard, await texts(client)

    assert asyncio.run(story()) == (["one"], ["two"])


def test_a_new_description_replaces_the_old_one_and_a_wrong_signature_is_refused(
    tmp_path, monkeypatch
):
    async def story():
        async with network(tmp_path) as tasks:
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                await client.describe("jazz")
                await stood_in(tasks, "p1", "p2")
                await client.describe("samba")
                async with asyncio.timeout(10):
                    while (await tasks.nodes["ann"].cast("jazz")).expected:
                        await asyncio.sleep(0.1)
                receipt = await tasks.nodes["ann"].cast("samba", b"x")
                client._key = type("Forger", (), {"sign": lambda self, body: b"0" * 64})()
                with pytest.raises(ClientError, match="not signed"):
                    await client.describe("doctor")
            return receipt.notified

    assert asyncio.run(story()) == 2


def test_a_node_that_is_no_proxy_serves_nobody(tmp_path, monkeypatch):
    async def story():
        async with network(tmp_path) as tasks, awake(tmp_path, tasks, "ann") as client:
            monkeypatch.setattr("implicast.net.client.ANSWER_S", 0.3)
            with pytest.raises(ClientError, match="does not answer"):
                await client.describe("jazz")
            with pytest.raises(ClientError, match="no proxy answers"):
                await client.fetch()
            return isinstance(tasks.nodes["p1"].proxy, Proxy)

    assert asyncio.run(story())


def heard(node):
    return [bytes(row[3]) for row in node.store.inbox()]


def test_a_client_casts_through_its_proxy_and_asks_again_without_a_second_cast(
    tmp_path, monkeypatch
):
    async def story():
        async with network(tmp_path) as tasks:
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                await client.describe("jazz")
                await stood_in(tasks, "p1", "p2")
                first = await client.cast("chess", b"hello")
                with pytest.raises(ClientError, match="did not cast"):
                    await client.cast("chess & ", b"nonsense")
                monkeypatch.setattr("implicast.net.client.CAST_S", 0.0)  # the answer is lost
                with pytest.raises(ClientError, match="repeats the request"):
                    await client.cast("chess", b"again")
                monkeypatch.setattr("implicast.net.client.CAST_S", 20.0)
            async with asyncio.timeout(10):
                while len(heard(tasks.nodes["ann"])) < 2:
                    await asyncio.sleep(0.05)
            tasks.crash("p1")  # it remembers what it has cast
            await tasks.start("p1", None)
            await stood_in(tasks, "p1")
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                (second,) = await client.retry_pending_casts()
                third = await client.retry_pending_casts()
            return first.notified, second.notified, third, heard(tasks.nodes["ann"])

    assert asyncio.run(story()) == (1, 1, [], [b"hello", b"again"])


def test_files_go_both_ways_between_a_client_and_the_network(tmp_path):
    theirs, own = bytes(range(256)) * 2_000, b"from the phone" * 40_000

    async def story():
        async with network(tmp_path) as tasks:
            ann = tasks.nodes["ann"]
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                await client.describe("jazz")
                await stood_in(tasks, "p1", "p2")
                receipt = await client.cast("chess", own, "song.mp3")
            async with asyncio.timeout(20):
                async for note in ann.inbox():
                    got = note.name, note.payload == own
                    break
            await ann.cast("jazz", theirs, name="map.png")
            await until_whole(tasks, "p1", "p2")
            tasks.crash("ann")  # who cast it is away when the client wakes
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                found = await client.fetch()
                return (
                    receipt.notified,
                    got,
                    [payload == theirs for _, payload in found],
                    await client.fetch(),
                )

    assert asyncio.run(story()) == (1, ("song.mp3", True), [True], [])


async def until_whole(tasks, *names):
    """Until the stand-ins have fetched what they were told of."""
    async with asyncio.timeout(20):
        for name in names:
            (standing,) = tasks.nodes[name].proxy.stand_ins.values()
            while not (rows := standing.store.inbox()) or not all(
                standing.payloads.ready(row[3]) for row in rows
            ):
                await asyncio.sleep(0.05)


def test_what_was_fetched_and_not_worked_off_is_handed_out_again_after_a_crash(tmp_path):
    async def story():
        async with network(tmp_path) as tasks:
            async with awake(tmp_path, tasks, "p1", "p2") as client:
                await client.describe("jazz")
                await stood_in(tasks, "p1", "p2")
                await tasks.nodes["ann"].cast("jazz", b"one")
                first = await texts(client)
                client.handed_out.clear()  # as if it had been killed before it came back for more
            async with awake(tmp_path, tasks, "p2", "p1") as client:
                return first, await texts(client), await texts(client)

    assert asyncio.run(story()) == (["one"], ["one"], [])
