"""Light clients that sleep, in the world (thesis, 10.2): two proxies hear for each, and proxies are killed.

    python -m implicast.trials.proxies dht --seed 1

A client has no peer. Two members stand in for it, each at another proxy; what they hear lies on the proxy's disk, in
the order in which it arrived. When the client wakes it asks the proxies that are up for all after its cursor, a few at
a time, drops by its id what it has, and moves the cursor when what came is safe; sometimes it is killed in between. A
proxy that is killed takes all its stand-ins with it, and comes back with its disk. At the end every client has each
cast that describes it, once.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from msgspec.msgpack import decode as decoded
from msgspec.msgpack import encode as encoded

from implicast.casting.designs import design
from implicast.language.parse import parse
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message
from implicast.peer.events import Joined, Notice
from implicast.peer.member import Member
from implicast.space.digest import stream
from implicast.world.core import new_world
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population

SECOND_US = 1_000_000
BEGIN_US = 120 * SECOND_US
"""Casts begin when all are registered."""
TAGS = ("jazz", "samba", "tango", "chess", "football", "phone")
BATCH = 4
"""Notices that a proxy hands out at a time."""


@dataclass(frozen=True, slots=True)
class ProxyTrial:
    """One trial."""

    name: str
    clients: int = 8
    proxies: int = 6
    others: int = 40
    casts: int = 120
    cast_s: float = 5.0
    """Between two casts."""
    sleep_s: float = 40.0
    """How long a client sleeps, on average."""
    kills: int = 3
    """Proxies that are killed, one after the other; two of one client are never away together."""
    away_s: float = 60.0
    cut: float = 0.2
    """How often a client is killed between what it has taken and its cursor."""
    seed: int = 1


@dataclass(slots=True)
class ProxyDisk:
    """The stand-ins at one proxy, and their inboxes on its disk."""

    shelves: dict[int, list[CastId]] = field(default_factory=dict)
    """By client, what arrived for it."""
    up: bool = True

    def fetch(self, client: int, cursor: int) -> list[CastId]:
        return self.shelves[client][cursor : cursor + BATCH]


@dataclass(slots=True)
class Sleeper:
    """One client: what it says of itself, what it has, and how far it has come at each proxy."""

    number: int
    said: Description
    proxies: tuple[int, int]
    cursors: dict[int, int] = field(default_factory=dict)
    have: set[CastId] = field(default_factory=set)
    """On its disk."""
    shown: list[CastId] = field(default_factory=list)
    fetched: int = 0

    def wake(
        self, proxies: Sequence[ProxyDisk], chance: Random | None = None, cut: float = 0.0
    ) -> None:
        """Fetch all that is new; `chance` decides whether it is killed, and where."""
        for number in self.proxies:
            if proxies[number].up:
                while batch := proxies[number].fetch(self.number, self.cursors.get(number, 0)):
                    self.fetched += len(batch)
                    self.take(batch)
                    if chance is not None and chance.random() < cut:
                        return
                    self.cursors[number] = self.cursors.get(number, 0) + len(batch)

    def take(self, batch: list[CastId]) -> None:
        fresh = [each for each in batch if each not in self.have]
        self.have.update(fresh)
        self.shown += fresh


@dataclass(slots=True)
class Shown:
    """Of one trial. Clean: nothing missing, twice or wrong."""

    design: str
    due: int = 0
    shown: int = 0
    missing: int = 0
    twice: int = 0
    wrong: int = 0
    alone: int = 0
    """Casts that only one of a client's two proxies heard: with the other alone they would be missing."""
    fetched: int = 0
    """Notices that went from proxies to clients."""
    on_shelves: int = 0
    killed: int = 0

    @property
    def clean(self) -> bool:
        return not (self.missing or self.twice or self.wrong)


class Trial:
    """One world with members, proxies and clients that sleep."""

    def __init__(self, settings: ProxyTrial, sleeper: type[Sleeper] = Sleeper) -> None:
        self.settings = settings
        self._chance, self._drawn = stream(settings.seed, "proxies"), stream(settings.seed, "casts")
        self._proxies = [ProxyDisk() for _ in range(settings.proxies)]
        self._clients = [self._client(number, sleeper) for number in range(settings.clients)]
        self._standing = {
            2 * client.number + rank: (client.number, proxy)
            for client in self._clients
            for rank, proxy in enumerate(client.proxies)
        }
        """By address, for which client and at which proxy a member stands in."""
        self._design = design(settings.name)
        self._peers = 2 * settings.clients + settings.others
        self._world, self._plan = self._made()
        self._casts: dict[CastId, Target] = {}
        self._starts = 0
        self.outcome = Shown(settings.name)

    def _client(self, number: int, sleeper: type[Sleeper]) -> Sleeper:
        first, second = self._chance.sample(range(self.settings.proxies), 2)
        for each in (first, second):
            self._proxies[each].shelves[number] = []
        return sleeper(number, self._described(), (first, second))

    def _described(self) -> Description:
        return Description(tuple(sorted(self._chance.sample(TAGS, 2))))

    def _made(self) -> tuple[Any, Plan]:
        own, settings = self._design, self.settings
        parameters = own.settle({"assurance": "receipts", **own.quick})
        count = own.infrastructure(self._peers, parameters)
        network = build("flat", self._peers, count, settings.seed)
        world = new_world(network, settings.seed)
        world.heard = self._hear
        said = [
            self._clients[self._standing[each][0]].said
            if each in self._standing
            else self._described()
            for each in range(self._peers)
        ]
        plan = Plan(
            self._peers,
            count,
            parameters,
            settings.seed,
            world.host,
            network.latency_us,
            descriptions=said,
            credentials=population(own).credentials,
        )
        plan = replace(plan, roles=own.roles(plan.peers, plan.infrastructure))
        for address, peer in enumerate(population(own).assemble(plan)):
            world.place(address, peer)
        return world, plan

    def run(self) -> Shown:
        settings, world = self.settings, self._world
        for address in range(self._peers):
            world.at(address * 1000, 0, partial(self._register, address))
        end_us = BEGIN_US + int(settings.casts * settings.cast_s * SECOND_US)
        for number in range(settings.casts):
            world.at(BEGIN_US + int(number * settings.cast_s * SECOND_US), 0, self._cast)
        for client in self._clients:
            world.at(self._next_us(BEGIN_US), 0, partial(self._wake, client, end_us))
        span_us = (end_us - BEGIN_US) // max(1, settings.kills)
        assert span_us > 2 * settings.away_s * SECOND_US, (
            "one proxy is back before the next is killed"
        )
        for number in range(settings.kills):
            world.at(BEGIN_US + number * span_us + span_us // 8, 0, self._kill)
        world.run(end_us + 240 * SECOND_US)
        for client in self._clients:
            client.wake(self._proxies)
        return self._judged()

    def _next_us(self, now_us: int) -> int:
        return now_us + int(self._chance.expovariate(1 / self.settings.sleep_s) * SECOND_US)

    def _member(self, address: int) -> Member:
        member = self._world.peers[address]
        assert isinstance(member, Member), "stand-ins and publishers take part"
        return member

    def _register(self, address: int) -> None:
        self._member(address).register(self._plan.descriptions[address])

    def _cast(self) -> None:
        """One of the others casts to those with a tag, or with one of two."""
        publisher = self._member(self._drawn.randrange(2 * self.settings.clients, self._peers))
        target = parse(" | ".join(self._drawn.sample(TAGS, self._drawn.randrange(1, 3))))
        self._casts[publisher.upcoming_cast()] = target
        publisher.cast(target, b"hello")

    def _wake(self, client: Sleeper, end_us: int) -> None:
        client.wake(self._proxies, self._chance, self.settings.cut)
        if self._world.now_us < end_us:
            self._world.at(
                self._next_us(self._world.now_us), 0, partial(self._wake, client, end_us)
            )

    # --- proxies

    def _kill(self) -> None:
        """All stand-ins of a proxy fall at once, and come back with their disks."""
        number = self._chance.randrange(self.settings.proxies)
        self._proxies[number].up = False
        self.outcome.killed += 1
        for address, (_, proxy) in self._standing.items():
            if proxy == number:
                kept: Any = decoded(
                    encoded(self._member(address).kept()), type=self._design.kept["member"]
                )
                self._world.crash(address)
                back_us = self._world.now_us + int(self.settings.away_s * SECOND_US)
                self._world.at(back_us, 0, partial(self._return, address, number, kept))

    def _return(self, address: int, number: int, kept: Any) -> None:
        self._starts += 1
        self._proxies[number].up = True
        member = self._plan.begin(self._design, address, kept.incarnation, 0, kept, self._starts)
        self._world.place(address, member)
        member.join(tuple(self._chance.sample(range(2 * self.settings.clients, self._peers), 3)))

    def _hear(self, address: int, event: Message) -> None:
        if address in self._standing and isinstance(event, Notice):
            client, proxy = self._standing[address]
            self._proxies[proxy].shelves[client].append(event.cast)
        elif (
            isinstance(event, Joined)
            and address in self._standing
            and not self._member(address).version
        ):
            self._register(address)

    # --- the judge looks at what clients were shown, and at who was described

    def _judged(self) -> Shown:
        outcome = self.outcome
        for client in self._clients:
            due = {cast for cast, target in self._casts.items() if target.selects(client.said)}
            shown = set(client.shown)
            heard = [set(self._proxies[each].shelves[client.number]) for each in client.proxies]
            outcome.due += len(due)
            outcome.shown += len(client.shown)
            outcome.missing += len(due - shown)
            outcome.twice += len(client.shown) - len(shown)
            outcome.wrong += len(shown - due)
            outcome.alone += len(heard[0] ^ heard[1])
            outcome.fetched += client.fetched
            outcome.on_shelves += sum(
                len(self._proxies[each].shelves[client.number]) for each in client.proxies
            )
        return outcome


def main(words: list[str]) -> int:
    asked = ArgumentParser(
        prog="python -m implicast.trials.proxies", description="Clients that sleep, in the world."
    )
    asked.add_argument("design")
    for name, given in asdict(ProxyTrial("")).items():
        if name != "name":
            asked.add_argument(f"--{name.replace('_', '-')}", type=type(given), default=given)
    found = vars(asked.parse_args(words))
    outcome = Trial(ProxyTrial(found.pop("design"), **found)).run()
    print(json.dumps(asdict(outcome)))
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
