"""How many messages a second: the same relay in our world and elsewhere, in one run.

A thousand messages are under way among a thousand peers; whoever gets one passes it on to the next
on a list, after a latency that is on the list too, until all have been carried. Arms: our world on
both cores, with its journal and without; a bare loop over `heapq`; SimPy in the leanest way it
allows and as its manual shows; a loop in the manner of PeerSim in Java (a heap of events, one
method that processes them), and a loop in C, which is the limit. What is not installed is left out.
Only ours keeps a journal.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from random import Random

from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.world import core
from implicast.world.journal import UPKEEP, Journal
from implicast.world.world import World

PEERS, IN_FLIGHT, MESSAGES = 1024, 1024, 300_000
HERE = Path(__file__).parent


class Relay(Message):
    left: int


class Lists:
    """To whom each peer passes a message on, and how long it takes: the same for all arms, which go
    round them.
    """

    def __init__(self) -> None:
        rng = Random(7)
        self.onward = [rng.randrange(PEERS) for _ in range(PEERS)]
        self.delay_us = [rng.randrange(5_000, 80_000) for _ in range(PEERS)]
        self.onward = [
            other if other != peer else (peer + 1) % PEERS for peer, other in enumerate(self.onward)
        ]


class Passer(Peer):
    """Passes on what it gets."""

    __slots__ = ("_onward", "_world")

    def __init__(self, address: Address, host: Host, onward: int) -> None:
        super().__init__(address, host)
        self._onward = onward

    @handles(Relay)
    def on_relay(self, sender: Address, relay: Relay) -> None:
        if relay.left:
            self.host.send(self._onward, Relay(relay.left - 1))


class Wires:
    def __init__(self, lists: Lists) -> None:
        self._delay_us = lists.delay_us

    def latency_us(self, a: int, b: int) -> int:
        return self._delay_us[a]


def our_world(make: Callable[..., World], journal: bool) -> Callable[[Lists], float]:
    def run(lists: Lists) -> float:
        with tempfile.TemporaryDirectory() as directory:
            book = Journal(Path(directory) / "journal") if journal else None
            world = make(Wires(lists), 1, book)
            for peer in range(PEERS):
                world.place(peer, Passer(peer, world.host(peer), lists.onward[peer]))
            begun = time.process_time()
            for start in range(IN_FLIGHT):
                world.at(
                    0,
                    UPKEEP,
                    lambda start=start: world.host(start).send(
                        lists.onward[start], Relay(MESSAGES // IN_FLIGHT - 1)
                    ),
                )
            world.run(1 << 60)
            world.flush()
            if book is not None:
                book.finish()
            assert world.carried == MESSAGES // IN_FLIGHT * IN_FLIGHT
            return time.process_time() - begun

    return run


def bare_heap(lists: Lists) -> float:
    begun = time.process_time()
    heap = [
        (lists.delay_us[peer], peer, lists.onward[peer], MESSAGES // IN_FLIGHT - 1)
        for peer in range(IN_FLIGHT)
    ]
    heap.sort()
    serial = IN_FLIGHT
    while heap:
        now_us, _, at, left = heappop(heap)
        if left:
            serial += 1
            heappush(heap, (now_us + lists.delay_us[at], serial, lists.onward[at], left - 1))
    return time.process_time() - begun


def lean_simpy(lists: Lists) -> float:
    import simpy

    begun, world = time.process_time(), simpy.Environment()

    def send(at: int, left: int) -> None:
        timeout = world.timeout(lists.delay_us[at], (lists.onward[at], left))
        timeout.callbacks.append(arrive)

    def arrive(event: simpy.Event) -> None:
        at, left = event.value
        if left:
            send(at, left - 1)

    for peer in range(IN_FLIGHT):
        send(peer, MESSAGES // IN_FLIGHT - 1)
    world.run()
    return time.process_time() - begun


def usual_simpy(lists: Lists) -> float:
    import simpy

    begun, world = time.process_time(), simpy.Environment()
    inboxes = [simpy.Store(world) for _ in range(PEERS)]

    def flight(at: int, left: int):  # type: ignore[no-untyped-def]
        yield world.timeout(lists.delay_us[at])
        inboxes[lists.onward[at]].put(left)

    def peer(at: int):  # type: ignore[no-untyped-def]
        while True:
            left = yield inboxes[at].get()
            if left:
                world.process(flight(at, left - 1))

    for at in range(PEERS):
        world.process(peer(at))
    for at in range(IN_FLIGHT):
        world.process(flight(at, MESSAGES // IN_FLIGHT - 1))
    world.run()
    return time.process_time() - begun


def elsewhere(
    compiler: str, source: str, build: list[str], start: list[str]
) -> Callable[[Lists], float] | None:
    """A loop in another language, which prints its seconds; None where there is no compiler."""
    if shutil.which(compiler) is None:
        return None

    def run(lists: Lists) -> float:
        with tempfile.TemporaryDirectory() as directory:
            table = "\n".join(f"{a} {b}" for a, b in zip(lists.onward, lists.delay_us, strict=True))
            subprocess.run(
                [compiler, *build, str(HERE / source)],
                cwd=directory,
                check=True,
                capture_output=True,
            )
            words = [*start, str(PEERS), str(IN_FLIGHT), str(MESSAGES // IN_FLIGHT)]
            said = subprocess.run(
                words, cwd=directory, input=table, text=True, check=True, capture_output=True
            )
            return float(said.stdout)

    return run


def arms() -> dict[str, Callable[[Lists], float] | None]:
    compiled = core._compiled()
    return {
        "world, compiled, journal": our_world(compiled, True) if compiled else None,
        "world, compiled": our_world(compiled, False) if compiled else None,
        "world, python, journal": our_world(World, True),
        "world, python": our_world(World, False),
        "heapq alone": bare_heap,
        "SimPy, leanest": lean_simpy,
        "SimPy, as in its manual": usual_simpy,
        "Java, like PeerSim": elsewhere(
            "javac", "relay/Relay.java", ["-d", "."], ["java", "Relay"]
        ),
        "C": elsewhere("gcc", "relay/relay.c", ["-O2", "-o", "relay"], ["./relay"]),
    }


def main() -> None:
    lists, rates = Lists(), {}
    for name, arm in arms().items():
        if arm is not None:
            rates[name] = MESSAGES / min(arm(lists) for _ in range(3))
    lean = rates["SimPy, leanest"]
    print(f"relay of {MESSAGES:,} messages, {IN_FLIGHT} in flight, best of three, one core")
    for name, rate in rates.items():
        print(f"  {name:26} {rate:12,.0f} messages/s   {rate / lean:6.2f} x SimPy's leanest")


if __name__ == "__main__":
    main()
