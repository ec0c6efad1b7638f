"""Subscribe and publish over sockets: who asked for it hears of it, once, also after a restart."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.net.application.subscriptions import SubscriptionError
from implicast.net.commands.live_check import run_in_thread
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.peer.errors import LocalError

PEOPLE = [MemberSpec("ann", "samba"), MemberSpec("bob", "jazz"), MemberSpec("cy", "chess")]
SCHEMA = "symbol: text; price: 0.00..20.00 by 0.01"


def run(directory, design, story, **parameters):
    async def whole():
        local = LocalNetwork(
            directory / "net", design, PEOPLE, parameters, plain=True, limits=False
        )
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        try:
            return await story(tasks)
        finally:
            await tasks.stop()

    return asyncio.run(whole())


async def inbox(node):
    return [note.payload async for note in node.inbox(follow=False)]


@pytest.mark.parametrize("design", ["centralised", "chord-pubsub", "opchord-pubsub"])
def test_who_subscribed_hears_of_it_once(tmp_path, design):
    async def story(tasks):
        ann, bob, cy = (tasks.nodes[each.name] for each in PEOPLE)
        await ann.subscribe("jazz & (tango | samba)")
        number = await ann.subscribe("jazz")
        await bob.subscribe("chess")
        receipts = [await cy.publish("jazz, samba", b"one"), await cy.publish("tango", b"two")]
        known = ann.subscriptions.all()
        await ann.unsubscribe(number)
        receipts.append(await cy.publish("jazz", b"three"))
        return receipts, await inbox(ann), await inbox(bob), known, ann.subscriptions.all()

    receipts, ann, bob, known, left = run(tmp_path, design, story)
    assert (ann, bob) == ([b"one"], [])
    assert [(each.expected, each.notified) for each in receipts] == [(1, 1), (0, 0), (0, 0)]
    assert all(each.complete for each in receipts)
    assert sorted(known.values()) == ["jazz", "jazz & (tango | samba)"]
    assert list(left.values()) == ["jazz & (tango | samba)"]


def test_a_range_of_a_schema_and_a_restart_of_the_subscriber(tmp_path):
    async def story(tasks):
        await tasks.nodes["ann"].subscribe("symbol = OTE & 8.30 < price < 8.70")
        tasks.crash("ann")
        await tasks.start("ann", None)
        await asyncio.wait_for(tasks.nodes["ann"].registered.wait(), 30)
        await asyncio.sleep(1)
        for price in ("8.31", "8.70"):
            await tasks.nodes["cy"].publish(f"symbol = OTE, price = {price}", price.encode())
        return await inbox(tasks.nodes["ann"]), tasks.nodes["ann"].subscriptions.all()

    heard, known = run(tmp_path, "opchord-pubsub", story, schema=SCHEMA)
    assert heard == [b"8.31"]
    assert list(known.values()) == ["symbol = OTE & 8.30 < price < 8.70"]


def test_what_cannot_be_is_said_in_a_sentence(tmp_path):
    async def story(tasks):
        ann = tasks.nodes["ann"]
        with pytest.raises(SubscriptionError, match="no subscription 7"):
            await ann.unsubscribe(7)
        with pytest.raises(LocalError, match=r"bytes|MiB"):
            await ann.publish("jazz", b"x" * ((16 << 20) + 1))

    run(tmp_path, "centralised", story)

    async def other(tasks):
        with pytest.raises(SubscriptionError, match="has no subscriptions"):
            await tasks.nodes["ann"].subscribe("jazz")

    run(tmp_path, "dht", other)


def test_the_commands(tmp_path):
    def said(*words):
        went = CliRunner().invoke(main, [*words, "--dir", str(tmp_path / "net")])
        return went.exit_code, went.output

    async def story(tasks):
        return [
            await run_in_thread(said, *words)
            for words in (
                ("subscribe", "jazz & !tango", "--node", "ann"),
                ("subscriptions", "--node", "ann", "--json"),
                ("publish", "jazz", "-m", "tonight", "--node", "cy"),
                ("inbox", "--node", "ann"),
                ("publish", "tango", "--node", "cy"),
                ("unsubscribe", "1", "--node", "ann"),
                ("unsubscribe", "1", "--node", "ann"),
            )
        ]

    went = run(tmp_path, "centralised", story)
    assert [code for code, _ in went] == [0, 0, 0, 0, 0, 0, 2]
    assert json.loads(went[1][1]) == {"number": 1, "target": "jazz & !tango"}
    assert "1 of 1 subscribers" in went[2][1]
    assert "tonight" in went[3][1]
    assert "no member has subscribed" in went[4][1]
    assert "no subscription 1" in went[6][1]
