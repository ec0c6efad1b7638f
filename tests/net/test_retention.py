"""Filters of `inbox` and `receipts`, and how long a node keeps what is done."""

import asyncio
import json

import pytest
from commands import started, typed, wait_until_joined

from implicast.language.parse import parse
from implicast.net.storage.durable_state import prune
from implicast.net.storage.store import Store
from implicast.peer.contract import CastId
from implicast.peer.events import Settled


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A running node that has cast three messages to itself."""
    folder = tmp_path_factory.mktemp("retention") / "ann"
    options = ("--network", "lab", "--design", "dht", "--plain", "--set", "signed=false")
    with started("node", folder, *options, "--describe", "jazz"):
        wait_until_joined(folder)
        for number in range(3):
            typed("cast", "jazz", "-m", f"m{number}", "--dir", folder, check=False)
        yield folder


def shown(*words):
    return [json.loads(line) for line in typed(*words, "--json").stdout.splitlines()]


def test_the_inbox_can_be_filtered(node):
    all_of_it = shown("inbox", "--keep", "--dir", node)
    sender = all_of_it[0]["publisher"]

    assert [each["text"] for each in all_of_it] == ["m0", "m1", "m2"]
    assert len(shown("inbox", "--keep", "--limit", 2, "--dir", node)) == 2
    assert len(shown("inbox", "--keep", "--since", "1h", "--dir", node)) == 3
    assert shown("inbox", "--keep", "--since", "0.001s", "--dir", node) == []
    assert len(shown("inbox", "--keep", "--from", sender[:6], "--dir", node)) == 3
    assert shown("inbox", "--keep", "--from", "no name", "--dir", node) == []
    assert "--since soon" in typed("inbox", "--since", "soon", "--dir", node, check=False).stderr


def test_receipts_can_be_filtered(node):
    assert len(shown("receipts", "--dir", node)) == 3
    assert len(shown("receipts", "--limit", 2, "--dir", node)) == 2
    assert len(shown("receipts", "--since", "1h", "--dir", node)) == 3
    assert shown("receipts", "--since", "0.001s", "--dir", node) == []
    assert shown("receipts", "--open", "--dir", node) == []


def test_what_is_done_and_final_is_deleted_after_its_time(tmp_path):
    async def story():
        store = Store(tmp_path / "node.db")
        for serial in (1, 2, 3):
            store.notice(CastId(b"a" * 16, 1, serial), "", b"x", serial, 1_000)
            store.cast(CastId(b"b" * 16, 1, serial), parse("jazz"), b"x", serial, 50 * serial)
        for serial, done_us in ((1, 10), (2, 90)):
            store.done(CastId(b"a" * 16, 1, serial), done_us)
            store.settled(Settled(CastId(b"b" * 16, 1, serial), 1), done_us)
        prune(store, 120, before_us=60)
        await store.committed()
        inbox = [row[2] for row in store.inbox(open_only=False)]
        outbox = [row[1] for row in store.receipts()]
        remembered = store.execute_now("select serial from remembered").fetchall()
        store.close()
        return inbox, outbox, remembered

    assert asyncio.run(story()) == ([2, 3], [3, 2], [(1,)])
