"""Rows that are written together are those that were written one by one; nothing is read before it is safe."""

import asyncio
import sqlite3
import time
from random import Random

import pytest

from implicast.net.storage.bulk import CAST, MOST, NOTICE, RECEIPT, SETTLED, write_all
from implicast.net.storage.schema import SCHEMA, with_digests
from implicast.net.storage.store import Store
from implicast.peer.contract import CastId

DONE = "update notices set done_us = ? where publisher = ? and life = ? and serial = ?"
PUT = "insert or replace into meta values (?, ?)"
DELETE = "delete from meta where key = ?"


def writes_of_a_node(chance, count):
    """Casts that are settled later, notices that come twice and are done later, and words that replace each other."""
    casts, notices, found = [], [], []
    for number in range(count):
        kind = chance.randrange(6)
        if kind == 0:
            casts.append((1, number))
            found.append((CAST, (*casts[-1], b"t", b"p", number, number + 9)))
        elif kind == 1 and casts:
            found.append((RECEIPT, (*chance.choice(casts), b"%d" % number, number)))
        elif kind == 2 and casts:
            found.append((SETTLED, (number, *chance.choice(casts))))
        elif kind == 3:
            notices.append((b"a", 1, chance.randrange(1 + count // 2)))
            found.append((NOTICE, (*notices[-1], b"p%d" % number, "", number, number + 9)))
        elif kind == 4 and notices:
            found.append((DONE, (7, *chance.choice(notices))))
        else:
            found.append(chance.choice(((PUT, ("k", b"%d" % number)), (DELETE, ("k",)))))
    return found


def tables(db):
    return [
        db.execute(f"select * from {each} order by 1, 2").fetchall()
        for each in ("meta", "notices", "outbox", "receipts")
    ]


@pytest.mark.parametrize("seed", range(30))
def test_many_rows_a_statement_leave_what_one_by_one_leaves(seed):
    chance = Random(seed)
    together, one_by_one = (with_digests(sqlite3.connect(":memory:")) for _ in range(2))
    for db in (together, one_by_one):
        db.executescript(SCHEMA)
    writes = writes_of_a_node(chance, chance.choice((1, 5, 40, 12 * MOST)))
    while writes:
        cut = chance.randrange(1, len(writes) + 1)
        batch, writes = writes[:cut], writes[cut:]
        write_all(together, batch)
        for statement, values in batch:
            one_by_one.execute(statement, values)

    assert tables(together) == tables(one_by_one)


def test_nothing_is_read_before_it_is_safe(tmp_path, monkeypatch):
    def no_room(self):
        time.sleep(0.1)
        self.rollback()
        raise sqlite3.OperationalError("database or disk is full")

    async def read_meanwhile():
        store = Store(tmp_path / "node.db")
        with monkeypatch.context() as patched:
            patched.setattr(Store, "commit_transaction", no_room)
            store.notice(CastId(b"a" * 16, 1, 1), "", b"x", 1)
            store.commit()
            await asyncio.sleep(0.02)
            under_way, during = not store.commit_running.done(), store.inbox()
        await store.committed()
        after = store.inbox()
        store.close()
        return under_way, during, after

    under_way, during, after = asyncio.run(read_meanwhile())
    assert under_way
    assert during == []
    assert len(after) == 1
