"""Members of a rival system, a process each: connect, subscribe to their tags, cast when told, drop
what is not theirs.

A rival knows topics; whom an expression describes it does not. So a cast is published to topics
that cover the expression, carries the expression, and each receiver decides; copies that reach
others are counted.
"""

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from task import PAYLOAD, MemberSpec, PlannedCast, selects, tags, topics

Publish = Callable[[str, bytes], Awaitable[None]]
Take = Callable[[bytes], None]
Join = Callable[[int, tuple[str, ...], Take], Awaitable[Publish]]
"""Number, tags, what to call with what comes; gives what to publish with."""


class Member:
    """The parent's end of one member."""

    def __init__(self, number: int, someone: MemberSpec, join: Join) -> None:
        self.someone = someone
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_run, args=(number, someone, join, theirs), daemon=True
        )
        self.process.start()

    def wait(self) -> None:
        if not self._pipe.poll(60):
            raise TimeoutError(f"{self.someone.name} did not connect")
        assert self._pipe.recv() == "ready"

    def cast(self, drawn: PlannedCast) -> None:
        self._pipe.send((drawn.number, drawn.target))

    def report(self) -> dict[str, Any]:
        """What was heard since the last report."""
        self._pipe.send(None)
        found: dict[str, Any] = self._pipe.recv()
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


def _run(number: int, someone: MemberSpec, join: Join, pipe: Connection) -> None:
    asyncio.run(_live(number, someone, join, pipe))
    os._exit(0)


async def _live(number: int, someone: MemberSpec, join: Join, pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    heard: dict[int, float] = {}
    counts = {"reached": 0, "twice": 0}

    def take(data: bytes) -> None:
        said = json.loads(data.rstrip(b"."))
        if not selects(said["t"], someone):
            counts["reached"] += 1
        elif said["n"] in heard:
            counts["twice"] += 1
        else:
            heard[said["n"]] = (time.time_ns() - said["at"]) / 1e6

    publish = await join(number, tags(someone), take)
    pipe.send("ready")
    while True:
        order = await loop.run_in_executor(None, pipe.recv)
        if order is None:
            pipe.send({"heard": dict(heard), **counts})
            heard.clear()
            counts.update(reached=0, twice=0)
            continue
        cast, target = order
        data = json.dumps({"n": cast, "t": target, "at": time.time_ns()}).encode() + b"." * PAYLOAD
        for topic in topics(target):
            await publish(topic, data)
