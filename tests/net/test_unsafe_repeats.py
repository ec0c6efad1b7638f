"""A notification that is not safe yet is not confirmed, however often the member is told of it."""

import asyncio
import sqlite3
import time
from types import SimpleNamespace

import pytest

from implicast.casting.bft.coverage import CastHopAck
from implicast.casting.condcast.messages import ArcsCovered
from implicast.casting.designs import design
from implicast.casting.notifier import NotifyAck, NotifyAgainAck
from implicast.casting.open_casts import CastProgress
from implicast.casting.spice.traversal_messages import CoverageReport, RepeatCoverageReport
from implicast.net.application.driver import reports_notices
from implicast.net.application.events import Deliveries, PeerEvents
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.identity.signing import PendingSignature
from implicast.net.transport.counters import Counters
from implicast.peer.contract import CastId
from implicast.peer.events import Notice, Settled
from implicast.peer.signing import SignedMessage

PEOPLE = [MemberSpec("ann", "samba"), MemberSpec("bob", "jazz"), MemberSpec("cy", "jazz, chess")]


def without_room(store):
    def no_room():
        store.rollback()
        raise sqlite3.OperationalError("database or disk is full")

    return no_room


async def story(directory, name):
    """What is known of a cast while the disk of one member is full, and when there is room again."""
    local = LocalNetwork(
        directory / "net", name, PEOPLE, dict(design(name).quick), plain=True, limits=False
    )
    local.create_folders()
    tasks = InProcessNodes(local)
    await tasks.start_all()
    ann, bob = tasks.nodes["ann"], tasks.nodes["bob"]
    bob.store.commit_transaction = without_room(bob.store)
    during = await ann.cast("jazz & !chess", b"x", wait=4.0)
    del bob.store.commit_transaction
    async with asyncio.timeout(20):
        while not ann.receipt(during.cast).notified:
            await asyncio.sleep(0.1)
    inbox = len(bob.store.inbox())
    await tasks.stop()
    return during, inbox


@pytest.mark.parametrize("name", ["centralised", "opchord-pubsub", "condcast", "spice-unloaded"])
def test_a_member_whose_disk_is_full_confirms_nothing(tmp_path, name):
    during, inbox = asyncio.run(story(tmp_path, name))
    assert during.notified == 0
    assert inbox == 1


@pytest.mark.parametrize("got", [NotifyAck(None, b"", 1), NotifyAgainAck(None, b"", 1, 1)])
def test_every_word_that_a_notification_was_taken_waits_signed_or_not(got):
    """Also that of a cast that its publisher carries on: a receipt counted members that had nothing on their disks."""
    assert reports_notices(got)
    assert reports_notices(SignedMessage(got.wire, ("127.0.0.1", 1), b"", None))
    assert reports_notices(PendingSignature(None, got))


@pytest.mark.parametrize(
    "kind", [CoverageReport, RepeatCoverageReport, ArcsCovered, CastProgress, CastHopAck]
)
def test_every_report_that_counts_notices_waits_for_their_commit(kind):
    assert kind.reports_notices
    assert kind.after_commit


async def complete(node, cast):
    """The receipt of a cast, as whoever looks at it again and again sees it first complete."""
    async with asyncio.timeout(10):
        while not (receipt := node.receipt(cast)).complete:
            await asyncio.sleep(0.001)
    return receipt


async def to_oneself(directory, name, wait):
    """For each member, whether a cast to all is in its own inbox when its receipt is complete; its disk is slow."""
    local = LocalNetwork(
        directory / "net", name, PEOPLE, dict(design(name).quick), True, limits=False
    )
    local.create_folders()
    tasks = InProcessNodes(local)
    await tasks.start_all()
    found = []
    for node in (tasks.nodes[each.name] for each in PEOPLE):
        node.store.commit_transaction = slowly(node.store.commit_transaction)
        receipt = await complete(node, (await node.cast("jazz | samba", b"x", wait=wait)).cast)
        found.append(
            (receipt.notified, receipt.cast.serial in [row[2] for row in node.store.inbox()])
        )
        del node.store.commit_transaction
    await tasks.stop()
    return found


def slowly(seal):
    def sealed():
        time.sleep(0.2)
        seal()

    return sealed


@pytest.mark.parametrize("wait", [10.0, 0.0])
@pytest.mark.parametrize("name", ["centralised", "opchord-pubsub", "spice-unloaded"])
def test_a_receipt_counts_its_own_publisher_when_it_is_safe(tmp_path, name, wait):
    """Also for those who do not wait for it but look."""
    assert asyncio.run(to_oneself(tmp_path, name, wait)) == [(3, True)] * 3


async def told_in_turn():
    """What those who look see of a cast that counts its own publisher: while its notice waits for the disk, after two
    words that settle it came meanwhile, after it is safe, and after a third word in the same moment."""
    commit = asyncio.get_running_loop().create_future()
    pending_commit, seen = [commit], []
    cast = CastId(b"a" * 16, 1, 1)
    store = SimpleNamespace(
        arrival_us=lambda now_us: now_us,
        notice=lambda *row: None,
        settled=lambda *row: None,
        commit=lambda: commit,
    )
    driver = SimpleNamespace(
        commit_first=False, host=SimpleNamespace(now_us=1), pending_commit=lambda: pending_commit[0]
    )
    events = PeerEvents()
    deliveries = Deliveries(driver, store, Counters(), lambda carried: None, (events.on_event,))

    def settle(notified):
        deliveries.commit_events([Settled(cast, notified, open=3 - notified)])

    def look():
        found = events.receipts.get(cast)
        seen.append(None if found is None else found.notified)

    deliveries.commit_events([Notice(cast, b"x")])
    look()
    settle(1)
    settle(2)
    look()
    commit.set_result(None)
    pending_commit[0] = None
    settle(3)
    look()
    await asyncio.sleep(0)
    look()
    return seen


def test_a_receipt_is_told_when_what_came_before_is_safe_and_the_last_word_stays_the_last():
    assert asyncio.run(told_in_turn()) == [None, None, None, 3]
