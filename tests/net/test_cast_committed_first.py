"""A cast is on the publisher's disk before its first message leaves: it reaches all members that it
selects, or none.
"""

import asyncio
import contextlib
import json
import threading
import time

import pytest

from implicast.net.commands import control
from implicast.net.commands.local import (
    InProcessNodes,
    LocalNetwork,
    MemberSpec,
    NodeProcesses,
    wait_for,
)
from implicast.net.storage.store import Store
from implicast.web.passing import cast_in

KILLS = 20
CASTS_AT_ONCE = 3
DELAYS_S = (0.0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.02, 0.2)
"""Times between a request and the kill: before the request is read, around its commit, and when all
members have the cast.
"""
OTHERS = [MemberSpec(f"p{number}", "a, b") for number in range(5)]
PUBLISHER = MemberSpec("pub", "c")


def heard(folder):
    return [json.loads(note["text"]) for note in control.ask(folder, {"do": "inbox", "keep": True})]


def request(folder, number):
    """Send a cast request. The publisher may be killed before it answers."""
    payload = json.dumps(number).encode().hex()
    with contextlib.suppress(control.ControlError, OSError):
        next(control.ask(folder, {"do": "cast", "target": "a & b", "payload": payload, "wait": 0}))


def kill_while_casting(processes, publisher, numbers, delay_s):
    threads = [threading.Thread(target=request, args=(publisher, each)) for each in numbers]
    for each in threads:
        each.start()
    time.sleep(delay_s)
    processes.kill(publisher.name)
    for each in threads:
        each.join()


def receipts(folder):
    return list(control.ask(folder, {"do": "receipts"}))


def wait_for_receipts(folder):
    deadline = time.monotonic() + 60
    while any(row.get("open", 1) for row in receipts(folder)):
        assert time.monotonic() < deadline, receipts(folder)
        time.sleep(0.05)


@pytest.mark.parametrize("design", ["centralised", "dht"])
def test_a_cast_of_a_killed_publisher_reaches_all_or_none(tmp_path, design):
    members = [*OTHERS, PUBLISHER]
    local = LocalNetwork(tmp_path / "net", design, members, plain=True, limits=False)
    local.create_folders()
    processes = NodeProcesses(local)
    processes.start_all()
    *others, publisher = local.folders()
    number = 0
    try:
        for kill in range(KILLS):
            numbers = range(number, number + CASTS_AT_ONCE)
            number += CASTS_AT_ONCE
            kill_while_casting(processes, publisher, numbers, DELAYS_S[kill % len(DELAYS_S)])
            processes.start(publisher)
            wait_for([publisher], lambda status: bool(status["registered"]))
            wait_for_receipts(publisher)
        boxes = [heard(folder) for folder in others]
        rows = receipts(publisher)
    finally:
        processes.stop()

    reached = {each: sum(each in box for box in boxes) for each in range(number)}
    partly = {each: count for each, count in reached.items() if 0 < count < len(others)}
    assert partly == {}
    assert all(len(box) == len(set(box)) for box in boxes), "each cast arrives once"
    counts = [(row["expected"], row["notified"]) for row in rows]
    assert counts == [(len(others), len(others))] * len(rows), rows
    accepted = sum(count > 0 for count in reached.values())
    assert accepted == len(rows), "each cast on the publisher's disk has arrived, and no other"
    assert 0 < accepted < number, "some kills came before the commit, others after it"


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("design", ["centralised", "dht", "spice-unloaded"])
def test_no_message_of_a_cast_is_sent_before_its_commit(tmp_path, monkeypatch, design, verified):
    """The disk of the publisher waits; the casts wait with it, and leave when it is done."""
    if verified and design != "dht":
        pytest.skip("only ring designs verify registrations at the publisher")
    disk_works = threading.Event()
    disk_works.set()
    commit = Store.commit_transaction

    def slow_commit(self):
        if self.path.parent.name == "pub":
            assert disk_works.wait(30)
        commit(self)

    monkeypatch.setattr(Store, "commit_transaction", slow_commit)

    async def story():
        members = [*OTHERS, PUBLISHER]
        local = LocalNetwork(tmp_path / "net", design, members, plain=True, limits=False)
        local.create_folders()
        nodes = InProcessNodes(local)
        await nodes.start_all()
        try:
            publisher, sent = nodes.nodes["pub"], []
            publisher.driver.observe(
                lambda received, to, message: received or sent.append(cast_in(message))
            )
            await publisher.commit_state()
            disk_works.clear()
            names = []
            casts = []
            for number in range(3):
                names.append(publisher.upcoming_cast())
                casts.append(
                    asyncio.ensure_future(
                        publisher.cast("a & b", b"%d" % number, wait=20, verified=verified)
                    )
                )
                await asyncio.sleep(0)
            casts[1].cancel()
            await asyncio.sleep(2.5)  # longer than the interval between repeats of a request
            before = {each for each in sent if each in names}
            disk_works.set()
            made = [await casts[0], await casts[2]]
            async with asyncio.timeout(20):
                while not publisher.receipt(names[1]).complete:
                    await asyncio.sleep(0.02)
            boxes = [
                sorted([note.payload async for note in nodes.nodes[each.name].inbox(follow=False)])
                for each in OTHERS
            ]
            return names, before, made, boxes
        finally:
            disk_works.set()
            await nodes.stop()

    names, before, made, boxes = asyncio.run(story())
    assert len(set(names)) == 3
    assert before == set()
    assert [each.cast for each in made] == [names[0], names[2]]
    assert all(each.complete and each.notified == 5 for each in made)
    assert boxes == [[b"0", b"1", b"2"]] * 5, "a cast whose caller stopped waiting is made too"


def test_the_first_member_of_a_network_resumes_its_cast_right_after_the_start(tmp_path):
    """Its configuration names no other node, so its disk must."""

    async def story():
        members = [PUBLISHER, *OTHERS]
        local = LocalNetwork(tmp_path / "net", "dht", members, plain=True, limits=False)
        local.create_folders()
        nodes = InProcessNodes(local)
        await nodes.start_all()
        try:
            cast = (await nodes.nodes["pub"].cast("a & b", b"hi", wait=0.0)).cast
            nodes.crash("pub")
            await nodes.start("pub", None)
            async with asyncio.timeout(30):
                while (receipt := nodes.nodes["pub"].receipt(cast)).notified < 5 or receipt.open:
                    await asyncio.sleep(0.02)
            return receipt
        finally:
            await nodes.stop()

    receipt = asyncio.run(story())
    assert (receipt.expected, receipt.notified) == (5, 5)
