"""What liars do: one small class for each strategy. Those that need to know a design are in `bft_lies.py`.

Whatever is sent for a cast is *carried* if it bears a payload; the rest of it confirms, asks and answers.
"""

from collections import Counter, deque
from collections.abc import Iterator

import msgspec

from implicast.language.target import Description
from implicast.peer.contract import Address, Message
from implicast.space.digest import digest_bits
from implicast.world.liars import bft_lies
from implicast.world.liars.gang import Gang, Letter, LyingHost, Strategy, carries

FLOOD = 16
"""Extra receivers of each message of a flooding liar."""
REPLAYS = 3
REPLAY_MEMORY = 1_000
REPLAYED_US = (0, 100_000, 20_000_000, 70_000_000)
"""How much later something is said again: at once, in flight, within the memory of the honest, and after it."""
FORGED = b"forged"
ROUNDS = 6
"""How often a hoarding liar changes what it claims while casts go on."""


def forged(message: Message) -> Message:
    """The same message with every payload in it replaced, however deep."""
    changes: dict[str, object] = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "payload":
            changes[name] = FORGED
        elif isinstance(value, Message):
            inner = forged(value)
            if inner is not value:
                changes[name] = inner
    return msgspec.structs.replace(message, **changes) if changes else message


class Silent(Strategy):
    """Answers probes, keeps its places up, and sends nothing for any cast."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        if not (self.gang.for_a_cast(message) and self.gang.keeps_back()):
            yield to, message, delay_us


class Dropping(Strategy):
    """Confirms what it gets, as if it had handed it on."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        if carries(message) and self.gang.keeps_back():
            bft_lies.confirm_to_itself(self.gang, liar, to, message)
        else:
            yield to, message, delay_us


class Delaying(Strategy):
    """Hands everything on that is for a cast, as late as nobody complains."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        late_us = int(self.gang.settings.delay_s * 1e6) if self.gang.for_a_cast(message) else 0
        yield to, message, delay_us + late_us


class Selective(Strategy):
    """Hands on, but not to the victim; where no victim was named, not to half of all."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        if self._unlucky(to) and carries(message) and self.gang.keeps_back():
            bft_lies.confirm_to_itself(self.gang, liar, to, message)
        else:
            yield to, message, delay_us

    def _unlucky(self, to: Address) -> bool:
        if self.gang.settings.victim is not None:
            return to == self.gang.victim
        return bool(digest_bits(1, self.gang.stage.seed, "unlucky", to))


class Aimed(Dropping):
    """Describes itself as its victim does: if places can be had beside it, this is how."""

    __slots__ = ()

    def begin(self) -> None:
        said = self.gang.stage.descriptions[self.gang.victim]
        self.gang.describe_all(lambda address: said)


class Sybil(Dropping):
    """Claims all that casts ask for most."""

    __slots__ = ()

    def begin(self) -> None:
        claimed = Description(tuple(sorted(asked(self.gang)[: self.gang.settings.places])))
        self.gang.describe_all(lambda address: claimed)


class Hoarding(Dropping):
    """Claims these tags now and others then, never says farewell, and goes on speaking for what it gave up."""

    __slots__ = ("_hoard",)

    def __init__(self, gang: Gang) -> None:
        super().__init__(gang)
        self._hoard = bft_lies.Hoard(gang)

    def begin(self) -> None:
        wanted, most = asked(self.gang), self.gang.settings.places
        for number in range(ROUNDS):
            turned = wanted[number % max(1, len(wanted)) :] + wanted[: number % max(1, len(wanted))]
            claimed = Description(tuple(sorted(turned[: max(1, min(most, len(turned) // 2))])))
            delay_us = self.gang.stage.over_us * number // ROUNDS
            self.gang.describe_all(lambda address, claimed=claimed: claimed, delay_us)  # type: ignore[misc]
            self.gang.at(delay_us, self._hoard.speak)

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        if not bft_lies.gives_up(message):
            yield from super().lie(liar, to, message, delay_us)


class Replaying(Strategy):
    """Says everything again, to the same and to others, up to longer than it is remembered."""

    __slots__ = ("_recorded",)

    def __init__(self, gang: Gang) -> None:
        super().__init__(gang)
        self._recorded: deque[tuple[Address, Message]] = deque(maxlen=REPLAY_MEMORY)

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        yield to, message, delay_us
        self._recorded.append((to, message))
        rng = self.gang.rng
        for _ in range(REPLAYS):
            receiver, old = self._recorded[rng.randrange(len(self._recorded))]
            for other in (receiver, self.gang.somebody(liar.address)):
                if other != liar.address and self.gang.afford():
                    yield other, old, REPLAYED_US[rng.randrange(len(REPLAYED_US))]


class Forging(Strategy):
    """Says that something else was cast."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        yield to, forged(message), delay_us


class Flooding(Strategy):
    """Bothers many with what does not concern them, and fills the victim's memory."""

    __slots__ = ()

    def begin(self) -> None:
        bft_lies.flood_ahead(self.gang)

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        yield to, message, delay_us
        for _ in range(FLOOD):
            if self.gang.afford():
                yield self.gang.somebody(liar.address), message, delay_us


class Preempting(Silent):
    """Hands genuine casts of the careful design on early and at too low a level; else silent."""

    __slots__ = ("_told",)

    def __init__(self, gang: Gang) -> None:
        super().__init__(gang)
        self._told: set[tuple[int, bytes]] = set()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        bft_lies.preempt(self.gang, message, self._told)
        yield from super().lie(liar, to, message, delay_us)


class Misrouting(Strategy):
    """Sends what is for a cast to somebody else, as long as it can afford that; then nothing."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        if not (self.gang.for_a_cast(message) and self.gang.keeps_back()):
            yield to, message, delay_us
        elif self.gang.afford():
            yield self.gang.somebody(liar.address), message, delay_us


class Eclipsing(Dropping):
    """Names only fellow liars to whoever asks it for neighbours."""

    __slots__ = ()

    def lie(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Letter]:
        yield from super().lie(liar, to, bft_lies.only_accomplices(self.gang, message), delay_us)


def asked(gang: Gang) -> list[str]:
    """The tags that casts ask for, most wanted first."""
    counted = Counter(
        tag for target in gang.stage.targets for term in target.terms for tag in term.has
    )
    return [tag for tag, _ in counted.most_common()]


_CLASSES: dict[str, type[Strategy]] = {
    "silent": Silent,
    "dropping": Dropping,
    "delaying": Delaying,
    "selective": Selective,
    "aimed": Aimed,
    "hoarding": Hoarding,
    "replaying": Replaying,
    "forging": Forging,
    "flooding": Flooding,
    "preempting": Preempting,
    "sybil": Sybil,
    "misrouting": Misrouting,
    "eclipsing": Eclipsing,
}


def strategy(gang: Gang, name: str) -> Strategy:
    """The strategy of this name, for a gang."""
    return _CLASSES[name](gang)
