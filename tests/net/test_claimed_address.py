"""A member that claims the address of another one receives nothing that is for it."""

import asyncio

import pytest

from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.transport.connection_pool import ConnectionPool
from implicast.net.transport.counters import Counters
from implicast.net.transport.frames import PROTOCOL, Hello
from implicast.net.transport.tls import contexts, name_in

CASTS = 10
PEOPLE = [MemberSpec("ann", "jazz"), MemberSpec("bob", "samba"), MemberSpec("eve", "rock")]


async def attacked(folder, design, attacks):
    """Casts to bob; eve claims his address at all nodes. Returns his messages, the messages for
    peers that eve reads, and the receipts.
    """
    local = LocalNetwork(folder / "net", design, PEOPLE, limits=False)
    local.create_folders()
    tasks = InProcessNodes(local)
    await tasks.start_all()
    ann, bob, eve = (tasks.nodes[each.name] for each in PEOPLE)
    tasks.crash("eve")
    read = []
    claim = Hello(
        PROTOCOL, bob.network, bob.digest, eve.name, bob.address, eve.incarnation + (1 << 20), 1
    )
    tls = contexts(
        *(folder / "net" / "eve" / each for each in ("node.key", "node.pem", "authority.pem"))
    )
    pool = ConnectionPool(
        lambda: claim, lambda hello, body, serial: read.append(body), Counters(), *tls, name_in
    )
    try:
        targets = [node.address for name, node in tasks.nodes.items() if name != "eve"]
        receipts = []
        for number in range(CASTS):
            if attacks:
                if number == CASTS // 2:  # the victim's own connections end; eve's are there first
                    for node in (ann, bob, *(tasks.nodes[path.name] for path in local.fixtures())):
                        drop(node, bob.name)
                for address in targets:
                    pool.send(address, b"", 0)
                await asyncio.sleep(0.05)
            receipts.append(await ann.cast("samba", b"secret %d" % number, wait=20))
        inbox = [note.payload async for note in bob.inbox(follow=False)]
        return inbox, [body for body in read if b"secret" in body], receipts
    finally:
        await pool.close()
        await tasks.stop()


def drop(node, name):
    for connection in list(node.pool._open):
        if connection.hello is not None and connection.hello.name == name:
            connection.abort()


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("condcast", "spice-unloaded")]


@pytest.mark.parametrize("design", ["centralised", "dht", *LONG])
def test_the_victim_receives_all_and_the_attacker_nothing(tmp_path, design):
    inbox, read, receipts = asyncio.run(attacked(tmp_path, design, True))

    assert sorted(inbox) == sorted(b"secret %d" % number for number in range(CASTS))
    assert read == []
    assert [receipt.notified for receipt in receipts] == [1] * CASTS
