"""What a design loses under an attack: one run with a fraction of liars, seen by the honest.

The network is set up and described by everybody; then the gang acts, and honest peers cast. Counted are notices at
honest peers alone. A handler that breaks down on what a liar sent is caught and counted too: a design that was
written for honest peers may assert what no longer holds. Rows are plain, for the laboratory.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from implicast.casting.designs import Plan, design
from implicast.language.parameters import Setting
from implicast.language.target import Description, Target
from implicast.peer.contract import CastId, Message, Peer
from implicast.peer.errors import RemoteError
from implicast.peer.events import Notice
from implicast.peer.member import Member
from implicast.trials.liars import ATTACKS, Gang, gang, hosts
from implicast.workload.workload import workload
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.populations import population
from implicast.world.world import World

Row = dict[str, float | int | str]

PATIENCE_US = 90_000_000
"""How long after the last cast its notices may still come; peers that ask liars again and again never rest."""
SPACING_US = 1_000
CLAIMED_MAX = 60
"""Tags that a Sybil liar claims: as many as the authority of the careful design gives places for, beside the home."""


class Assault:
    """One world under one attack."""

    def __init__(
        self,
        name: str,
        attack: str,
        fraction: float,
        descriptions: Sequence[Description],
        targets: Sequence[Target],
        seed: int = 0,
        parameters: Mapping[str, Setting] | None = None,
        infrastructure_lies: bool = False,
    ) -> None:
        self.design, self.attack = design(name), attack
        settled = self.design.settle({"assurance": "none", **(parameters or {})})  # as the papers measure
        peers = len(descriptions)
        self.descriptions, self.targets = descriptions, targets
        infrastructure = self.design.infrastructure(peers, settled)
        network = build("flat", hosts=peers, infrastructure=infrastructure, seed=seed)
        self.world = World(network, seed)
        self.world.heard = self._hear
        besides = range(peers, peers + infrastructure) if infrastructure_lies else range(0)
        self.gang: Gang = gang(peers, fraction, seed, besides)
        host = hosts(self.world.host, self.gang, attack)
        plan = Plan(peers, infrastructure, settled, seed, host, network.latency_us, targets, descriptions=descriptions)
        plan = replace(plan, roles=self.design.roles(plan), credentials=self.design.credentials)
        self.population: list[Peer] = population(self.design).assemble(plan)
        for address, peer in enumerate(self.population):
            self.world.place(address, peer)
        self.casts: dict[CastId, int] = {}
        self.notices: Counter[tuple[int, int]] = Counter()
        self.forged = self.breakdowns = 0

    def run(self) -> None:
        """Describe, then cast while the gang acts."""
        world = self.world
        for address, description in enumerate(self.descriptions):
            world.at(world.now_us + address * SPACING_US, REGISTER, _registering(self._member(address), description))
        world.run()
        if self.attack == "sybil":
            self._crowd()
        world.run(world.now_us + self.design.settling_us)
        self.gang.act(self.population)
        before = world.carried
        honest = [each for each in range(len(self.descriptions)) if each not in self.gang.liars]
        for number, target in enumerate(self.targets if honest else ()):
            publisher = self._member(honest[number * 7919 % len(honest)])
            world.at(world.now_us + number * 1_000_000, number, self._casting(publisher, number, target))
        self._until(world.now_us + len(self.targets) * 1_000_000 + PATIENCE_US)
        self.messages = world.carried - before

    def row(self) -> Row:
        """What came of it."""
        wanted = {
            (number, address)
            for number, target in enumerate(self.targets)
            for address, description in enumerate(self.descriptions)
            if address not in self.gang.liars and target.selects(description)
        }
        got = [pair for pair in self.notices if pair[1] not in self.gang.liars]
        arrived = sum(pair in wanted for pair in got)
        return {
            "expected": len(wanted),
            "arrival": arrived / len(wanted) if wanted else 1.0,
            "repeated": sum(self.notices[pair] - 1 for pair in got),
            "uninvited": len(got) - arrived,
            "forged": self.forged,
            "messages": self.messages,
            "breakdowns": self.breakdowns,
        }

    def _crowd(self) -> None:
        """Every liar describes itself anew, with the tags that casts ask for most."""
        asked = Counter(tag for target in self.targets for term in target.terms for tag in term.has)
        claimed = Description(tuple(sorted(tag for tag, _ in asked.most_common(CLAIMED_MAX))))
        for address in sorted(self.gang.liars):
            if isinstance(self.population[address], Member):
                self.world.at(self.world.now_us + SPACING_US, REGISTER, _registering(self._member(address), claimed))
        self.world.run()

    def _member(self, address: int) -> Member:
        peer = self.population[address]
        assert isinstance(peer, Member), f"{address} is infrastructure"
        return peer

    def _casting(self, publisher: Member, number: int, target: Target) -> Any:
        def verb() -> None:
            cast = publisher.upcoming_cast()
            self.casts[cast] = number
            self.world.announce(cast, number)
            publisher.cast(target, _payload(number))

        return verb

    def _hear(self, address: int, event: Message) -> None:
        if isinstance(event, Notice) and address not in self.gang.liars:
            number = self.casts.get(event.cast)
            if number is None or event.payload != _payload(number):
                self.forged += 1
            else:
                self.notices[number, address] += 1

    def _until(self, until_us: int) -> None:
        """Let the world run to a time, whatever breaks down on the way."""
        while self.world.now_us < until_us:
            try:
                self.world.run(until_us)
            except RemoteError:
                pass  # dropped, as a network driver would
            except Exception:
                self.breakdowns += 1


def attack_row(
    name: str, attack: str, fraction: float, peers: int = 256, casts: int = 32, seed: int = 1,
    parameters: Mapping[str, Setting] | None = None, infrastructure_lies: bool = False,
) -> Row:  # fmt: skip
    """A design under an attack, Zipf workload: arrival at honest peers, false notices, messages, breakdowns."""
    drawn = workload("zipf", seed=seed, peers=peers, casts=casts)
    said, asked = drawn.described(), drawn.targeted()
    assault = Assault(name, attack, fraction, said, asked, seed, parameters, infrastructure_lies)
    assault.run()
    return {"design": name, "attack": attack, "f": fraction, "peers": peers, "casts": casts,
            "infrastructure_lies": int(infrastructure_lies), **assault.row()}  # fmt: skip


def attack_rows(names: Sequence[str], fraction: float, **settings: Any) -> list[Row]:
    """Every design under every attack."""
    return [attack_row(name, attack, fraction, **settings) for name in names for attack in ATTACKS]


def _registering(member: Member, description: Description) -> Any:
    return lambda: member.register(description)


def _payload(number: int) -> bytes:
    return b"cast %d" % number
