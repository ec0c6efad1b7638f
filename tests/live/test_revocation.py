"""Who was revoked is cut off everywhere, soon; certificates are renewed; clocks are compared."""

import asyncio
import contextlib
import subprocess
import time
from datetime import timedelta

import msgspec
import pytest

from implicast.net.commands.local import LocalNetwork, sample_members
from implicast.net.identity.authority import REVOKED, CertificateAuthority
from implicast.net.identity.authority_service import AuthorityService
from implicast.net.identity.keys import own_key, pem
from implicast.net.identity.revocation import RevocationError, signed_list
from implicast.net.node import Node, NodeError
from implicast.net.storage.store import Store
from implicast.net.transport.clock import Clock
from implicast.net.transport.frames import Frames
from loopback import running


def network(directory, count, design="centralised"):
    return running(LocalNetwork(directory / "net", design, sample_members(count), {}, limits=False))


async def began(node):
    await node.join()
    await node.describe("gpu")


async def until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.02)


async def spread(directory, count, design):
    """Seconds until a list told to one node is known to all, and nobody is connected with the revoked one."""
    async with network(directory, count, design) as nodes:
        authority = CertificateAuthority.open(directory / "net" / "ca")
        victim = nodes[f"n{count:02d}"]
        authority.revoke(f"n{count:02d}")
        others = [node for node in nodes.values() if node is not victim]
        begun = time.monotonic()
        others[0].revocations.accept(authority.revoked())
        await until(lambda: all(node.revocations.number == 1 for node in others), 30)
        await until(
            lambda: all(
                victim.name not in [each.name for each in node.pool.connected_nodes()]
                for node in others
            )
        )
        seconds = time.monotonic() - begun
        receipt = await others[-1].cast("gpu | eu | training | vision", b"x", wait=1.0)
        await asyncio.sleep(0.3)
        await until(lambda: victim.driver.stopped)  # it has learned why it is cut off, and ends
        await asyncio.sleep(1.0)
        authority.close()
    store = Store(directory / "net" / f"n{count:02d}" / "node.db")
    heard = [bytes(row[3]) for row in store.inbox()]
    store.close()
    return seconds, heard, receipt, len(victim.pool.connected_nodes())


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_a_list_told_to_one_node_reaches_all_and_the_revoked_one_hears_nothing_more(
    tmp_path, design
):
    seconds, heard, _, connections = asyncio.run(spread(tmp_path, 8, design))

    assert seconds < 10
    assert heard == []
    assert connections == 0


def test_the_authority_of_an_overlay_expels_whom_its_network_has_revoked(tmp_path):
    """Its places count no more at any member, and it is given none, also when the authority begins again."""

    async def story():
        async with network(tmp_path, 4, "bft") as nodes:
            authority, victim = CertificateAuthority.open(tmp_path / "net" / "ca"), nodes["n04"]
            (office,) = (node for node in nodes.values() if node.config.role == "authority")
            others = [node for node in nodes.values() if node is not victim and node is not office]
            authority.revoke("n04")
            others[0].revocations.accept(authority.revoked())
            authority.close()
            await until(lambda: office.peer.authority.has_expelled(victim.name), 30)
            number = office.peer.authority.listed
            office.expel_from_overlay({victim.name})
            assert office.peer.authority.listed == number, "it is said once"
            await until(lambda: all(knows(node, victim.name) for node in others), 30)

    def knows(node, name):
        revocation = node.peer.graph.places.certificate_store.trust.revocation
        return revocation is not None and name in revocation.names

    asyncio.run(story())


@pytest.mark.long
def test_at_fifty_nodes_all_know_within_thirty_seconds(tmp_path):
    seconds, heard, _, _ = asyncio.run(spread(tmp_path, 50, "dht"))

    assert seconds < 30
    assert heard == []


def test_a_list_counts_when_the_authority_signed_it_and_it_is_newer(tmp_path):
    async def story():
        async with network(tmp_path, 2) as nodes:
            authority = CertificateAuthority.open(tmp_path / "net" / "ca")
            other = own_key(tmp_path / "other.key")
            one = nodes["n01"].revocations
            with pytest.raises(RevocationError, match="not signed"):
                one.accept(signed_list(other, 7, (nodes["n02"].name,)))
            authority.revoke("n02")
            first = authority.revoked()
            assert one.accept(first)
            assert not one.accept(first), "not twice"
            with pytest.raises(RevocationError):
                one.accept(msgspec.structs.replace(first, number=9))
            authority.close()
        async with Node.open(tmp_path / "net" / "n01") as again:
            return again.revocations.number, len(again.pool.banned)

    assert asyncio.run(story()) == (1, 1), "it outlives the node"


def test_numbers_of_lists_are_never_used_again(tmp_path):
    authority = CertificateAuthority.init(tmp_path / "ca", "lab")
    for label in ("ann", "bob"):
        authority.issue(label, own_key(tmp_path / label).public_key())
    authority.revoke("ann")
    authority.close()
    again = CertificateAuthority.open(tmp_path / "ca")
    again.revoke("bob")

    assert again.revoked().number == 2
    assert len(again.revoked().names) == 2
    assert msgspec.msgpack.decode((tmp_path / "ca" / REVOKED).read_bytes())[0] == 2


NOISE = b"\0" * 64


@pytest.fixture
def fed(monkeypatch):
    """All that reaches a reader of frames."""
    seen, feed = [], Frames.feed
    monkeypatch.setattr(
        Frames, "feed", lambda self, data: seen.append(bytes(data)) or feed(self, data)
    )
    return seen


def s_client(address, *options):
    """What a real client of TLS hears: (bytes of the node's own frames, what it says went wrong)."""
    command = [
        "openssl",
        "s_client",
        "-connect",
        f"{address[0]}:{address[1]}",
        "-tls1_3",
        "-quiet",
        *options,
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as client:
        time.sleep(0.3)
        with contextlib.suppress(BrokenPipeError):
            client.stdin.write(NOISE)
            client.stdin.flush()
        heard, said = client.communicate(timeout=10)
        return heard, said.decode()


def test_openssl_without_with_a_strangers_and_with_a_revoked_certificate_is_closed_before_a_frame_is_read(
    tmp_path, fed
):
    async def story():
        stranger = CertificateAuthority.init(tmp_path / "other", "other")
        (tmp_path / "eve.pem").write_bytes(
            pem(stranger.issue("eve", own_key(tmp_path / "eve.key").public_key()))
        )
        async with network(tmp_path, 3) as nodes:
            authority = CertificateAuthority.open(tmp_path / "net" / "ca")
            authority.revoke("n03")
            node, folder = nodes["n01"], tmp_path / "net" / "n03"
            heard, read = await trial(
                node, "-cert", folder / "node.pem", "-key", folder / "node.key"
            )
            assert heard and read, "before it is revoked it is heard"  # noqa: PT018
            node.revocations.accept(authority.revoked())
            heard = [
                await trial(node, *options)
                for options in (
                    (),
                    ("-cert", tmp_path / "eve.pem", "-key", tmp_path / "eve.key"),
                    ("-cert", folder / "node.pem", "-key", folder / "node.key"),
                )
            ]
            authority.close()
            return heard

    async def trial(node, *options):
        before = fed.count(NOISE)
        heard, _ = await asyncio.to_thread(s_client, node.address, *map(str, options))
        return heard, fed.count(NOISE) - before

    for heard, read in asyncio.run(story()):
        assert heard == b"", "not even a hello"
        assert read == 0, "nothing reached a reader of frames"


def test_a_certificate_is_renewed_at_two_thirds_by_the_office_and_used_at_once(tmp_path):
    async def story():
        async with network(tmp_path, 2) as nodes:
            folder = tmp_path / "net" / "n01"
            authority = CertificateAuthority.open(tmp_path / "net" / "ca")
            office = AuthorityService(authority, "127.0.0.1", 0)
            port = await office.listen()
            old = authority.issue(
                "n01", own_key(folder / "node.key").public_key(), timedelta(seconds=60)
            )
            (folder / "node.pem").write_bytes(pem(old))
            node = nodes["n01"]
            node.credentials.check_folder()
            assert node.credentials.due, "issued five minutes back, for one minute more"
            node.config.authority = f"127.0.0.1:{port}"
            task = asyncio.create_task(
                node.credentials.watch(node.services, node.clock, lambda: node.config.authority)
            )
            await until(lambda: not node.credentials.due, 15)
            task.cancel()
            receipt = await nodes["n02"].cast("gpu & eu & training", b"x")
            await office.pool.close()
            authority.close()
            return (node.credentials.until - old.not_valid_after_utc).days, receipt.notified

    days, notified = asyncio.run(story())
    assert days >= 29
    assert notified == 1


def test_an_expired_certificate_is_refused(tmp_path, fed):
    async def story():
        async with network(tmp_path, 2) as nodes:
            folder = tmp_path / "net" / "n02"
            authority = CertificateAuthority.open(tmp_path / "net" / "ca")
            old = authority.issue(
                "n02", own_key(folder / "node.key").public_key(), timedelta(seconds=-1)
            )
            (tmp_path / "old.pem").write_bytes(pem(old))
            authority.close()
            node = nodes["n01"]
            heard, _ = await asyncio.to_thread(
                s_client,
                node.address,
                "-cert",
                str(tmp_path / "old.pem"),
                "-key",
                str(folder / "node.key"),
            )
            return heard, fed.count(NOISE)

    assert asyncio.run(story()) == (b"", 0)


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_a_node_whose_clock_is_a_minute_off_does_not_begin(tmp_path, design, monkeypatch):
    async def story():
        async with network(tmp_path, 3, design) as nodes:
            first = nodes["n01"]
            await Node.stop(nodes["n03"])
            ahead = lambda monotonic: Clock(monotonic, lambda: time.time_ns() + 61 * 10**9)  # noqa: E731
            monkeypatch.setattr("implicast.net.transport.layer.Clock", ahead)
            async with Node.open(tmp_path / "net" / "n03") as late:
                with pytest.raises(NodeError, match=r"clock is 6\d.* s ahead of its neighbours"):
                    await began(late)
            return first.status()["clock_offset_s"]

    assert abs(asyncio.run(story())) < 2, "one that is off does not move the middle"


def test_a_jump_of_the_machines_clock_moves_nothing_and_is_told():
    wall, monotonic = [10**18], [5.0]
    clock = Clock(lambda: monotonic[0], lambda: wall[0])
    before = clock.now_us()
    wall[0] += 3600 * 10**9
    monotonic[0] += 1.0

    assert clock.now_us() - before == 1_000_000
    assert round(clock.jumped_s) == 3599


def test_the_offset_is_the_middle_of_the_neighbours_and_is_said_from_two_seconds_on(caplog):
    clock = Clock(lambda: 5.0, lambda: 10**18)
    for number, off_s in enumerate((0.1, 3.0, 3600.0)):
        clock.compare(bytes([number]) * 16, clock.now_us() + int(off_s * 1e6))

    assert round(clock.offset_s, 3) == 3.0
    assert "3.0 s behind" in caplog.text
