"""A small world driven by hand, in which one member falls and comes back at its address: any design that has members.

scene = Returning("centralised")
scene.cast(publisher=2, times=3)
scene.fall(3); scene.go(5); scene.rise(3, "old")
scene.settle()
assert not scene.wrong()
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

from implicast.casting.designs import design
from implicast.language.target import Description, Target, Term
from implicast.peer.contract import CastId, Message
from implicast.peer.events import IncarnationAdvanced, Joined, Notice, Registered, Settled
from implicast.peer.expiry import LIFETIME_US
from implicast.peer.member import Member
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import JOIN, REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import World

S = 1_000_000
JAZZ, SAMBA = Description(("jazz",)), Description(("samba",))
DISKS = ("kept", "old", "empty")


def to(tag: str) -> Target:
    return Target((Term(has=(tag,)),))


class Returning:
    """Twelve members that like jazz, joined by messages, with the design's quick settings."""

    def __init__(
        self, name: str, peers: int = 12, loss: float = 0.0, seed: int = 1, **given: Any
    ) -> None:
        self.design = design(name)
        parameters = self.design.settle({**self.design.trial, **self.design.quick, **given})
        more = self.design.infrastructure(peers, parameters)
        network = build("flat", peers, more, seed)
        faults = FaultStream(Faults(loss=loss), seed) if loss else None
        self.world = World(network, seed, faults=faults, codec=Codec(self.design.kinds))
        plan = Plan(
            peers, more, parameters, seed, self.world.host, network.latency_us, start="joined"
        )
        plan = replace(
            plan, credentials=population(self.design).credentials, descriptions=[JAZZ] * peers
        )
        self.plan = replace(plan, roles=self.design.roles(plan.peers, plan.infrastructure))
        self.chance = stream(seed, "introducers")
        self.old: dict[int, Any] = {}
        self.disks: dict[int, Any] = {}
        self.starts: Counter[int] = Counter()
        self.lost: Counter[int] = Counter()
        self.registered_us: dict[int, int] = {}
        self.joined_us: dict[int, int] = {}
        self.said: dict[int, Description] = {}
        self.owed: dict[CastId, set[int]] = {}
        self.outbox: dict[CastId, tuple[int, str]] = {}
        self.told: Counter[tuple[CastId, int]] = Counter()
        self.settled: dict[CastId, Settled] = {}
        self.outlived = 0
        self.world.on_event = self.hear
        self._begin_all(peers, more)

    def _begin_all(self, peers: int, more: int) -> None:
        if self.design.fixture is not None:
            for number in range(more):
                self.world.place(peers + number, self.plan.new_fixture(self.design, peers + number))
        for address in range(peers):
            self.go(0.5)
            self.world.place(address, self.plan.new_member(self.design, address))
            self.join(address)
        self.until(lambda: len(self.joined_us) == peers, 60)
        for address in range(peers):
            self.register(address, JAZZ)
        self.until(lambda: len(self.registered_us) == peers, 60)
        self.old = {address: self.member(address).durable_state() for address in range(peers)}

    # --- deeds

    def go(self, seconds: float) -> None:
        self.world.run(self.world.now_us + int(seconds * S))

    def until(self, done, seconds: float) -> float:
        """Let time pass until it is so, or for so long; how long it was."""
        start_us = self.world.now_us
        while not done() and self.world.now_us < start_us + seconds * S:
            self.go(0.25)
        return (self.world.now_us - start_us) / S

    def member(self, address: int) -> Member:
        peer = self.world.peers[address]
        assert isinstance(peer, Member)
        return peer

    def join(self, address: int) -> None:
        others = sorted(
            other for other in self.joined_us if other != address and other in self.world.peers
        )
        introducers = tuple(self.chance.sample(others, min(3, len(others))))
        self.world.at(self.world.now_us, JOIN, lambda: self.member(address).join(introducers))
        self.go(0)

    def register(self, address: int, description: Description) -> None:
        self.said[address] = description
        self.registered_us.pop(address, None)
        self.world.at(
            self.world.now_us, REGISTER, lambda: self.member(address).register(description)
        )
        self.go(0)

    def cast(self, publisher: int, tag: str = "jazz", times: int = 1) -> None:
        for _ in range(times):
            self.world.at(self.world.now_us, len(self.owed), lambda: self._cast(publisher, tag))
            self.go(0.05)

    def _cast(self, publisher: int, tag: str) -> None:
        """Owed to everybody who is there, says so and is registered."""
        owed = {
            who
            for who in self.registered_us
            if who in self.world.peers and tag in self.said[who].tags
        }
        cast = self.member(publisher).cast(to(tag), b"x")
        self.owed[cast], self.outbox[cast] = owed, (publisher, tag)

    def carry_on(self, address: int) -> None:
        """As a node does whose disk knows of casts of which it was not told how they ended."""
        for number, (cast, (publisher, tag)) in enumerate(self.outbox.items()):
            settled = self.settled.get(cast)
            if publisher == address and (settled is None or settled.open):
                self.world.at(
                    self.world.now_us,
                    number,
                    partial(self.member(address).carry_on, cast, to(tag), b"x", LIFETIME_US),
                )
        self.go(0)

    def fall(self, address: int) -> None:
        self.disks[address] = self.member(address).durable_state()
        self.world.crash(address)
        for table in (self.joined_us, self.registered_us):
            table.pop(address, None)

    def rise(self, address: int, disk: str) -> None:
        kept = {"kept": self.disks[address], "old": self.old[address], "empty": None}[disk]
        self.lost[address] += disk == "empty"
        self.starts[address] += 1
        previous = kept.incarnation if kept is not None else 0
        again, starts = self.lost[address], self.starts[address]
        self.world.place(
            address, self.plan.new_member(self.design, address, previous, again, kept, starts)
        )
        self.join(address)

    # --- what is heard

    def hear(self, address: int, event: Message) -> None:
        if isinstance(event, Joined):
            self.joined_us[address] = self.world.now_us
        elif isinstance(event, Registered) and event.version == self.member(address).version:
            self.registered_us[address] = self.world.now_us
        elif isinstance(event, Notice):
            self.told[event.cast, address] += 1
        elif isinstance(event, Settled):
            self.settled[event.cast] = event
        self.outlived += isinstance(event, IncarnationAdvanced)

    def wrong(self) -> list[str]:
        """Owed and not told, told twice, notified wrongly how it ended, or never."""
        found = [
            f"{cast} was not told to {who}"
            for cast, owed in self.owed.items()
            for who in sorted(owed)
            if not self.told[cast, who]
        ]
        found += [
            f"{cast} was told {times} times to {who}"
            for (cast, who), times in self.told.items()
            if times > 1
        ]
        for cast, owed in self.owed.items():
            settled = self.settled.get(cast)
            if settled is None or settled.open:
                found.append(f"how {cast} ended is not known")
            elif settled.notified < len(owed):
                found.append(f"{cast}: {settled} but {len(owed)} were owed it")
        return found
