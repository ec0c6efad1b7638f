"""The liars of one run: a seeded, colluding share of the members, on hosts that alter what they
send.

A liar runs the same peer as honest members. Its host passes each message to the strategies
(`strategies.py`), which decide what to send instead, so most attacks are independent of the design.
Liars behave correctly until the coalition acts: the network is set up by all and attacked
afterwards. Liars share their knowledge and know all public facts about every peer.
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

Delivery = tuple[Address, Message, int]
"""(receiver, message, delay in microseconds)."""
SPACING_US = 1_000
"""Interval between actions that all liars take one after the other."""


def carries(message: Message) -> bool:
    """Whether the message, or one nested in it, has a payload."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "payload" or (isinstance(value, Message) and carries(value)):
            return True
    return False


class Strategy:
    """One way to lie. This base class sends everything unchanged."""

    __slots__ = ("coalition",)

    def __init__(self, coalition: "Coalition") -> None:
        self.coalition = coalition

    def on_act(self) -> None:
        """Called when the coalition begins to act."""

    def replace_message(
        self, liar: "LyingHost", to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        """What a liar sends instead of this message."""
        yield to, message, delay_us


@dataclass(frozen=True, slots=True)
class CoalitionContext:
    """What a coalition knows: the world, the applications, and the public facts of the run."""

    world: World
    application: Application
    seed: int
    peers: int
    infrastructure: int
    targets: Sequence[Target]
    descriptions: Sequence[Description]
    over_us: int
    """Time from when the coalition acts to the last cast."""


class Coalition:
    """The liars and their shared state. They lie after `act`."""

    def __init__(
        self, liars: Liars, context: CoalitionContext, made: Callable[["Coalition", str], Strategy]
    ) -> None:
        self.settings, self.context, self.world = liars, context, context.world
        if liars.victim is not None and not 0 <= liars.victim < context.peers:
            raise ScenarioError(
                f"liars: victim={liars.victim} is no member; members are 0 to {context.peers - 1}"
            )
        rng = stream(context.seed, "liars", context.peers, liars.share)
        drawn = stream(context.seed, "victim", context.peers).randrange(context.peers)
        self.victim = drawn if liars.victim is None else liars.victim
        others = [each for each in range(context.peers) if each != self.victim]
        count = min(len(others), round(context.peers * liars.share))
        self.liars = frozenset(rng.sample(others, count))
        self.rng: Random = rng
        self.acting = False
        self.begun_us = 0
        self.spent = 0
        self.strategies = [made(self, name) for name in liars.strategies]

    # --- membership

    def lies(self, address: int) -> bool:
        """Whether a liar is at an address. The same share of newcomers lies."""
        context = self.context
        first = context.peers + context.infrastructure
        if address >= first:
            return (
                digest_bits(32, context.seed, "lying newcomer", address)
                < self.settings.share * 2**32
            )
        return address in self.liars or (self.settings.fixtures and address >= context.peers)

    def host(self, address: int) -> Host:
        """The host of an address: a `LyingHost` for liars."""
        plain = self.world.host(address)
        return LyingHost(plain, address, self) if self.lies(address) else plain

    def peer(self, address: int) -> Peer | None:
        """The peer at an address."""
        found = self.world.peers.get(address)
        return None if found is None else awake(found)

    def honest(self) -> list[int]:
        """Addresses of honest members, without newcomers."""
        return [each for each in range(self.context.peers) if each not in self.liars]

    def random_member(self, but: Address) -> int:
        """A random member other than this one."""
        other = self.rng.randrange(self.context.peers)
        return other if other != but else (other + 1) % self.context.peers

    # --- acting

    def act(self) -> None:
        """Begin to lie."""
        self.acting, self.begun_us = True, self.world.now_us
        for strategy in self.strategies:
            strategy.on_act()

    def deliveries(self, liar: "LyingHost", to: Address, message: Message) -> list[Delivery]:
        """What a liar sends instead of a message, after all strategies."""
        found: list[Delivery] = [(to, message, 0)]
        for strategy in self.strategies:
            found = [
                delivery for each in found for delivery in strategy.replace_message(liar, *each)
            ]
        return found

    def at(self, delay_us: int, what: Callable[[], object]) -> None:
        """Schedule a call."""
        self.world.at(self.world.now_us + delay_us, UPKEEP, what)

    def afford(self) -> bool:
        """Count one more superfluous message; False if the budget is spent."""
        self.spent += 1
        return self.spent <= self.settings.extras * max(1, len(self.liars))

    def withholds(self) -> bool:
        """Whether to withhold this message, with probability `drop`."""
        drop = self.settings.drop
        return drop == 1 or self.rng.random() < drop

    def for_a_cast(self, message: Message) -> bool:
        """Whether a message belongs to a cast, by its purpose, its field `cast` or a payload."""
        cast = getattr(message, "cast", None)
        return (
            self.world.purpose >= 0
            or (cast is not None and cast in self.world.casts)
            or carries(message)
        )

    def describe(self, address: int, description: Description, delay_us: int) -> None:
        """Let a liar register another description."""
        application = self.context.application
        self.at(delay_us, lambda: application.register(self.world.now_us, address, description))

    def describe_all(self, description: Callable[[int], Description], delay_us: int = 0) -> None:
        """Let all liars do so, one after the other."""
        for number, address in enumerate(sorted(self.liars)):
            self.describe(address, description(address), delay_us + number * SPACING_US)


class LyingHost:
    """The host of a liar. It behaves correctly until the coalition acts."""

    __slots__ = ("_coalition", "_host", "address")

    def __init__(self, host: Host, address: int, coalition: Coalition) -> None:
        self._host, self.address, self._coalition = host, address, coalition

    @property
    def now_us(self) -> int:
        return self._host.now_us

    @property
    def rng(self) -> Random:
        return self._host.rng

    def send(self, to: Address, message: Message) -> None:
        if not self._coalition.acting:
            self._host.send(to, message)
            return
        for other, instead, delay_us in self._coalition.deliveries(self, to, message):
            if delay_us:
                self._coalition.at(delay_us, partial(self.send_unchanged, other, instead))
            else:
                self.send_unchanged(other, instead)

    def send_unchanged(self, to: Address, message: Message) -> None:
        """Send a message as it is; never to itself."""
        if to != self.address:
            self._host.send(to, message)

    def after(self, delay_us: int, alarm: Message) -> None:
        self._host.after(delay_us, alarm)

    def deliver(self, event: Message) -> None:
        self._host.deliver(event)
