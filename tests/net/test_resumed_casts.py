"""A publisher that falls while its cast is under way carries it on: nobody hears it twice, the receipt counts all."""

import asyncio
import random

import pytest

from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec

ROUNDS = 8
MATCHING = 5
DELAYS_S = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
"""How long after its cast a publisher falls: before it has left, and when all but the receipt is done."""


async def _settled(node, cast):
    async with asyncio.timeout(60):
        while not (receipt := node.receipt(cast)).complete:
            await asyncio.sleep(0.02)
    return receipt


async def _fall_and_carry_on(directory, design):
    rng = random.Random(7)
    people = [MemberSpec(f"p{number}", "a, b" if number < MATCHING else "c") for number in range(9)]
    local = LocalNetwork(directory / "net", design, people, plain=True, limits=False)
    local.create_folders()
    tasks, said = InProcessNodes(local), []
    await tasks.start_all()
    try:
        for number in range(ROUNDS):
            name = f"p{rng.randrange(9)}"
            await asyncio.wait_for(tasks.nodes[name].registered.wait(), 60)
            cast = (await tasks.nodes[name].cast("a & b", b"%d" % number, wait=0.0)).cast
            await asyncio.sleep(rng.choice(DELAYS_S))
            tasks.crash(name)
            await asyncio.sleep(0.1)
            await tasks.start(name, None)
            receipt = await _settled(tasks.nodes[name], cast)
            said.append((receipt.expected, receipt.notified))
        nodes = [tasks.nodes[each.name] for each in people]
        heard = [[note.payload async for note in node.inbox(follow=False)] for node in nodes]
    finally:
        await tasks.stop()
    return said, heard


@pytest.mark.parametrize("design", ["centralised", "spice-unloaded"])
def test_the_receipt_of_a_cast_that_was_carried_on_counts_everybody(tmp_path, design):
    said, heard = asyncio.run(_fall_and_carry_on(tmp_path, design))
    assert said == [(MATCHING, MATCHING)] * ROUNDS
    assert sorted(len(each) for each in heard) == [0] * 4 + [ROUNDS] * MATCHING
    assert all(len(set(each)) == len(each) for each in heard)
