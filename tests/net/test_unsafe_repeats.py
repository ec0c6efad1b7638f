"""A notification that is not safe yet is not confirmed, however often the member is told of it."""

import asyncio
import sqlite3
import time

import pytest

from implicast.casting.designs import design
from implicast.casting.telling import Got, GotAgain
from implicast.net.driver import _confirms
from implicast.net.local import Local, Someone, Tasks
from implicast.peer.words import Said

PEOPLE = [Someone("ann", "samba"), Someone("bob", "jazz"), Someone("cy", "jazz, chess")]


def without_room(store):
    def no_room():
        store._undo()
        raise sqlite3.OperationalError("database or disk is full")

    return no_room


async def story(directory, name):
    """What is known of a cast while the disk of one member is full, and when there is room again."""
    local = Local(directory / "net", name, PEOPLE, dict(design(name).quick), plain=True, limits=False)
    local.lay_out()
    tasks = Tasks(local)
    await tasks.start_all()
    ann, bob = tasks.nodes["ann"], tasks.nodes["bob"]
    bob.store._seal = without_room(bob.store)
    during = await ann.cast("jazz & !chess", b"x", wait=4.0)
    del bob.store._seal
    async with asyncio.timeout(20):
        while not ann.receipt(during.cast).notified:
            await asyncio.sleep(0.1)
    inbox = len(bob.store.inbox())
    await tasks.stop()
    return during, inbox


@pytest.mark.parametrize("name", ["centralised", "opchord-pubsub"])
def test_a_member_whose_disk_is_full_confirms_nothing(tmp_path, name):
    during, inbox = asyncio.run(story(tmp_path, name))
    assert during.notified == 0
    assert inbox == 1


@pytest.mark.parametrize("got", [Got(None, b"", 1), GotAgain(None, b"", 1, 1)])
def test_every_word_that_a_notification_was_taken_waits_signed_or_not(got):
    """Also that of a cast that its publisher carries on: a receipt counted members that had nothing on their disks."""
    assert _confirms(got)
    assert _confirms(Said(got.wire, ("127.0.0.1", 1), b"", None))


async def to_oneself(directory):
    """For each member, whether a cast to all is in its own inbox when its receipt is complete; its disk is slow."""
    local = Local(directory / "net", "opchord-pubsub", PEOPLE, dict(design("opchord-pubsub").quick), True, limits=False)
    local.lay_out()
    tasks = Tasks(local)
    await tasks.start_all()
    found = []
    for node in tasks.nodes.values():
        node.store._seal = slowly(node.store._seal)
        receipt = await node.cast("jazz | samba", b"x", wait=10.0)
        found.append((receipt.notified, receipt.cast.serial in [row[2] for row in node.store.inbox()]))
        del node.store._seal
    await tasks.stop()
    return found


def slowly(seal):
    def sealed():
        time.sleep(0.2)
        seal()

    return sealed


def test_a_receipt_counts_its_own_publisher_when_it_is_safe(tmp_path):
    assert asyncio.run(to_oneself(tmp_path)) == [(3, True)] * 3
