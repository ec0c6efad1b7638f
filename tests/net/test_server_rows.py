"""A server writes down what has changed, not what there is; and what it reads again is what it kept."""

import asyncio
import sqlite3
from random import Random

import msgspec
import pytest

from implicast.casting.central_subscriptions import PublishEvent, Subscribe
from implicast.casting.centralised.server import Server
from implicast.casting.client_registry import Register
from implicast.casting.designs import design
from implicast.casting.notifier import NotifyAck
from implicast.casting.open_casts import Publish
from implicast.language.parse import description, parse
from implicast.net.storage.durable_state import DurableStateStore
from implicast.net.storage.schema import connect
from implicast.net.storage.store import Store
from implicast.peer.contract import CastId
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of, version_of
from implicast.peer.site import Site
from sites import sealed

DESIGN = design("centralised")

FIRST_SCHEMA = """
create table meta (key text primary key, value blob) without rowid;
create table notices (
    publisher blob, life integer, serial integer, payload blob, target text,
    arrived_us integer, done_us integer,
    primary key (publisher, life, serial)) without rowid;
create index notices_open on notices (arrived_us) where done_us is null;
create table outbox (
    life integer, serial integer, target blob, payload blob, made_us integer,
    until_us integer, settled_us integer,
    primary key (life, serial)) without rowid;
create table receipts (life integer, serial integer, settled blob, at_us integer,
    primary key (life, serial)) without rowid;
"""
"""The tables of files of the first version."""


def server(kept=None):
    parameters = DESIGN.settle({"assurance": "receipts"})
    site = Site(
        name_of(b"", 0),
        1,
        0,
        Ledger(seed=1, now_us=10**15),
        parameters,
        b"",
        {"server": (0,)},
        None,
        kept,
    )
    return Server(site)


def registered(peer, number, words="jazz", again=1):
    peer.receive(number, Register(name_of(b"", number), version_of(1, again), description(words)))


def written(store, keep, peer):
    """Bytes and rows of one commit."""
    store.pending_writes.clear()
    keep.write(peer)
    return sum(len(msgspec.msgpack.encode(values)) for _, values in store.pending_writes), len(
        store.pending_writes
    )


@pytest.mark.parametrize("count", [10, 10_000])
def test_one_more_registration_costs_the_same_however_many_there_are(tmp_path, count):
    store, peer = Store(tmp_path / "node.db"), server()
    keep = DurableStateStore(store, DESIGN, "server")
    for number in range(1, count + 1):
        registered(peer, number)
    whole, _ = written(store, keep, peer)

    registered(peer, count + 1)
    size, rows = written(store, keep, peer)
    idle = written(store, keep, peer)

    assert whole > 30 * count
    assert (size < 150, rows, idle) == (True, 1, (0, 0))
    store.pending_writes.clear()
    store.close()


def muddle(peer, rng, serials):
    """One input of a server, at random."""
    number = rng.randrange(1, 30)
    name, cast = name_of(b"", number), CastId(name_of(b"", number), 1, next(serials))
    kind = rng.randrange(6)
    if kind < 2:
        said = (
            None
            if rng.random() < 0.2
            else description(rng.choice(("jazz", "jazz, samba", "samba")))
        )
        peer.receive(number, Register(name, version_of(1, next(serials)), said))
    elif kind == 2:
        target = None if rng.random() < 0.3 else parse("jazz")
        peer.receive(number, Subscribe(name, 1, rng.randrange(3), next(serials), target))
    elif kind == 3:
        peer.receive(number, Publish(cast, parse("jazz"), sealed(b"x", 10**15), False))
    elif kind == 4:
        peer.receive(number, PublishEvent(cast, description("jazz"), sealed(b"x", 10**15)))
    elif peer.forwarding.notifying:
        told = rng.choice(list(peer.forwarding.notifying))
        for contact in peer.forwarding.notifying[told][1]:
            peer.receive(contact.address, NotifyAck(told, contact.name, 0))


@pytest.mark.parametrize("seed", range(5))
def test_what_was_written_row_by_row_is_what_was_kept(tmp_path, seed):
    async def story():
        rng, peer, serials = Random(seed), server(), iter(range(1, 10_000))
        store = Store(tmp_path / "node.db")
        keep = DurableStateStore(store, DESIGN, "server")
        for _ in range(40):
            for _ in range(rng.randrange(12)):
                muddle(peer, rng, serials)
            if rng.random() < 0.1:
                peer.clients._forgotten(
                    name := name_of(b"", rng.randrange(1, 30)), peer.clients.forget(name)
                )
            keep.write(peer)
            await store.committed()
            found = DurableStateStore(store, DESIGN, "server").read()
            assert in_order(found) == in_order(peer.durable_state())
        again = server(found)
        DurableStateStore(store, DESIGN, "server").write(
            again
        )  # as after a restart: all of it, once
        await store.committed()
        assert in_order(DurableStateStore(store, DESIGN, "server").read()) == in_order(
            again.durable_state()
        )
        store.close()
        return len(found.members), len(found.subscriptions), len(found.casts)

    assert all(asyncio.run(story())), "the muddle is empty"


def in_order(kept):
    return (
        kept.incarnation,
        kept.members,
        sorted(kept.subscriptions, key=repr),
        kept.casts,
        kept.complaint_log,
    )


def test_a_file_of_the_first_version_is_migrated_with_what_was_kept(tmp_path):
    peer = server()
    for number in range(1, 4):
        registered(peer, number)
    db = sqlite3.connect(tmp_path / "node.db", isolation_level=None)
    db.executescript(f"begin; {FIRST_SCHEMA} pragma user_version=1; commit;")
    db.execute(
        "insert into meta values ('kept', ?)", (msgspec.msgpack.encode(peer.durable_state()),)
    )
    db.close()

    store = Store(tmp_path / "node.db")
    found = DurableStateStore(store, DESIGN, "server").read()
    store.close()

    assert found == peer.durable_state()


def test_the_names_of_stored_parts_are_those_in_existing_files(tmp_path):
    """A node folder made by an earlier version must still open: `kept_rows.part` holds field names
    of the durable state, so renaming such a field needs a migration of the rows.
    """
    peer, rng, serials = server(), Random(1), iter(range(1, 10_000))
    store = Store(tmp_path / "node.db")
    for _ in range(300):
        muddle(peer, rng, serials)

    async def write():
        DurableStateStore(store, DESIGN, "server").write(peer)
        await store.committed()

    asyncio.run(write())
    store.close()
    db = connect(tmp_path / "node.db")
    parts = {part for (part,) in db.execute("select distinct part from kept_rows")}
    keys = {key for (key,) in db.execute("select key from meta")}
    db.close()

    assert parts == {"members", "subscriptions", "casts"}
    assert keys == {"kept", "commits"}
