"""What happens to peers while a system runs: they come, go, crash, stand still, are slow, are cut off. Seeded.

    Churn.parse("joins=64,leaves=32,crashes=32,over_s=3600")
    Churn.parse("deed=5:crash:7+8,deed=9..20:freeze:3,deed=12..30:split:0+1+2")

A `Churn` is a value, part of a scenario. It says how many deeds of each kind are drawn, or names single deeds, or both;
`deeds` spells all of them out, so that a drawn script can be replayed, and shortened, deed by deed. Times are seconds
after the first cast. Newcomers have addresses of their own beyond the first population; two lives are two peers. Who
is drawn must be there by the script: whether a newcomer has really joined by then is for the run to see.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from random import Random

from implicast.peer.errors import ParameterError, ScenarioError
from implicast.space.digest import stream
from implicast.world.deeds import Deed, Range, number, span, words

DEEDS_MAX = 100_000
"""Of one kind in one script; more is a typing error."""
SETTLED_S = 20.0
"""Whoever has just come is not drawn for anything else within this time."""
STAYING = 0.25
"""So many stay at any time, newcomers among them: this share of the first population, and at least two peers."""
FREE_MAX = 1_000
"""Addresses left out below the last newcomer that is named; each of them costs a host. More is a typing error."""


@dataclass(frozen=True, slots=True)
class Churn:
    """How much changes. All zero: nothing does."""

    joins: int = 0
    leaves: int = 0
    crashes: int = 0
    group: int = 1
    """Crashes come together, so many at a time; a number that is no multiple of it is rounded up to whole groups."""
    join_rate: float = 0.0
    """Further ones per minute, at the moments of a Poisson process; likewise the next two."""
    leave_rate: float = 0.0
    crash_rate: float = 0.0
    turnover: float = 0.0
    """So many per minute come, and as many go: half by their own wish, half by a crash."""
    restarts: int = 0
    """Servers or brokers that go down and come back with what they had written down."""
    down_s: Range = (2.0, 15.0)
    fails: int = 0
    """Servers or brokers that never come back."""
    freezes: int = 0
    """Peers that stand still for a while and wake, not knowing that they slept."""
    freeze_s: Range = (1.0, 14.0)
    slow: int = 0
    """Peers to and from which everything takes longer."""
    slow_ms: Range = (100.0, 800.0)
    cuts: int = 0
    """Links that carry nothing in one direction for a while."""
    cut_s: Range = (3.0, 20.0)
    flaps: int = 0
    """Links that work and fail in turns."""
    flap_s: Range = (0.2, 2.0)
    splits: int = 0
    """Partitions: no message crosses between two sides for a while."""
    split_s: Range = (3.0, 20.0)
    share: float = 0.5
    """Of the peers on the first side of a partition, at most."""
    drift: float = 0.0
    """Clocks run at rates from 1 - drift to 1 + drift."""
    over_s: float = 60.0
    """Deeds are drawn from this time."""
    guests: int = 0
    """So many newcomers may be named by deeds though nobody joins at their addresses: such deeds do nothing. For
    scripts from which joins were left out."""
    deeds: tuple[Deed, ...] = ()
    """Single deeds, beside those that are drawn."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            _between(name, getattr(self, name), 0, DEEDS_MAX, f"0 to {DEEDS_MAX}")
        _between("guests", self.guests, 0, DEEDS_MAX, f"0 to {DEEDS_MAX}")
        _between("group", self.group, 1, DEEDS_MAX, "1 or more")
        for name in ("join_rate", "leave_rate", "crash_rate", "turnover"):
            _between(name, getattr(self, name), 0, 1e6, "a number per minute, 0 or more")
        _between("share", self.share, 0, 1, "a share from 0 to 1")
        _between("drift", self.drift, 0, 0.5, "a share from 0 to 0.5")
        _between("over_s", self.over_s, 0.001, 1e7, "seconds, more than none")
        for name in _RANGES:
            low, high = getattr(self, name)
            _between(name, low, 0.001, high, "two numbers LOW..HIGH, the lower first")
            _between(name, high, 0, 1e7, "numbers that end")

    @classmethod
    def parse(cls, text: str) -> "Churn":
        """Read `name=value,name=value`; `deed` may come several times; `@FILE` reads the same from a file."""
        values: dict[str, int | float | Range] = {}
        deeds: list[Deed] = []
        for part in filter(None, (part.strip() for part in words(text))):
            name, equals, value = part.partition("=")
            if not equals or name not in _NAMES:
                raise ParameterError(f"churn: {part!r} is not understood; it takes {', '.join(_NAMES)} as name=value")
            if name == "deed":
                deeds.append(Deed.parse(value))
            elif name in values:
                raise ParameterError(f"churn: {name} is given again by {part}; only `deed` may come more than once")
            else:
                values[name] = _value(name, value)
        churn = cls(deeds=tuple(deeds), **values)  # type: ignore[arg-type]
        whole = churn.crashes // churn.group * churn.group
        if whole < churn.crashes:
            right = f"{whole} or {whole + churn.group}" if whole else str(churn.group)
            raise ParameterError(f"churn: crashes={churn.crashes} is no multiple of group={churn.group}; say {right}")
        return churn

    def text(self) -> str:
        """What `parse` reads; empty when nothing changes."""
        still, told = Churn(), []
        for name in _NAMES[:-1]:
            value = self.group * self._groups() if name == "crashes" else getattr(self, name)
            if value != getattr(still, name):
                told.append(f"{name}={value[0]!r}..{value[1]!r}" if isinstance(value, tuple) else f"{name}={value!r}")
        return ",".join(told + [f"deed={deed.text()}" for deed in self.deeds])

    def _groups(self) -> int:
        return -(-self.crashes // self.group)

    def __bool__(self) -> bool:
        return bool(self.text())

    def spelled(self, seed: int, peers: int, infrastructure: int) -> "Churn":
        """The same changes, every deed by name. Joins may be left out of it, and what happens to newcomers stay."""
        guests = max(self.guests, self.newcomers(seed, peers, infrastructure))
        return Churn(deeds=self.script(seed, peers, infrastructure), drift=self.drift, guests=guests)

    def script(self, seed: int, peers: int, infrastructure: int) -> tuple[Deed, ...]:
        """All deeds in order of time, for so many peers and, after them, pieces of infrastructure."""
        return tuple(sorted((*self.deeds, *_Drawing(self, seed, peers, infrastructure).deeds())))

    def newcomers(self, seed: int, peers: int, infrastructure: int) -> int:
        """How many hosts are needed beyond the first population."""
        joining = [who for deed in self.script(seed, peers, infrastructure) if deed.kind == "join" for who in deed.who]
        return max(joining, default=peers + infrastructure - 1) + 1 - peers - infrastructure

    def shortfall(self, seed: int, peers: int, infrastructure: int) -> list[str]:
        """What was to be drawn and could not be, and why: a sentence for each kind."""
        drawing = _Drawing(self, seed, peers, infrastructure)
        drawing.deeds()
        return [
            f"churn: {drawing.done[kind]} of {asked} {kind}: {_WHY.get(kind, _FEW)}"
            for kind, asked in drawing.asked.items()
            if drawing.done[kind] < asked
        ]

    def refuse_strangers(self, peers: int, infrastructure: int) -> None:
        """A `ScenarioError` for deeds by name that are about somebody who is not there."""
        first = peers + infrastructure
        came: dict[int, Deed] = {}
        for join in (deed for deed in self.deeds if deed.kind == "join"):
            for who in join.who:
                if who in came:
                    raise ScenarioError(f"churn: {join.text()}: {who} joins already by {came[who].text()}; two lives "
                                        "are two peers, at two addresses")  # fmt: skip
                came[who] = join
        last = first + max(len(came), self.guests) + FREE_MAX
        for who in came:
            if who >= last:
                raise ScenarioError(f"churn: {came[who].text()}: newcomers have the addresses from {first} on, one "
                                    f"after the other; {who} is too far beyond")  # fmt: skip
        for deed in self.deeds:
            if deed.kind not in ("join", "restart", "fail"):  # of whom those take more is to be said
                _refuse_strangers(deed, first, self.guests, came)


def _refuse_strangers(deed: Deed, first: int, guests: int, came: dict[int, Deed]) -> None:
    for who in deed.who:
        if who >= first + guests and who not in came:
            raise ScenarioError(f"churn: {deed.text()}: there is no {who}; addresses are 0 to {first - 1}, and those "
                                "of newcomers that join by a deed")  # fmt: skip
        if deed.kind in ("leave", "crash", "freeze") and who in came and deed < came[who]:
            raise ScenarioError(f"churn: {deed.text()}: {who} comes only by {came[who].text()}; it takes a later time")


_NAMES = (*(each.name for each in fields(Churn) if each.name != "deeds"), "deed")
_COUNTS = ("joins", "leaves", "crashes", "restarts", "fails", "freezes", "slow", "cuts", "flaps", "splits")
_RANGES = ("down_s", "freeze_s", "slow_ms", "cut_s", "flap_s", "split_s")


class _Drawing:
    """Draws the deeds of one script. Moments of each kind have a stream of their own: kinds do not disturb others."""

    def __init__(self, churn: Churn, seed: int, peers: int, infrastructure: int) -> None:
        self.churn, self.seed = churn, seed
        self.members = dict.fromkeys(range(peers), -SETTLED_S)
        """Who is there by the script, and since when."""
        self.least = max(2, int(peers * STAYING))
        self.fixed = list(range(peers, peers + infrastructure))
        self.fresh = 1 + max([peers + infrastructure - 1, *(who for deed in churn.deeds for who in deed.who)])
        self.chance = stream(seed, "churn", "who")
        self.asked: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        """Of each kind: peers, or servers, or links that something was to happen to, and to which it does."""

    def deeds(self) -> list[Deed]:
        drawn: list[Deed] = []
        moments = [(time_s, kind) for kind in _DRAW for time_s in self._moments_s(kind)]
        for time_s, kind in sorted(moments):
            deed = _DRAW[kind](self, time_s) if kind == "joins" or len(self._present(time_s)) > 1 else None
            drawn += [deed] if deed is not None else []
            self.asked[kind] += self._at_once(kind)
            self.done[kind] += 0 if deed is None else len(deed.who) if kind == "crashes" else 1
        return drawn

    def _at_once(self, kind: str) -> int:
        return self.churn.group if kind == "crashes" else 1

    def _moments_s(self, kind: str) -> list[float]:
        chance, over_s = stream(self.seed, "churn", kind), self.churn.over_s
        count = self.churn._groups() if kind == "crashes" else getattr(self.churn, kind)
        moments = [chance.uniform(0, over_s) for _ in range(count)]
        rate = self._rate(kind) / 60
        time_s = chance.expovariate(rate) if rate else over_s
        while time_s < over_s:
            moments.append(time_s)
            time_s += chance.expovariate(rate)
        return [min(round(moment_s, 3), max(0.0, over_s - 0.001)) for moment_s in moments]

    def _rate(self, kind: str) -> float:
        """Per minute."""
        if kind not in _RATES:
            return 0.0
        name, share = _RATES[kind]
        return float(getattr(self.churn, name)) + self.churn.turnover * share

    def _present(self, time_s: float) -> list[int]:
        return [who for who, since_s in self.members.items() if since_s + SETTLED_S <= time_s]

    def _some(self, time_s: float, count: int = 1) -> tuple[int, ...]:
        present = self._present(time_s)
        return tuple(sorted(self.chance.sample(present, min(count, len(present)))))

    def _lasting(self, time_s: float, lasts_s: Range, kind: str, who: tuple[int, ...], amount: float = 0) -> Deed:
        until_s = round(time_s + _uniform(self.chance, lasts_s), 3)
        return Deed(time_s, until_s, kind, who, round(amount, 3))

    def join(self, time_s: float) -> Deed:
        self.members[self.fresh] = time_s
        self.fresh += 1
        return Deed(time_s, time_s, "join", (self.fresh - 1,))

    def leave(self, time_s: float) -> Deed | None:
        return self._end(time_s, "leave", 1)

    def crash(self, time_s: float) -> Deed | None:
        return self._end(time_s, "crash", self.churn.group)

    def _end(self, time_s: float, kind: str, count: int) -> Deed | None:
        who = self._some(time_s, max(0, min(count, len(self.members) - self.least)))
        for each in who:
            del self.members[each]
        return Deed(time_s, time_s, kind, who) if who else None

    def restart(self, time_s: float) -> Deed | None:
        who = (self.chance.choice(self.fixed),) if self.fixed else ()
        return self._lasting(time_s, self.churn.down_s, "restart", who) if who else None

    def fail(self, time_s: float) -> Deed | None:
        if len(self.fixed) < 2:
            return None
        return Deed(time_s, time_s, "fail", (self.fixed.pop(self.chance.randrange(len(self.fixed))),))

    def freeze(self, time_s: float) -> Deed:
        return self._lasting(time_s, self.churn.freeze_s, "freeze", self._some(time_s))

    def slow(self, time_s: float) -> Deed:
        amount = _uniform(self.chance, self.churn.slow_ms)
        return Deed(time_s, self.churn.over_s, "slow", self._some(time_s), round(amount, 3))

    def cut(self, time_s: float) -> Deed:
        return self._lasting(time_s, self.churn.cut_s, "cut", self._pair(time_s))

    def flap(self, time_s: float) -> Deed:
        amount = _uniform(self.chance, self.churn.flap_s)
        return self._lasting(time_s, self.churn.cut_s, "flap", self._pair(time_s), amount)

    def _pair(self, time_s: float) -> tuple[int, ...]:
        return tuple(self.chance.sample([*self._present(time_s), *self.fixed], 2))

    def split(self, time_s: float) -> Deed:
        everybody = [*self._present(time_s), *self.fixed]
        side = self.chance.sample(everybody, max(1, int(self.chance.uniform(0, self.churn.share) * len(everybody))))
        return self._lasting(time_s, self.churn.split_s, "split", tuple(sorted(side)))


_DRAW: dict[str, Callable[[_Drawing, float], Deed | None]] = {
    "joins": _Drawing.join,
    "leaves": _Drawing.leave,
    "crashes": _Drawing.crash,
    "restarts": _Drawing.restart,
    "fails": _Drawing.fail,
    "freezes": _Drawing.freeze,
    "slow": _Drawing.slow,
    "cuts": _Drawing.cut,
    "flaps": _Drawing.flap,
    "splits": _Drawing.split,
}
_RATES = {"joins": ("join_rate", 1.0), "leaves": ("leave_rate", 0.5), "crashes": ("crash_rate", 0.5)}
"""The rate of each kind, and its share of a turnover."""
_STAY = f"{STAYING:g} of the first number of peers, and at least two, are always there"
_WHY = {
    "leaves": _STAY,
    "crashes": _STAY,
    "restarts": "there are no servers or brokers",
    "fails": "the last server or broker stays",
}
_FEW = f"fewer than two peers had been there for {SETTLED_S:g} s"
"""Why less was drawn than asked for."""


def _uniform(chance: Random, bounds: Range) -> float:
    return chance.uniform(*bounds)


def _value(name: str, text: str) -> int | float | Range:
    if name in _RANGES:
        return span("churn", name, text)
    value = number("churn", name, text)
    if name not in _COUNTS and name not in ("group", "guests"):
        return value
    if value != int(value):
        raise ParameterError(f"churn: {name}={text} is not whole; it takes a whole number")
    return int(value)


def _between(name: str, value: float, low: float, high: float, takes: str) -> None:
    if not low <= value <= high:
        raise ParameterError(f"churn: {name}={value:g} is out of range; it takes {takes}")
