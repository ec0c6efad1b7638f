"""What a node writes down outlives it, once each."""

import asyncio
import sqlite3
import subprocess
import sys

import pytest

from implicast.language.parse import parse
from implicast.net.storage.durable_state import prune, seen_blocks
from implicast.net.storage.store import Store, StoreError
from implicast.peer.contract import CastId
from implicast.peer.events import Settled
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.memory import Seen

ANN = b"a" * 16


def casts(count):
    return [CastId(ANN, 1, serial) for serial in range(1, count + 1)]


def test_a_notice_is_kept_once_and_given_out_until_it_is_done(tmp_path):
    async def fill():
        store = Store(tmp_path / "node.db")
        for cast in casts(3) * 2:
            store.notice(cast, "", b"x", 10 * cast.serial)
        store.done(casts(2)[1], 99)
        await store.committed()
        store.close()

    asyncio.run(fill())
    again = Store(tmp_path / "node.db")

    assert [row[2] for row in again.inbox()] == [1, 3]
    assert all(Seen(seen_blocks(again, 0)).met(cast) for cast in casts(3))
    assert again.counts() == {"inbox": 3, "inbox_open": 2, "outbox_open": 0}
    again.close()


def test_writes_that_gather_share_a_commit(tmp_path):
    async def fill():
        store = Store(tmp_path / "node.db")

        async def one(cast):
            store.notice(cast, "", b"x", 1)
            await store.committed()

        await asyncio.gather(*map(one, casts(500)))
        commits = store.commits
        store.close()
        return commits

    assert asyncio.run(fill()) <= 3


def test_a_cast_is_open_until_it_is_settled(tmp_path):
    async def fill():
        store = Store(tmp_path / "node.db")
        one, two = casts(2)
        for cast in (one, two):
            store.cast(cast, parse("jazz"), b"x", 5, 50)
        store.settled(Settled(one, 2, 0, 0, 1), 6)
        store.settled(Settled(one, 3), 7)
        store.settled(Settled(two, 0, 0, 0, 2), 8)
        await store.committed()
        found = list(store.unsettled()), store.receipt(1, 1), store.receipt(1, 2).open
        store.close()
        return found

    open_, first, left = asyncio.run(fill())
    assert [(incarnation, serial) for incarnation, serial, *_ in open_] == [(1, 2)]
    assert (first.expected, first.open, left) == (3, 0, 2)


def test_a_file_of_a_newer_version_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "node.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version=99")

    with pytest.raises(StoreError, match="newer version"):
        Store(path)


def test_a_folder_that_cannot_be_written_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="cannot be used"):
        Store(tmp_path / "file" / "node.db")


def test_what_is_done_goes_first_when_the_inbox_is_full(tmp_path):
    async def fill():
        store = Store(tmp_path / "node.db")
        for cast in casts(10):
            store.notice(cast, "", b"x", cast.serial)
        for cast in casts(10)[::2]:
            store.done(cast, 99)
        prune(store, 100, keep=7)
        await store.committed()
        left = [row[2] for row in store.inbox(open_only=False)]
        remembered = Seen(seen_blocks(store, 100))
        prune(store, 2 * LIFETIME_US, keep=7)
        await store.committed()
        later = seen_blocks(store, 2 * LIFETIME_US)
        store.close()
        return left, remembered, later

    left, remembered, later = asyncio.run(fill())
    assert left == [2, 4, 6, 7, 8, 9, 10]
    assert all(map(remembered.met, casts(10))), "the casts of deleted notices are remembered"
    assert not later, "until after their expiry"


def test_a_file_that_another_process_has_is_refused_in_a_sentence(tmp_path, monkeypatch):
    code = (
        "import time; from pathlib import Path; from implicast.net.storage.store import Store\n"
        f"store = Store(Path({str(tmp_path)!r}) / 'node.db'); print('up', flush=True); time.sleep(60)"
    )
    monkeypatch.setattr("implicast.net.storage.files.LOCK_TIMEOUT_S", 0.2)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"up\n"
        with pytest.raises(StoreError, match="in use by another process"):
            Store(tmp_path / "node.db")
        other.kill()

    Store(tmp_path / "node.db").close()


def test_what_arrives_after_the_clock_was_set_back_comes_after_what_arrived_before(tmp_path):
    async def fill(nows_us):
        store = Store(tmp_path / "node.db")
        for now_us in nows_us:
            store.notice(CastId(ANN, 1, now_us), "", b"x", store.arrival_us(now_us))
        await store.committed()
        store.close()

    asyncio.run(fill([5_000, 5_001]))
    asyncio.run(fill([300, 400, 9_000]))

    store = Store(tmp_path / "node.db")
    seen = store.inbox()
    assert [row[2] for row in seen] == [5_000, 5_001, 300, 400, 9_000]
    assert len({row[5] for row in seen}) == 5, (
        "a reader that goes on after the last one misses none"
    )
    store.close()
