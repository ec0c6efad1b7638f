"""Mutated messages: nothing raises but `RemoteError` at the decoder, and nothing false is delivered."""

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from bft_network import Network, tagged

from implicast.casting.bft import DESIGNS
from implicast.casting.bft.validator import CastHop
from implicast.language.target import Target, Term
from implicast.peer.contract import Message
from implicast.peer.errors import RemoteError
from implicast.peer.events import Notice
from implicast.peer.wire import Codec

CODEC = Codec(DESIGNS[0].kinds)


class Mutator:
    """Takes genuine messages and spoils them: bytes on the wire, or fields, with or without a liar's own signature."""

    def __init__(self, network: Network, seed: int) -> None:
        self.network, self.rng = network, Random(seed)
        self.genuine = [
            hop for address in (0, 1, 2, 3) for _, hop in network.cast(address, tagged("jazz"))
        ]
        self.outcomes: Counter[str] = Counter()

    def spoilt_bytes(self) -> bytes:
        data = bytearray(CODEC.encode(self.rng.choice(self.genuine)))
        for _ in range(self.rng.randint(1, 4)):
            way, at = self.rng.randrange(4), self.rng.randrange(len(data))
            if way == 0:
                data[at] ^= 1 << self.rng.randrange(8)
            elif way == 1:
                data[at] = self.rng.randrange(256)
            elif way == 2:
                del data[at : at + self.rng.randint(1, 9)]
            else:
                data[at:at] = self.rng.randbytes(self.rng.randint(1, 9))
            if not data:
                return b""
        return bytes(data)

    def spoilt_fields(self) -> CastHop:
        hop = self.rng.choice(self.genuine)
        source = msgspec.structs.replace(hop.source, **self._change(hop.source))
        if self.rng.random() < 0.3:
            source = self.network.resigned(self.rng.randrange(5, 9), source)
        hop = msgspec.structs.replace(hop, source=source)
        if self.rng.random() < 0.5:
            hop = msgspec.structs.replace(hop, **self._change(hop))
        if self.rng.random() < 0.5:
            level = min(max(hop.level, 0), 70)
            hop = self.network.hop(self.rng.randrange(5, 9), source, level)
        return hop

    def _change(self, value: Message) -> dict[str, Any]:
        name = self.rng.choice(value.__struct_fields__)
        return {name: self._another(getattr(value, name))}

    def _another(self, value: Any) -> Any:
        if isinstance(value, int):
            return self.rng.choice(
                [0, -1, 1, value + 1, value ^ 1, 2**62, -(2**62), self.rng.randrange(64)]
            )
        if isinstance(value, bytes):
            return self.rng.choice(
                [b"", value[:-1], value + b"x", self.rng.randbytes(len(value)), b"tjazz\0" + value]
            )
        if isinstance(value, tuple):
            return self.rng.choice([(), (0,) * 9, (-1,), (2**40,)])
        if isinstance(value, Target):
            return self.rng.choice([Target(()), tagged("nobody"), Target((Term(lacks=("jazz",)),))])
        return (
            msgspec.structs.replace(value, **self._change(value))
            if isinstance(value, Message)
            else value
        )

    def throw(self, message: Message) -> None:
        """At somebody who has not met the genuine one; what it delivers, if anything, must be genuine."""
        to = self.rng.randrange(10, len(self.network.members))
        kind = type(message)
        if kind not in self.network.members[to].message_handlers:
            self.outcomes["not for members"] += 1
            return
        self.network.members[to].receive(self.rng.randrange(10), message)
        for verb, _, what in self.network.ledgers[to].take():
            if verb == "deliver":
                assert isinstance(what, Notice)
                assert what.payload == b"hello", f"{message} delivered {what}"
                assert what.cast in {hop.source.cast for hop in self.genuine}, (
                    f"{message} delivered {what}"
                )
        self.outcomes[kind.__name__] += 1


def fuzz(count: int, signatures: str, seed: int) -> Mutator:
    network = Network(40, signatures=signatures)
    mutator = Mutator(network, seed)
    for number in range(count):
        if number % 2:
            mutator.throw(mutator.spoilt_fields())
            continue
        try:
            message = CODEC.decode(mutator.spoilt_bytes())
        except RemoteError:
            mutator.outcomes["unreadable"] += 1
            continue
        mutator.throw(message)
    return mutator


@pytest.mark.parametrize(("signatures", "count"), [("ed25519", 1_500), ("stand-in", 6_000)])
def test_mutated_messages_raise_nothing_and_deliver_nothing_false(
    signatures: str, count: int
) -> None:
    mutator = fuzz(count, signatures, seed=1)

    refused = sum(
        (Counter(member.multicasts.validator.refusals) for member in mutator.network.members),
        Counter(),
    )
    assert {"forged_source", "forged_hop", "forged_certificate"} <= set(refused), refused
    assert mutator.outcomes["unreadable"] > 0


@pytest.mark.long
def test_a_hundred_thousand_mutated_messages_raise_nothing_and_deliver_nothing_false() -> None:
    fuzz(100_000, "stand-in", seed=2)


def test_the_harness_would_notice_a_false_delivery() -> None:
    network = Network(40, frozenset({2, 3, 4, 5, 6}))
    mutator = Mutator(network, seed=3)

    def advance_search() -> None:
        for _ in range(5_000):
            mutator.throw(mutator.spoilt_fields())

    with pytest.raises(AssertionError, match="delivered"):
        advance_search()
