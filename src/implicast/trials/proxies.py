"""Light clients that are mostly offline, in simulation (thesis, 10.2): two proxies receive for each
client, and proxies are killed.

    python -m implicast.trials.proxies dht --seed 1

A client has no peer of its own. Two members at different proxies stand in for it; their notices are
stored on the proxy's disk in order of arrival. When the client comes online it fetches from each
proxy that is up all notices after its cursor, in batches, drops duplicates by cast id, and advances
the cursor once the batch is stored; sometimes it is killed in between. A killed proxy takes all its
stand-ins down and restarts with its disk. At the end every client must have each cast that selects
it exactly once.
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
"""Casts begin at this time, when all members are registered."""
TAGS = ("jazz", "samba", "tango", "chess", "football", "phone")
BATCH = 4
"""Notices that a proxy hands out in one fetch."""


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Settings of one trial."""

    name: str
    clients: int = 8
    proxies: int = 6
    others: int = 40
    casts: int = 120
    cast_s: float = 5.0
    """Seconds between two casts."""
    sleep_s: float = 40.0
    """Mean time that a client is offline."""
    kills: int = 3
    """Proxies that are killed, one after the other; never two at the same time."""
    away_s: float = 60.0
    cut: float = 0.2
    """Probability that a client is killed between storing a batch and advancing its cursor."""
    seed: int = 1


@dataclass(slots=True)
class ProxyDisk:
    """The stand-ins at one proxy, and their inboxes on its disk."""

    inboxes: dict[int, list[CastId]] = field(default_factory=dict)
    """By client: the casts that arrived for it."""
    up: bool = True

    def fetch(self, client: int, cursor: int) -> list[CastId]:
        return self.inboxes[client][cursor : cursor + BATCH]


@dataclass(slots=True)
class OfflineClient:
    """One client: its description, its stored casts, and its cursor at each proxy."""

    number: int
    description: Description
    proxies: tuple[int, int]
    cursors: dict[int, int] = field(default_factory=dict)
    have: set[CastId] = field(default_factory=set)
    """Casts stored on the client's disk."""
    shown: list[CastId] = field(default_factory=list)
    fetched: int = 0

    def wake(
        self, proxies: Sequence[ProxyDisk], chance: Random | None = None, cut: float = 0.0
    ) -> None:
        """Fetch all new notices. With `chance` the client may be killed before it advances a
        cursor.
        """
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
class ProxyOutcome:
    """The result of one trial. Clean: nothing missing, shown twice or wrong."""

    design: str
    due: int = 0
    shown: int = 0
    missing: int = 0
    twice: int = 0
    wrong: int = 0
    alone: int = 0
    """Casts that only one of a client's two proxies received: with the other alone they would be
    missing.
    """
    fetched: int = 0
    """Notices sent from proxies to clients."""
    stored: int = 0
    killed: int = 0

    @property
    def clean(self) -> bool:
        return not (self.missing or self.twice or self.wrong)


class ProxyTrial:
    """One world with members, proxies and clients."""

    def __init__(
        self, settings: ProxySettings, client_class: type[OfflineClient] = OfflineClient
    ) -> None:
        self.settings = settings
        self._chance, self._drawn = stream(settings.seed, "proxies"), stream(settings.seed, "casts")
        self._proxies = [ProxyDisk() for _ in range(settings.proxies)]
        self._clients = [self._client(number, client_class) for number in range(settings.clients)]
        self._standing = {
            2 * client.number + rank: (client.number, proxy)
            for client in self._clients
            for rank, proxy in enumerate(client.proxies)
        }
        """By address of a stand-in: its client and its proxy."""
        self._design = design(settings.name)
        self._peers = 2 * settings.clients + settings.others
        self._world, self._plan = self._made()
        self._casts: dict[CastId, Target] = {}
        self._starts = 0
        self.outcome = ProxyOutcome(settings.name)

    def _client(self, number: int, client_class: type[OfflineClient]) -> OfflineClient:
        first, second = self._chance.sample(range(self.settings.proxies), 2)
        for each in (first, second):
            self._proxies[each].inboxes[number] = []
        return client_class(number, self._described(), (first, second))

    def _described(self) -> Description:
        return Description(tuple(sorted(self._chance.sample(TAGS, 2))))

    def _made(self) -> tuple[Any, Plan]:
        own, settings = self._design, self.settings
        parameters = own.settle({"assurance": "receipts", **own.quick})
        count = own.infrastructure(self._peers, parameters)
        network = build("flat", self._peers, count, settings.seed)
        world = new_world(network, settings.seed)
        world.on_event = self._on_event
        description = [
            self._clients[self._standing[each][0]].description
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
            descriptions=description,
            credentials=population(own).credentials,
        )
        plan = replace(plan, roles=own.roles(plan.peers, plan.infrastructure))
        for address, peer in enumerate(population(own).assemble(plan)):
            world.place(address, peer)
        return world, plan

    def run(self) -> ProxyOutcome:
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
        """One of the other members casts to one tag, or to either of two."""
        publisher = self._member(self._drawn.randrange(2 * self.settings.clients, self._peers))
        target = parse(" | ".join(self._drawn.sample(TAGS, self._drawn.randrange(1, 3))))
        self._casts[publisher.upcoming_cast()] = target
        publisher.cast(target, b"hello")

    def _wake(self, client: OfflineClient, end_us: int) -> None:
        client.wake(self._proxies, self._chance, self.settings.cut)
        if self._world.now_us < end_us:
            self._world.at(
                self._next_us(self._world.now_us), 0, partial(self._wake, client, end_us)
            )

    # --- proxies

    def _kill(self) -> None:
        """Crash all stand-ins of a proxy at once; they restart with their disks."""
        number = self._chance.randrange(self.settings.proxies)
        self._proxies[number].up = False
        self.outcome.killed += 1
        for address, (_, proxy) in self._standing.items():
            if proxy == number:
                durable: Any = decoded(
                    encoded(self._member(address).durable_state()),
                    type=self._design.durable_types["member"],
                )
                self._world.crash(address)
                back_us = self._world.now_us + int(self.settings.away_s * SECOND_US)
                self._world.at(back_us, 0, partial(self._return, address, number, durable))

    def _return(self, address: int, number: int, durable: Any) -> None:
        self._starts += 1
        self._proxies[number].up = True
        member = self._plan.new_member(
            self._design, address, durable.incarnation, 0, durable, self._starts
        )
        self._world.place(address, member)
        member.join(tuple(self._chance.sample(range(2 * self.settings.clients, self._peers), 3)))

    def _on_event(self, address: int, event: Message) -> None:
        if address in self._standing and isinstance(event, Notice):
            client, proxy = self._standing[address]
            self._proxies[proxy].inboxes[client].append(event.cast)
        elif (
            isinstance(event, Joined)
            and address in self._standing
            and not self._member(address).version
        ):
            self._register(address)

    # --- the check compares the casts shown to clients with their descriptions

    def _judged(self) -> ProxyOutcome:
        outcome = self.outcome
        for client in self._clients:
            due = {
                cast for cast, target in self._casts.items() if target.selects(client.description)
            }
            shown = set(client.shown)
            heard = [set(self._proxies[each].inboxes[client.number]) for each in client.proxies]
            outcome.due += len(due)
            outcome.shown += len(client.shown)
            outcome.missing += len(due - shown)
            outcome.twice += len(client.shown) - len(shown)
            outcome.wrong += len(shown - due)
            outcome.alone += len(heard[0] ^ heard[1])
            outcome.fetched += client.fetched
            outcome.stored += sum(
                len(self._proxies[each].inboxes[client.number]) for each in client.proxies
            )
        return outcome


def main(words: list[str]) -> int:
    asked = ArgumentParser(
        prog="python -m implicast.trials.proxies",
        description="Offline clients behind proxies, in simulation.",
    )
    asked.add_argument("design")
    for name, given in asdict(ProxySettings("")).items():
        if name != "name":
            asked.add_argument(f"--{name.replace('_', '-')}", type=type(given), default=given)
    found = vars(asked.parse_args(words))
    outcome = ProxyTrial(ProxySettings(found.pop("design"), **found)).run()
    print(json.dumps(asdict(outcome)))
    return 0 if outcome.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
