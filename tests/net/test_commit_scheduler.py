"""A commit waits until what has come is worked off, and not for ever; so does what is to be written."""

import asyncio

from implicast.net.storage.commit_scheduler import BUSY, CALM_S, scheduler_of


def rounds(reads, most):
    """In how many turns of the loop, of at most so many in which something is read, a commit may begin."""

    async def run():
        loop = asyncio.get_running_loop()
        scheduler, passed = scheduler_of(loop), 0
        waiting = asyncio.ensure_future(scheduler.until_calm())
        while not waiting.done() and passed < most:
            passed += 1
            scheduler.reads += reads(passed)
            await asyncio.sleep(0)
        begun = loop.time()
        await waiting
        return passed, loop.time() - begun, scheduler_of(loop) is scheduler

    return asyncio.run(run())


def test_a_loop_in_which_nothing_comes_is_calm_at_once():
    passed, _, is_one = rounds(lambda number: 0, 50)

    assert passed <= 5
    assert is_one


def test_what_is_read_every_other_turn_is_awaited():
    passed, _, _ = rounds(lambda number: number % 2 and number < 20, 50)

    assert 20 <= passed <= 25


def test_a_loop_that_is_never_calm_is_waited_for_within_bounds():
    async def run():
        loop = asyncio.get_running_loop()
        scheduler, begun = scheduler_of(loop), loop.time()
        waiting = asyncio.ensure_future(scheduler.until_calm())
        while not waiting.done():
            scheduler.reads += 1
            await asyncio.sleep(0)
        return loop.time() - begun

    assert CALM_S <= asyncio.run(run()) < 1.0


def flushed(reads):
    """After how many turns of the loop what is to be written is, when so many reads come before each; for two nodes."""

    async def run():
        scheduler, done, passed = scheduler_of(asyncio.get_running_loop()), [], []
        for _ in range(3):
            done.clear()
            scheduler.reads += reads
            for node in ("one", "two"):
                scheduler.flush_soon(lambda node=node: done.append(node))
            turns = 0
            while not done:
                turns += 1
                scheduler.reads += reads
                await asyncio.sleep(0)
            assert done == ["one", "two"]
            passed.append(turns)
        return passed

    return asyncio.run(run())


def test_what_is_to_be_written_waits_for_one_more_turn_of_a_busy_loop_and_no_more():
    assert flushed(1) == [1, 1, 1]
    assert flushed(BUSY + 1) == [2, 2, 2]


def test_a_node_that_cannot_write_does_not_keep_others_from_it(caplog):
    async def run():
        scheduler, done = scheduler_of(asyncio.get_running_loop()), []
        scheduler.flush_soon(lambda: 1 / 0)
        scheduler.flush_soon(lambda: done.append("two"))
        await asyncio.sleep(0)
        return done

    assert asyncio.run(run()) == ["two"]
    assert "could not be written" in caplog.text
