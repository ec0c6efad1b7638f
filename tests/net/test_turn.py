"""A commit waits until what has come is worked off, and not for ever."""

import asyncio

from implicast.net.turn import CALM_S, turn_of


def rounds(reads, most):
    """In how many turns of the loop, of at most so many in which something is read, a commit may begin."""

    async def run():
        loop = asyncio.get_running_loop()
        turn, passed = turn_of(loop), 0
        waiting = asyncio.ensure_future(turn.calm())
        while not waiting.done() and passed < most:
            passed += 1
            turn.reads += reads(passed)
            await asyncio.sleep(0)
        begun = loop.time()
        await waiting
        return passed, loop.time() - begun, turn_of(loop) is turn

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
        turn, begun = turn_of(loop), loop.time()
        waiting = asyncio.ensure_future(turn.calm())
        while not waiting.done():
            turn.reads += 1
            await asyncio.sleep(0)
        return loop.time() - begun

    assert CALM_S <= asyncio.run(run()) < 1.0
