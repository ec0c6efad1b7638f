"""Spam and complaints (thesis, 10.2.3): one publisher casts to half of all peers each minute;
readers complain.

    SpamTrial(SpamSettings("centralised", peers=256, false=0.1)).run()

Every reader of a spam complains with some probability, drawn by a hash of reader and minute. A
share of the names complains about every cast. Meanwhile the other peers cast to small groups. The
result is the share of peers that a spam reaches, minute by minute, and whether an honest publisher
was ever declined.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from msgspec.msgpack import decode as decoded
from msgspec.msgpack import encode as encoded

from implicast.casting.designs import design
from implicast.language.parse import parse
from implicast.language.target import Description
from implicast.peer.contract import CastId, Message
from implicast.peer.events import Notice, Settled, Slowed
from implicast.peer.member import Member
from implicast.space.digest import digest_bits
from implicast.world.core import new_world
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population

MINUTE_US = 60_000_000
SPAMMER = 0
CROWD = "crowd"
"""The tag that half of all peers have."""
SETTLE_US = 5_000_000
COMPLAIN_US = 10_000_000
"""Longest time between a notice and the complaint about it."""


@dataclass(frozen=True, slots=True)
class SpamSettings:
    """Settings of one trial."""

    name: str
    peers: int = 256
    minutes: int = 15
    complains: float = 0.3
    """Probability that a reader complains about a spam."""
    false: float = 0.0
    """The share of names that complain about every cast."""
    heeded: bool = True
    """Whether readers complain at all."""
    groups: int = 16
    """Number of groups that honest publishers cast to."""
    honest_per_minute: int = 24
    falls: int = -1
    """In this minute, before its casts, every infrastructure peer crashes and restarts with its
    disk; -1: never.
    """
    seed: int = 1


@dataclass(slots=True)
class Minute:
    """Counts for the casts of one minute."""

    spam_notified: int = 0
    honest_casts: int = 0
    honest_declined: int = 0
    honest_missed: int = 0


@dataclass(slots=True)
class SpamOutcome:
    """The result of one trial."""

    design: str
    spam_share: list[float] = field(default_factory=list)
    """Minute by minute: the share of all peers that the spam reached."""
    honest_casts: int = 0
    honest_declined: int = 0
    """Casts of honest publishers that some holder declined."""
    honest_slowed: int = 0
    """Honest publishers that were notified that they are slowed."""
    spammer_notified: bool = False
    complaints: int = 0


def _chance(*parts: object) -> float:
    return digest_bits(32, *parts) / (1 << 32)


class SpamTrial:
    """One world with one spammer."""

    def __init__(self, settings: SpamSettings) -> None:
        self.settings = settings
        own = self._design = design(settings.name)
        parameters = own.settle({})
        count = own.infrastructure(settings.peers, parameters)
        network = build("flat", settings.peers, count, settings.seed)
        self._world = new_world(network, settings.seed)
        self._world.on_event = self._on_event
        plan = Plan(
            settings.peers,
            count,
            parameters,
            settings.seed,
            self._world.host,
            network.latency_us,
            descriptions=self._descriptions(),
            credentials=population(own).credentials,
        )
        self._plan = replace(plan, roles=own.roles(plan.peers, plan.infrastructure))
        self._members: list[Member] = []
        for address, peer in enumerate(population(own).assemble(self._plan)):
            self._world.place(address, peer)
            if isinstance(peer, Member) and address < settings.peers:
                self._members.append(peer)
        self._minutes = [Minute() for _ in range(settings.minutes)]
        self._casts: dict[CastId, tuple[int, bool]] = {}
        """By cast: its minute, and whether it is spam."""
        self._outcome = SpamOutcome(settings.name)
        self._slowed: set[int] = set()

    def _descriptions(self) -> list[Description]:
        found = []
        for peer in range(self.settings.peers):
            tags = {
                f"group{digest_bits(32, self.settings.seed, 'group', peer) % self.settings.groups}"
            }
            if peer % 2:
                tags.add(CROWD)
            found.append(Description(tuple(sorted(tags))))
        return found

    def run(self) -> SpamOutcome:
        for peer, (member, description) in enumerate(
            zip(self._members, self._plan.descriptions, strict=True)
        ):
            self._world.at(SETTLE_US + peer * 1000, 0, partial(member.register, description))
        begin_us = 2 * MINUTE_US
        for minute in range(self.settings.minutes):
            minute_us = begin_us + minute * MINUTE_US
            if minute == self.settings.falls:
                self._world.at(minute_us - SETTLE_US, 0, self._fall)
            self._world.at(minute_us, 0, partial(self._cast, SPAMMER, CROWD, minute, True))
            for number in range(self.settings.honest_per_minute):
                at_us = minute_us + (number + 1) * MINUTE_US // (
                    self.settings.honest_per_minute + 2
                )
                self._world.at(at_us, 0, partial(self._honest, minute, number))
        self._world.run(begin_us + self.settings.minutes * MINUTE_US)
        return self._concluded()

    def _fall(self) -> None:
        """Restart every infrastructure peer with its durable state."""
        for role, addresses in self._plan.roles.items():
            for address in addresses:
                durable: Any = decoded(
                    encoded(self._world.peers[address].durable_state()),
                    type=self._design.durable_types[role],
                )
                self._world.crash(address)
                self._world.place(
                    address,
                    self._plan.new_fixture(self._design, address, durable.incarnation, durable),
                )

    def _honest(self, minute: int, number: int) -> None:
        seed = self.settings.seed
        publisher = 1 + digest_bits(32, seed, "who", minute, number) % (self.settings.peers - 1)
        group = digest_bits(32, seed, "whom", minute, number) % self.settings.groups
        self._minutes[minute].honest_casts += 1
        self._cast(publisher, f"group{group}", minute, False)

    def _cast(self, publisher: int, tag: str, minute: int, spam: bool) -> None:
        member = self._members[publisher]
        self._casts[member.upcoming_cast()] = (minute, spam)
        member.cast(parse(tag), b"buy" if spam else b"hello")

    # --- readers

    def _on_event(self, address: int, event: Message) -> None:
        if isinstance(event, Notice):
            self._read(address, event.cast)
        elif isinstance(event, Settled) and event.cast in self._casts:
            minute, spam = self._casts[event.cast]
            if not spam and event.declined:
                self._minutes[minute].honest_declined += 1
        elif isinstance(event, Slowed):
            self._slowed.add(address)

    def _read(self, reader: int, cast: CastId) -> None:
        minute, spam = self._casts[cast]
        if spam:
            self._minutes[minute].spam_notified += 1
        settings = self.settings
        liar = _chance(settings.seed, "liar", reader) < settings.false
        annoyed = spam and _chance(settings.seed, "annoyed", reader, minute) < settings.complains
        if settings.heeded and (liar or annoyed):
            wait_us = int(
                COMPLAIN_US
                * _chance(settings.seed, "wait", reader, cast.serial, cast.publisher.hex())
            )
            self._world.at(self._world.now_us + wait_us, 0, partial(self._complain, reader, cast))

    def _complain(self, reader: int, cast: CastId) -> None:
        self._outcome.complaints += self._members[reader].complain(cast)

    def _concluded(self) -> SpamOutcome:
        outcome = self._outcome
        outcome.spam_share = [each.spam_notified / self.settings.peers for each in self._minutes]
        outcome.honest_casts = sum(each.honest_casts for each in self._minutes)
        outcome.honest_declined = sum(each.honest_declined for each in self._minutes)
        outcome.honest_slowed = len(self._slowed - {SPAMMER})
        outcome.spammer_notified = SPAMMER in self._slowed
        return outcome
