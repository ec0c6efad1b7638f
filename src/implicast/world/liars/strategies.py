"""The strategies of liars, one class each. Those that depend on a design use `bft_lies.py`.

A message of a cast that has a payload carries the cast; its other messages acknowledge, ask and
answer.
"""

from collections import Counter, deque
from collections.abc import Iterator
from functools import partial

import msgspec

from implicast.language.target import Description
from implicast.peer.contract import Address, Message
from implicast.peer.expiry import EXPIRY_BYTES
from implicast.space.digest import digest_bits
from implicast.world.liars import bft_lies
from implicast.world.liars.coalition import Coalition, Delivery, LyingHost, Strategy, carries

FLOOD = 16
"""Extra receivers of each message of a flooding liar."""
REPLAYS = 3
REPLAY_MEMORY = 1_000
REPLAYED_US = (0, 100_000, 20_000_000, 70_000_000)
"""Delays of a replay: none, during the flight, within the memory of honest members, and after it.
"""
FORGED = b"forged"
ROUNDS = 6
"""Changes of description of a hoarding liar during the casts."""


def forged(message: Message) -> Message:
    """The same message with every payload in it replaced, nested ones included. The expiry in
    front of a payload stays, so that honest members see no other fault.
    """
    changes: dict[str, object] = {}
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if name == "payload":
            changes[name] = value[:EXPIRY_BYTES] + FORGED
        elif isinstance(value, Message):
            inner = forged(value)
            if inner is not value:
                changes[name] = inner
    return msgspec.structs.replace(message, **changes) if changes else message


class Silent(Strategy):
    """Answers probes, maintains its places, and sends nothing for any cast."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        if not (self.coalition.for_a_cast(message) and self.coalition.withholds()):
            yield to, message, delay_us


class Dropping(Strategy):
    """Acknowledges what it receives and forwards nothing."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        if carries(message) and self.coalition.withholds():
            bft_lies.confirm_to_itself(self.coalition, liar, to, message)
        else:
            yield to, message, delay_us


class Delaying(Strategy):
    """Forwards messages of casts as late as senders tolerate."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        late_us = (
            int(self.coalition.settings.delay_s * 1e6) if self.coalition.for_a_cast(message) else 0
        )
        yield to, message, delay_us + late_us


class Selective(Strategy):
    """Forwards to all but the victim; without a named victim, to half of the members."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        if self._unlucky(to) and carries(message) and self.coalition.withholds():
            bft_lies.confirm_to_itself(self.coalition, liar, to, message)
        else:
            yield to, message, delay_us

    def _unlucky(self, to: Address) -> bool:
        if self.coalition.settings.victim is not None:
            return to == self.coalition.victim
        return bool(digest_bits(1, self.coalition.context.seed, "unlucky", to))


class Aimed(Dropping):
    """Registers the victim's description, to get places beside it where the design allows that."""

    __slots__ = ()

    def on_act(self) -> None:
        description = self.coalition.context.descriptions[self.coalition.victim]
        self.coalition.describe_all(lambda address: description)


class Sybil(Dropping):
    """Claims the tags that casts ask for most."""

    __slots__ = ()

    def on_act(self) -> None:
        claimed = Description(
            tuple(sorted(asked(self.coalition)[: self.coalition.settings.places]))
        )
        self.coalition.describe_all(lambda address: claimed)


class Hoarding(Dropping):
    """Claims changing tags, never announces that it gives up a place, and keeps using old
    certificates.
    """

    __slots__ = ("_hoard",)

    def __init__(self, coalition: Coalition) -> None:
        super().__init__(coalition)
        self._hoard = bft_lies.CertificateHoard(coalition)

    def on_act(self) -> None:
        wanted, most = asked(self.coalition), self.coalition.settings.places
        for number in range(ROUNDS):
            turned = wanted[number % max(1, len(wanted)) :] + wanted[: number % max(1, len(wanted))]
            claimed = Description(tuple(sorted(turned[: max(1, min(most, len(turned) // 2))])))
            delay_us = self.coalition.context.over_us * number // ROUNDS
            self.coalition.describe_all(partial(_always, claimed), delay_us)
            self.coalition.at(delay_us, self._hoard.announce_old)

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        if not bft_lies.is_departure(message):
            yield from super().replace_message(liar, to, message, delay_us)


class Replaying(Strategy):
    """Replays messages to the same and other receivers, some after they were forgotten."""

    __slots__ = ("_recorded",)

    def __init__(self, coalition: Coalition) -> None:
        super().__init__(coalition)
        self._recorded: deque[tuple[Address, Message]] = deque(maxlen=REPLAY_MEMORY)

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        yield to, message, delay_us
        self._recorded.append((to, message))
        rng = self.coalition.rng
        for _ in range(REPLAYS):
            receiver, old = self._recorded[rng.randrange(len(self._recorded))]
            for other in (receiver, self.coalition.random_member(liar.address)):
                if other != liar.address and self.coalition.afford():
                    yield other, old, REPLAYED_US[rng.randrange(len(REPLAYED_US))]


class Forging(Strategy):
    """Changes the payload of casts."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        yield to, forged(message), delay_us


class Flooding(Strategy):
    """Sends messages to many peers that they do not concern, and fills the victim's memory."""

    __slots__ = ()

    def on_act(self) -> None:
        bft_lies.flood_ahead(self.coalition)

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        yield to, message, delay_us
        for _ in range(FLOOD):
            if self.coalition.afford():
                yield self.coalition.random_member(liar.address), message, delay_us


class Preempting(Silent):
    """Forwards genuine casts of `bft` early and at too low a level; otherwise silent."""

    __slots__ = ("_seen",)

    def __init__(self, coalition: Coalition) -> None:
        super().__init__(coalition)
        self._seen: set[tuple[int, bytes]] = set()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        bft_lies.preempt(self.coalition, message, self._seen)
        yield from super().replace_message(liar, to, message, delay_us)


class Misrouting(Strategy):
    """Sends messages of casts to a random member until its budget is spent; then drops them."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        if not (self.coalition.for_a_cast(message) and self.coalition.withholds()):
            yield to, message, delay_us
        elif self.coalition.afford():
            yield self.coalition.random_member(liar.address), message, delay_us


class Eclipsing(Dropping):
    """Answers requests for neighbours with fellow liars only."""

    __slots__ = ()

    def replace_message(
        self, liar: LyingHost, to: Address, message: Message, delay_us: int
    ) -> Iterator[Delivery]:
        yield from super().replace_message(
            liar, to, bft_lies.only_accomplices(self.coalition, message), delay_us
        )


def _always(description: Description, address: int) -> Description:
    return description


def asked(coalition: Coalition) -> list[str]:
    """The tags that casts ask for, most frequent first."""
    counted = Counter(
        tag for target in coalition.context.targets for term in target.terms for tag in term.has
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


def strategy(coalition: Coalition, name: str) -> Strategy:
    """The strategy of this name."""
    return _CLASSES[name](coalition)
