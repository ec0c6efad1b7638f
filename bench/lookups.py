"""What a simulated message costs: Chord-like look-ups in our world and in SimPy, in one process,
the same journal on.

Each arm carries the same messages (same peers, keys, fingers and latencies; the hop counts are
compared). SimPy is used twice: as its manual shows it (each peer a process with an inbox, each
message in flight a process with a timeout, as in its "event latency" example), and in the leanest
way it allows (a timeout with a callback, no processes at all).
"""

import tempfile
import time
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from random import Random

import simpy

from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.world.journal import JOIN, Journal
from implicast.world.world import World

PEERS, LOOKUPS, BITS = 1024, 20_000, 24


class Find(Message):
    key: int
    origin: int


class Ring:
    """Places, fingers and latencies that all arms share."""

    def __init__(self) -> None:
        rng = Random(7)
        self.ids = sorted(rng.sample(range(1 << BITS), PEERS))
        self.delay_us = [rng.randrange(5_000, 80_000) for _ in range(PEERS)]
        self.fingers = [
            [self.owner((own + (1 << i)) % (1 << BITS)) for i in range(BITS)] for own in self.ids
        ]
        self.lookups = [(rng.randrange(PEERS), rng.randrange(1 << BITS)) for _ in range(LOOKUPS)]

    def owner(self, key: int) -> int:
        return (bisect_right(self.ids, key) - 1) % PEERS

    def next_hop(self, at: int, key: int) -> int | None:
        """The finger that comes closest to the key without passing it; None when the key is here."""
        own = self.ids[at]
        left = (key - own) % (1 << BITS)
        for finger in reversed(self.fingers[at]):
            if finger != at and 0 < (self.ids[finger] - own) % (1 << BITS) <= left:
                return finger
        return None

    def latency_us(self, a: int, b: int) -> int:
        return self.delay_us[a] + self.delay_us[b]


class Node(Peer):
    __slots__ = ("ring",)

    def __init__(self, address: Address, host: Host, ring: Ring) -> None:
        super().__init__(address, host)
        self.ring = ring

    @handles(Find)
    def on_find(self, sender: Address, find: Find) -> None:
        hop = self.ring.next_hop(self.address, find.key)
        if hop is not None:
            self.host.send(hop, find)


def ours(ring: Ring, journal: Journal) -> int:
    world = World(ring, journal=journal)
    nodes = [Node(address, world.host(address), ring) for address in range(PEERS)]
    for address, node in enumerate(nodes):
        world.place(address, node)
    for number, (at, key) in enumerate(ring.lookups):
        world.at(number * 1000, JOIN, lambda at=at, key=key: nodes[at].receive(at, Find(key, at)))
    world.run()
    return world.carried


class SimpyArm(ABC):
    """Carries and journals a message; how it waits is what the two SimPy arms differ in."""

    def __init__(self, ring: Ring, journal: Journal) -> None:
        self.ring, self.journal = ring, journal
        self.env = simpy.Environment()
        self.carried = 0
        journal.kinds.append("Find")

    def note(self, sender: int, to: int) -> int:
        delay_us, now_us = self.ring.latency_us(sender, to), int(self.env.now)
        self.carried += 1
        self.journal.send(self.carried, 0, now_us, now_us + delay_us, sender, to, JOIN, 1, 12, 0)
        return delay_us

    def on_find(self, at: int, find: Find) -> None:
        hop = self.ring.next_hop(at, find.key)
        if hop is not None:
            self.send(at, hop, find)

    @abstractmethod
    def send(self, sender: int, to: int, find: Find) -> None:
        """Carry it, and call `on_find` there when it arrives."""

    def start(self):
        for at, key in self.ring.lookups:
            self.on_find(at, Find(key, at))
            yield self.env.timeout(1000)

    def run(self) -> int:
        self.env.process(self.start())
        self.env.run()
        return self.carried


class SimpyProcesses(SimpyArm):
    def __init__(self, ring: Ring, journal: Journal) -> None:
        super().__init__(ring, journal)
        self.inboxes = [simpy.Store(self.env) for _ in range(PEERS)]
        for at in range(PEERS):
            self.env.process(self.serve(at))

    def serve(self, at: int):
        while True:
            find = yield self.inboxes[at].get()
            self.on_find(at, find)

    def latency(self, delay_us: int, to: int, find: Find):
        yield self.env.timeout(delay_us)
        self.inboxes[to].put(find)

    def send(self, sender: int, to: int, find: Find) -> None:
        self.env.process(self.latency(self.note(sender, to), to, find))


class SimpyCallbacks(SimpyArm):
    def send(self, sender: int, to: int, find: Find) -> None:
        self.env.timeout(self.note(sender, to)).callbacks.append(lambda _: self.on_find(to, find))


def measure(arm: Callable[[Ring, Journal], int], ring: Ring) -> tuple[float, int]:
    """CPU seconds and messages of one arm."""
    with tempfile.TemporaryDirectory() as directory:
        journal = Journal(Path(directory) / "run")
        begun = time.process_time()
        carried = arm(ring, journal)
        journal.finish()
        return time.process_time() - begun, carried


ARMS = {
    "implicast": ours,
    "simpy, as its manual shows": lambda ring, journal: SimpyProcesses(ring, journal).run(),
    "simpy, callbacks only": lambda ring, journal: SimpyCallbacks(ring, journal).run(),
}


def main(rounds: int = 5) -> None:
    ring = Ring()
    best: dict[str, float] = {}
    carried: dict[str, int] = {}
    for _ in range(rounds):
        for name, arm in ARMS.items():
            seconds, carried[name] = measure(arm, ring)
            best[name] = min(best.get(name, seconds), seconds)
    assert len(set(carried.values())) == 1, f"the arms must carry the same messages: {carried}"
    count = carried["implicast"]
    print(
        f"{count} messages of {LOOKUPS} look-ups among {PEERS} peers, journal on; best CPU time of {rounds} rounds"
    )
    for name, seconds in best.items():
        print(
            f"  {name:28} {seconds / count * 1e6:6.2f} us a message   {seconds / best['implicast']:5.2f} x ours"
        )


if __name__ == "__main__":
    main()
