"""The liars of one run: a seeded, colluding share of the members, on hosts that do something else with what they send.

A liar runs the very same peer as everybody else; its host hands each message to the strategies (`strategies.py`), which
say what leaves instead. So an attack needs to know nothing of the design. Liars behave until the gang is told to act: a
network is set up by all and attacked afterwards. They share what they know, and see what is public about all peers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from implicast.language.target import Description, Target
from implicast.peer.contract import Address, Host, Message, Peer
from implicast.peer.errors import ScenarioError
from implicast.space.digest import digest_bits, stream
from implicast.world.application import Application
from implicast.world.frozen import awake
from implicast.world.journal import UPKEEP
from implicast.world.liars.liars import Liars
from implicast.world.world import World

Letter = tuple[Address, Message, int]
"""To whom, what, and after how many microseconds."""
SPACING_US = 1_000
"""Liars that do something one after the other do it so far apart."""


def carries(message: Message) -> bool:
    """Whether there is a payload in it, however deep."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "payload" or (isinstance(value, Message) and carries(value)):
            return True
    return False


class Strategy:
    """One way to lie. This one does not: the others say what they do otherwise."""

    __slots__ = ("gang",)

    def __init__(self, gang: "Gang") -> None:
        self.gang = gang

    def begin(self) -> None:
        """The gang acts from now on."""

    def lie(
        self, liar: "LyingHost", to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        """What a liar sends in the place of this."""
        yield to, message, delay_us


@dataclass(frozen=True, slots=True)
class Stage:
    """What a gang finds: the world, the applications, and what is public of the run."""

    world: World
    application: Application
    seed: int
    peers: int
    infrastructure: int
    targets: Sequence[Target]
    descriptions: Sequence[Description]
    over_us: int
    """From when it acts to when the last cast is made."""


class Gang:
    """Who lies, and what liars share. `act` turns them loose."""

    def __init__(self, liars: Liars, stage: Stage, made: Callable[["Gang", str], Strategy]) -> None:
        self.settings, self.stage, self.world = liars, stage, stage.world
        if liars.victim is not None and not 0 <= liars.victim < stage.peers:
            raise ScenarioError(
                f"liars: victim={liars.victim} is no member; members are 0 to {stage.peers - 1}"
            )
        rng = stream(stage.seed, "liars", stage.peers, liars.share)
        drawn = stream(stage.seed, "victim", stage.peers).randrange(stage.peers)
        self.victim = drawn if liars.victim is None else liars.victim
        others = [each for each in range(stage.peers) if each != self.victim]
        count = min(len(others), round(stage.peers * liars.share))
        self.liars = frozenset(rng.sample(others, count))
        self.rng: Random = rng
        self.acting = False
        self.begun_us = 0
        self.spent = 0
        self.strategies = [made(self, name) for name in liars.strategies]

    # --- who

    def lies(self, address: int) -> bool:
        """Whether a liar is at an address; of newcomers as many lie as of all."""
        stage = self.stage
        first = stage.peers + stage.infrastructure
        if address >= first:
            return (
                digest_bits(32, stage.seed, "lying newcomer", address) < self.settings.share * 2**32
            )
        return address in self.liars or (self.settings.fixtures and address >= stage.peers)

    def host(self, address: int) -> Host:
        """The host of an address: a lying one for liars."""
        plain = self.world.host(address)
        return LyingHost(plain, address, self) if self.lies(address) else plain

    def peer(self, address: int) -> Peer | None:
        """Whoever is at an address."""
        found = self.world.peers.get(address)
        return None if found is None else awake(found)

    def honest(self) -> list[int]:
        """Addresses of the members that do not lie, newcomers left out."""
        return [each for each in range(self.stage.peers) if each not in self.liars]

    def somebody(self, but: Address) -> int:
        """Any member except one."""
        other = self.rng.randrange(self.stage.peers)
        return other if other != but else (other + 1) % self.stage.peers

    # --- acting

    def act(self) -> None:
        """From now on everyone of the gang does what it came for."""
        self.acting, self.begun_us = True, self.world.now_us
        for strategy in self.strategies:
            strategy.begin()

    def letters(self, liar: "LyingHost", to: Address, message: Message) -> list[Letter]:
        """What leaves a liar in the place of a message."""
        found: list[Letter] = [(to, message, 0)]
        for strategy in self.strategies:
            found = [letter for each in found for letter in strategy.lie(liar, *each)]
        return found

    def at(self, delay_us: int, what: Callable[[], object]) -> None:
        """Let something happen later."""
        self.world.at(self.world.now_us + delay_us, UPKEEP, what)

    def afford(self) -> bool:
        """Whether the gang can pay for one more superfluous message."""
        self.spent += 1
        return self.spent <= self.settings.extras * max(1, len(self.liars))

    def keeps_back(self) -> bool:
        """Whether this one is kept back, by those who keep any back."""
        drop = self.settings.drop
        return drop == 1 or self.rng.random() < drop

    def for_a_cast(self, message: Message) -> bool:
        """Whether a message is sent for a cast, as the world sees it, or bears what one says."""
        cast = getattr(message, "cast", None)
        return (
            self.world.purpose >= 0
            or (cast is not None and cast in self.world.casts)
            or carries(message)
        )

    def describe(self, address: int, description: Description, delay_us: int) -> None:
        """A liar says something else of itself."""
        application = self.stage.application
        self.at(delay_us, lambda: application.register(self.world.now_us, address, description))

    def describe_all(self, description: Callable[[int], Description], delay_us: int = 0) -> None:
        """All of them do, one after the other."""
        for number, address in enumerate(sorted(self.liars)):
            self.describe(address, description(address), delay_us + number * SPACING_US)


class LyingHost:
    """A liar's host: as any other until the gang acts."""

    __slots__ = ("_gang", "_host", "address")

    def __init__(self, host: Host, address: int, gang: Gang) -> None:
        self._host, self.address, self._gang = host, address, gang

    @property
    def now_us(self) -> int:
        return self._host.now_us

    @property
    def rng(self) -> Random:
        return self._host.rng

    def send(self, to: Address, message: Message) -> None:
        if not self._gang.acting:
            self._host.send(to, message)
            return
        for other, instead, delay_us in self._gang.letters(self, to, message):
            if delay_us:
                self._gang.at(delay_us, partial(self.truly_send, other, instead))
            else:
                self.truly_send(other, instead)

    def truly_send(self, to: Address, message: Message) -> None:
        """What the liar means to send; never to itself."""
        if to != self.address:
            self._host.send(to, message)

    def after(self, delay_us: int, alarm: Message) -> None:
        self._host.after(delay_us, alarm)

    def deliver(self, event: Message) -> None:
        self._host.deliver(event)
