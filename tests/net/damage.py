"""Databases of nodes that are damaged in all ways, and what the store says of it.

python tests/net/damage.py 1000     flips in the log, in the database; truncations; old files
"""

import asyncio
import contextlib
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from implicast.language.parse import parse
from implicast.net.storage.store import Store, StoreError
from implicast.peer.contract import CastId
from implicast.peer.events import Settled

ANN = b"a" * 16
COMMITS, PER_COMMIT = 30, 4


async def _fill(folder, begun, keep_log):
    store = Store(folder / "node.db")
    for commit in range(begun, begun + COMMITS):
        for number in range(PER_COMMIT):
            serial = commit * PER_COMMIT + number + 1
            store.notice(CastId(ANN, 1, serial), "", b"message %d" % serial * 20, serial)
        own = CastId(ANN, 2, commit + 1)
        store.cast(own, parse("jazz"), b"own %d" % commit, commit + 1, 1 << 50)
        store.settled(Settled(own, 2), commit + 1)
        store.put("kept", b"state %d" % commit)
        await store.committed()
    if keep_log:
        # A killed process leaves the log as it is; a copy of its files is what the disk holds.
        killed = folder.with_name(folder.name + "-killed")
        shutil.copytree(folder, killed)
        store.close()
        shutil.rmtree(folder)
        killed.rename(folder)
    else:
        store.close()


def made(folder, keep_log=True):
    """A folder with a database, half of it in the database file and half in the log."""
    folder.mkdir()
    asyncio.run(_fill(folder, 0, False))
    asyncio.run(_fill(folder, COMMITS, keep_log))
    return folder


def content(store):
    rows = [tuple(map(_plain, row)) for row in store.inbox(open_only=False, most=100_000)]
    casts = [(*row[:2], str(row[2]), row[3], row[4]) for row in store.receipts(100_000)]
    return rows, casts, store.get("kept")


def _plain(value):
    return bytes(value) if isinstance(value, bytes | memoryview) else value


def flip(path, chance):
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def truncate(path, chance):
    os.truncate(path, chance.randrange(path.stat().st_size))


def outcome(folder, sound):
    """`refused` in a sentence, `noticed`, `same` content as before, or `silent`: other content and
    no notice.
    """
    try:
        store = Store(folder / "node.db")
    except StoreError:
        return "refused"
    try:
        found = content(store)
        if store.new_losses:
            return "noticed"
        return "same" if found == sound else "silent"
    finally:
        with contextlib.suppress(Exception):
            store.close()


def campaign(count, hurt, file, seed=1, keep_log=True):
    """Counts of the outcomes of `count` damaged copies of one folder."""
    chance, counts = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as base:
        original = made(Path(base) / "original", keep_log)
        copy = Path(base) / "copy"
        shutil.copytree(original, copy)
        store = Store(copy / "node.db")
        sound = content(store)
        store.close()
        assert not store.new_losses
        assert len(sound[0]) == 2 * COMMITS * PER_COMMIT
        for _ in range(count):
            shutil.rmtree(copy)
            shutil.copytree(original, copy)
            hurt(copy / file, chance)
            counts[outcome(copy, sound)] += 1
    return counts


CAMPAIGNS = {
    "flips in the log": (flip, "node.db-wal", 1, True),
    "flips in the database": (flip, "node.db", 1, False),
    "flips in the head file": (flip, "node.head", 0.1, True),
    "truncations of the log": (truncate, "node.db-wal", 0.1, True),
    "truncations of the database": (truncate, "node.db", 0.1, False),
}


if __name__ == "__main__":
    for name, (hurt, file, share, keep_log) in CAMPAIGNS.items():
        counts = campaign(int(int(sys.argv[1]) * share), hurt, file, keep_log=keep_log)
        print(name, dict(counts), flush=True)
