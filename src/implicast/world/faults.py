"""Message faults of the simulated network: loss, duplication, delay, reordering, partitions.
Seeded, so that a run can be replayed.

    Faults.parse("loss=0.01,duplicate=0.02,delay=0.1,delay_ms=50..500,partition=10..20:0.5")

A `Faults` is a value and part of a scenario. A `FaultStream` applies it to each message. It draws
from its own random stream, so that faults do not change what peers draw.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import isfinite

from implicast.peer.errors import ParameterError
from implicast.space.digest import digest_bits, stream

COPY_MS = 1_000
"""A duplicate takes up to this many milliseconds longer than an ordinary copy."""
PARTITIONS_MAX = 1_000
"""Partitions of one network. Each is checked for every message."""


@dataclass(frozen=True, slots=True)
class Partition:
    """No message crosses between two sides from `from_s` to `to_s`.

    The sides are the hosts in `apart` and all other hosts. If `apart` is empty, a hash assigns a
    `share` of the hosts to the first side.
    """

    from_s: float
    to_s: float
    share: float = 0.5
    apart: tuple[int, ...] = ()

    def text(self) -> str:
        side = "@" + "+".join(map(str, self.apart)) if self.apart else repr(self.share)
        return f"{self.from_s!r}..{self.to_s!r}:{side}"


@dataclass(frozen=True, slots=True)
class Faults:
    """Fault rates of a network. The default has no faults."""

    loss: float = 0.0
    """Share of messages that never arrive."""
    duplicate: float = 0.0
    """Share of messages that arrive twice."""
    delay: float = 0.0
    """Share of messages that are delayed by a further time drawn from `delay_ms`."""
    delay_ms: tuple[float, float] = (10.0, 1_000.0)
    reorder: float = 0.0
    """Share of messages that are delayed by up to three times their latency, so that later messages
    overtake them.
    """
    jitter: float = 0.0
    """Every message takes longer by up to this share of its latency."""
    partitions: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "delay", "reorder"):
            _between(name, getattr(self, name), 0, 1, "a share from 0 to 1")
        _between("jitter", self.jitter, 0, 100, "a share of the latency from 0 to 100")
        low, high = self.delay_ms
        _between("delay_ms", low, 0, high, "two times LOW..HIGH in milliseconds, the lower first")
        _between("delay_ms", high, 0, 86_400_000, "times of at most a day")
        _between("partitions", len(self.partitions), 0, PARTITIONS_MAX, f"at most {PARTITIONS_MAX}")
        for each in self.partitions:
            _between("partition", each.share, 0, 1, "a share from 0 to 1 after the colon")
            _between(
                "partition",
                each.from_s,
                0,
                each.to_s,
                "two times FROM..TO in seconds, the earlier first",
            )
            _between("partition", each.to_s, 0, 1e9, "times that end")

    @classmethod
    def parse(cls, text: str) -> "Faults":
        """Read `name=value,name=value`. `partition` may occur several times. The empty text means
        no faults.
        """
        values: dict[str, float | tuple[float, float]] = {}
        partitions: list[Partition] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or name not in _NAMES:
                raise ParameterError(
                    f"faults: {part!r} is not understood; "
                    f"it takes {', '.join(_NAMES)} as name=value"
                )
            if name == "partition":
                partitions.append(_partition(value))
            else:
                values[name] = _range(name, value) if name == "delay_ms" else _number(name, value)
        return cls(partitions=tuple(partitions), **values)  # type: ignore[arg-type]

    def text(self) -> str:
        """The text that `parse` reads; empty if there are no faults."""
        kind = Faults()
        shares = ("loss", "duplicate", "delay", "reorder", "jitter")
        parts = [f"{name}={getattr(self, name)!r}" for name in shares if getattr(self, name)]
        if self.delay_ms != kind.delay_ms and self.delay:
            parts.append("delay_ms={!r}..{!r}".format(*self.delay_ms))
        return ",".join(parts + [f"partition={each.text()}" for each in self.partitions])


_NAMES = (*(each.name for each in fields(Faults) if each.name != "partitions"), "partition")


DelayFunction = Callable[[int, int, int, int], tuple[int, ...]]
"""(now_us, sender, receiver, latency_us) -> the delay of each copy that arrives, in microseconds.
"""


def without_faults(now_us: int, sender: int, receiver: int, latency_us: int) -> tuple[int, ...]:
    """One copy, after the plain latency."""
    return (latency_us,)


class LossOnly:
    """Loss without any other fault. Costs a third of the general case; the compiled core draws for
    it without a Python call.
    """

    __slots__ = ("loss", "random")

    def __init__(self, random: Callable[[], float], loss: float) -> None:
        self.random, self.loss = random, loss

    def __call__(self, now_us: int, sender: int, receiver: int, latency_us: int) -> tuple[int, ...]:
        return () if self.random() < self.loss else (latency_us,)


class FaultStream:
    """Draws the faults of one message after the other."""

    __slots__ = (
        "_delay_us",
        "_partitions",
        "_plain",
        "_random",
        "_sides",
        "_uniform",
        "copy_delays_us",
        "faults",
        "seed",
    )

    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults, self.seed = faults, seed
        rng = stream(seed, "faults")
        self._random, self._uniform = rng.random, rng.uniform
        self._plain = not (faults.jitter or faults.reorder or faults.delay)
        self._delay_us = (faults.delay_ms[0] * 1000, faults.delay_ms[1] * 1000)
        # Microseconds, so that the message path compares integers.
        self._partitions = [
            (int(each.from_s * 1e6), int(each.to_s * 1e6), each) for each in faults.partitions
        ]
        self._sides: dict[tuple[int, int], bool] = {}
        only_loss = self._plain and faults.loss and not (faults.duplicate or faults.partitions)
        self.copy_delays_us: DelayFunction = (
            LossOnly(rng.random, faults.loss) if only_loss else self._drawn_delays_us
        )
        """Delay of each copy of a message: no value if it is lost, two if it is duplicated."""

    def _drawn_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        faults, random = self.faults, self._random
        if self._partitions and self._parted(now_us, sender, receiver):
            return ()
        if faults.loss and random() < faults.loss:
            return ()
        first_us = latency_us if self._plain else self._taken_us(latency_us)
        if faults.duplicate and random() < faults.duplicate:
            return first_us, self._taken_us(latency_us) + int(random() * COPY_MS * 1000)
        return (first_us,)

    def _taken_us(self, latency_us: int) -> int:
        faults, random = self.faults, self._random
        taken_us = float(latency_us)
        if faults.jitter:
            taken_us += random() * faults.jitter * latency_us
        if faults.reorder and random() < faults.reorder:
            taken_us += 3 * random() * latency_us
        if faults.delay and random() < faults.delay:
            taken_us += self._uniform(*self._delay_us)
        return int(taken_us)

    def _parted(self, now_us: int, sender: int, receiver: int) -> bool:
        for number, (from_us, to_us, partition) in enumerate(self._partitions):
            if from_us <= now_us < to_us and self._side(number, partition, sender) != self._side(
                number, partition, receiver
            ):
                return True
        return False

    def _side(self, number: int, partition: Partition, host: int) -> bool:
        side = self._sides.get((number, host))
        if side is None:
            drawn = digest_bits(48, self.seed, "partition", number, host) / 2**48 < partition.share
            side = self._sides[number, host] = host in partition.apart if partition.apart else drawn
        return side


def _between(name: str, value: float, low: float, high: float, takes: str) -> None:
    if not low <= value <= high:
        raise ParameterError(f"faults: {name}={value:g} is out of range; it takes {takes}")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ParameterError(f"faults: {name}={text} is not a number")
    return value


def _range(name: str, text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    if not dots:
        raise ParameterError(f"faults: {name}={text} is not a range; it takes LOW..HIGH")
    return _number(name, low), _number(name, high)


def _partition(text: str) -> Partition:
    """Read `FROM..TO`, `FROM..TO:SHARE` or `FROM..TO:@HOST+HOST`; times in seconds."""
    times, _, side = text.partition(":")
    from_s, to_s = _range("partition", times)
    if not side.startswith("@"):
        return Partition(from_s, to_s, _number("partition", side) if side else 0.5)
    hosts = side[1:].split("+")
    if not all(host.isdecimal() for host in hosts):
        raise ParameterError(f"faults: partition={text} names {side}; it takes hosts as @1+2+3")
    return Partition(from_s, to_s, apart=tuple(int(host) for host in hosts))
