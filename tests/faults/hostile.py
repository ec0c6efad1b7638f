"""A stranger that sends anything to anybody: genuine messages of a design, spoilt field by field or byte by byte.

The scene is a small network of one design after some change, so that every kind of message has been seen and peers
have state that a bad message could hurt. A message goes through the codec like one off a wire. Peers may raise
`RemoteError`, which a node counts; nothing else, not even later, when their alarms ring.
"""

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from traceback import extract_tb
from typing import Any

import msgspec
from msgspec import inspect

from implicast.casting.designs import design
from implicast.peer.contract import Message, Peer
from implicast.peer.errors import RemoteError
from implicast.peer.member import Member
from implicast.peer.wire import KIND_BYTES, Codec, pack
from implicast.trials.campaign import FEW_TAGS
from implicast.world.churn import Churn
from implicast.world.run import Run, silent
from implicast.world.scenario import Scenario

NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    64,
    255,
    256,
    65_535,
    1 << 20,
    1 << 31,
    1 << 34,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
    (1 << 64) - 1,
)
OTHERS = (
    None,
    True,
    "",
    "x",
    "é" * 300,
    b"",
    b"\xff" * 16,
    b"\0" * 4_000,
    [],
    {},
    [[]],
    1.5,
    float("nan"),
    float("inf"),
    ["a", 1],
    ("host", 80),
    ["host", -1],
)
SAMPLES = 24
"""Genuine messages of each kind that are kept to be spoilt."""
STRANGERS = (9_999, 10_000)
PATIENCE_S = 2.0
"""Processor time that one message, and what it makes ring within a fifth of a second, may take."""
DEEP = 60


class Hang(Exception):
    """A message that takes too long."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class Guarded(Peer):
    """Counts nonsense as a node does, and lets everything else through."""

    def __init__(self, peer: Peer, counts: Counter[str]) -> None:
        super().__init__(peer.address, peer.host)
        self.peer, self.counts = peer, counts

    def receive(self, sender: Any, message: Message) -> None:
        try:
            self.peer.receive(sender, message)
        except RemoteError:
            self.counts["refused by a handler"] += 1

    def wake(self, alarm: Message) -> None:
        self.peer.wake(alarm)


class Scene:
    """A network of one design, with genuine messages of all kinds."""

    def __init__(self, name: str, directory: Path, seed: int = 1) -> None:
        found = design(name)
        few = (
            {"workload": "zipf", "workload_parameters": dict(FEW_TAGS)}
            if found.few_tags
            else {"workload": "groups"}
        )
        scenario = Scenario(
            name,
            peers=12,
            casts=30,
            seed=seed,
            parameters=dict(found.trial),
            churn=Churn.parse("joins=2,leaves=1,crashes=1,anew=3,over_s=20"),
            **few,
        )
        self.rng, self.counts = Random(seed), Counter[str]()
        self._grown = False
        """Has the message that is being spoilt grown already?"""
        self.harm: dict[str, str] = {}
        """Where something was raised that must not be, with a message after which it was."""
        self.last: tuple[Any, ...] = ()
        self.samples: dict[type, list[Message]] = defaultdict(list)
        self.run = Run(scenario, *scenario.settled(), directory / "journal")
        self.world = self.run.world
        self._listen()
        self.run.set_up(silent)
        self.run.register(silent)
        self.run.cast(silent)
        self._cut_loose()
        self.codec = Codec(found.kinds)
        for kind in found.kinds:
            self.samples[kind] = self.samples[kind] or [example(kind)]

    def _listen(self) -> None:
        look = self.world.classify

        def looked(message: Message) -> None:
            kept = self.samples[type(message)]
            if len(kept) < SAMPLES:
                kept.append(message)
            look(message)

        self.world.classify = looked

    def _cut_loose(self) -> None:
        """No journal, no judge, no faults: only peers."""
        self.run.journal.discard()
        self.world.journal = self.world.faults = self.world.codec = None
        self.world.on_event = lambda address, event: None
        self.world.latency_us = lambda a, b: 10_000
        for address, peer in list(self.world.peers.items()):
            self.world.peers[address] = Guarded(peer, self.counts)

    def peers(self) -> list[Peer]:
        return [each.peer for each in self.world.peers.values()]

    def roles(self) -> dict[str, list[int]]:
        """Addresses by role: members, and each kind of infrastructure."""
        found = defaultdict(list)
        for address, guarded in self.world.peers.items():
            member = isinstance(guarded.peer, Member)
            found["member" if member else type(guarded.peer).__name__].append(address)
        return dict(found)

    def attack(self, role: str, messages: int) -> None:
        """Send so many spoilt messages of all kinds to peers of this role."""
        targets, kinds = self.roles()[role], sorted(self.samples, key=lambda kind: kind.__name__)
        kinds = [kind for kind in kinds if kind in self.codec.kinds]
        senders = [*self.world.peers, *STRANGERS]
        for number in range(messages):
            data = self._spoilt(kinds[number % len(kinds)])
            to = self.rng.choice(targets)
            sender = self.rng.choice([each for each in senders if each != to])
            try:
                with deadline(PATIENCE_S):
                    self._send(sender, to, data)
                    if number % 20 == 0:
                        self.world.run(self.world.now_us + 200_000)
            except Exception as wrong:
                place = extract_tb(wrong.__traceback__)[-1]
                self.harm.setdefault(
                    f"{wrong!r} at {place.filename}:{place.lineno}", f"{self.last}"
                )

    def _send(self, sender: int, to: int, data: bytes) -> None:
        try:
            message = self.codec.decode(data)
        except RemoteError:
            self.counts["refused by decoding"] += 1
            return
        self.counts["let in"] += 1
        self.last = (sender, to, message)
        self.world.peers[to].receive(sender, message)

    def _spoilt(self, kind: type) -> bytes:
        message = self.rng.choice(self.samples[kind])
        data = self.codec.encode(message)
        way = self.rng.random()
        if way < 0.1:
            return data  # genuine, but old, or for somebody else
        if way < 0.25:
            return self._spoilt_bytes(data)
        fields, self._grown = msgspec.msgpack.decode(pack(message)), False
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            fields = self._spoilt_fields(fields)
        try:
            return data[:KIND_BYTES] + pack(fields)
        except (OverflowError, TypeError):
            return self._spoilt_bytes(data)

    def _spoilt_bytes(self, data: bytes) -> bytes:
        spoilt, rng = bytearray(data), self.rng
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(spoilt) + 1)
            way = rng.randrange(3)
            if way == 0 and at < len(spoilt):
                spoilt[at] = rng.randrange(256)
            elif way == 1:
                del spoilt[at:]
            else:
                spoilt[at:at] = rng.randbytes(rng.randint(1, 9))
        return bytes(spoilt)

    def _spoilt_fields(self, value: Any, depth: int = 0) -> Any:
        """One place of a value, near the top or deep down, is changed."""
        rng = self.rng
        if isinstance(value, list) and value and (depth == 0 or rng.random() < 0.6):
            at = rng.randrange(len(value))
            if depth and rng.random() < 0.15 and not self._grown:
                self._grown = (
                    True  # once in a message: five thousand times five thousand fill the machine
                )
                return value * rng.choice((0, 2, 200, 5_000))
            return [*value[:at], self._spoilt_fields(value[at], depth + 1), *value[at + 1 :]]
        if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.7:
            return rng.choice((*NUMBERS, value + 1, value - 1, -value))
        if isinstance(value, bytes) and rng.random() < 0.5:
            return rng.choice((rng.randbytes(len(value)), value * 100, value[:-1], value + b"\0"))
        if rng.random() < 0.05:
            return _nested(DEEP)
        return rng.choice((*OTHERS, *NUMBERS))


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def example(kind: type) -> Message:
    """A message of a kind that nobody sent, with the least that each field takes."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return msgspec.convert([_least(each.type, 0) for each in info.fields], kind)


def _least(info: inspect.Type, depth: int) -> Any:
    if isinstance(info, inspect.UnionType):
        plain = [one for one in info.types if isinstance(one, inspect.NoneType | inspect.IntType)]
        return _least((plain or list(info.types))[0], depth)
    if isinstance(info, inspect.StructType):
        return [
            *([info.tag] if info.tag is not None else []),
            *(_least(each.type, depth + 1) for each in info.fields),
        ]
    if isinstance(info, inspect.TupleType):
        return [_least(one, depth) for one in info.item_types]
    if isinstance(info, inspect.IntType):
        return info.ge or 0
    if isinstance(info, inspect.BytesType):
        return bytes(info.min_length or 0)
    if isinstance(info, inspect.EnumType):
        return next(iter(info.cls)).value
    simple = {
        inspect.StrType: "",
        inspect.BoolType: False,
        inspect.FloatType: 0.0,
        inspect.NoneType: None,
    }
    return simple.get(type(info), [])


def main(names: list[str], messages: int) -> None:
    """Attack designs and say what harm was done: `python tests/faults/hostile.py 2000 dht bft`."""
    for name in names:
        with TemporaryDirectory() as directory:
            scene = Scene(name, Path(directory))
        for role in scene.roles():
            scene.attack(role, messages)
        print(name, dict(scene.counts))
        for wrong, after in scene.harm.items():
            print(f"  {wrong}\n      after {after[:300]}")


if __name__ == "__main__":
    import sys

    main(sys.argv[2:], int(sys.argv[1]))
