"""What happens to peers while a system runs: they come, go, crash, stand still, are slow, are cut off. Seeded.

    Churn.parse("joins=64,leaves=32,crashes=32,over_s=3600")
    Churn.parse("deed=5:crash:7+8,deed=9..20:freeze:3,deed=12..30:split:0+1+2")

A `Churn` is a value, part of a scenario. It says how many deeds of each kind are drawn, or names single deeds, or both;
`deeds` spells all of them out, so that a drawn script can be replayed, and shortened, deed by deed. Times are seconds
after the first cast. Newcomers have addresses of their own beyond the first population; whoever returns does so at its
address. How deeds are drawn is in `drawing.py`, how a single one is written in `deeds.py`.
"""

from dataclasses import dataclass, fields

from implicast.casting.designs import Design
from implicast.peer.errors import ParameterError, ScenarioError
from implicast.world.deeds import DISKS, Deed, Range, number, span, words
from implicast.world.drawing import Drawing

DEEDS_MAX = 100_000
"""Of one kind in one script; more is a typing error."""
FREE_MAX = 1_000
"""Addresses left out below the last newcomer that is named; each of them costs a host. More is a typing error."""


ANY_DISK = "any"


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
    returns: int = 0
    """Members that crash and come back at their address."""
    away_s: Range = (2.0, 15.0)
    disk: str = "kept"
    """With what they come back: kept, old or empty; `any`: drawn for each."""
    bursts: int = 0
    """Publishers that cast many times a second for a while."""
    burst_s: Range = (0.5, 2.0)
    burst_rate: Range = (100.0, 400.0)
    """Casts a second."""
    falls: int = 0
    """Publishers that cast as in a burst and crash in the midst of it."""
    anew: int = 0
    """Members that register again, describe themselves anew, or withdraw."""
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
        if self.disk not in (*DISKS, ANY_DISK):
            raise ParameterError(
                f"churn: disk={self.disk} is unknown; it takes {', '.join((*DISKS, ANY_DISK))}"
            )
        _between("over_s", self.over_s, 0.001, 1e7, "seconds, more than none")
        for name in _RANGES:
            low, high = getattr(self, name)
            _between(
                name, low, 0.001, high, "two numbers LOW..HIGH, the lower first, from 0.001 on"
            )
            _between(name, high, 0, 1e7, "numbers that end")

    @classmethod
    def parse(cls, text: str) -> "Churn":
        """Read `name=value,name=value`; `deed` may come several times; `@FILE` reads the same from a file."""
        values: dict[str, int | float | str | Range] = {}
        deeds: list[Deed] = []
        for part in filter(None, (part.strip() for part in words(text))):
            name, equals, value = part.partition("=")
            if not equals or name not in _NAMES:
                raise ParameterError(
                    f"churn: {part!r} is not understood; it takes {', '.join(_NAMES)} as name=value"
                )
            if name == "deed":
                deeds.append(Deed.parse(value))
            elif name in values:
                raise ParameterError(
                    f"churn: {name} is given again by {part}; only `deed` may come more than once"
                )
            else:
                values[name] = _value(name, value)
        churn = cls(deeds=tuple(deeds), **values)  # type: ignore[arg-type]
        whole = churn.crashes // churn.group * churn.group
        if whole < churn.crashes:
            right = f"{whole} or {whole + churn.group}" if whole else str(churn.group)
            raise ParameterError(
                f"churn: crashes={churn.crashes} is no multiple of group={churn.group}; say {right}"
            )
        return churn

    def text(self) -> str:
        """What `parse` reads; empty when nothing changes."""
        still, told = Churn(), []
        for name in _NAMES[:-1]:
            value = self.group * self.groups() if name == "crashes" else getattr(self, name)
            if value != getattr(still, name):
                told.append(f"{name}={_text(value)}")
        return ",".join(told + [f"deed={deed.text()}" for deed in self.deeds])

    def groups(self) -> int:
        """How often peers crash together."""
        return -(-self.crashes // self.group)

    def __bool__(self) -> bool:
        return bool(self.text())

    def spelled(self, seed: int, peers: int, infrastructure: int) -> "Churn":
        """The same changes, every deed by name. Joins may be left out of it, and what happens to newcomers stay."""
        guests = max(self.guests, self.newcomers(seed, peers, infrastructure))
        return Churn(
            deeds=self.script(seed, peers, infrastructure), drift=self.drift, guests=guests
        )

    def script(self, seed: int, peers: int, infrastructure: int) -> tuple[Deed, ...]:
        """All deeds in order of time, for so many peers and, after them, pieces of infrastructure."""
        return tuple(sorted((*self.deeds, *Drawing(self, seed, peers, infrastructure).deeds())))

    def newcomers(self, seed: int, peers: int, infrastructure: int) -> int:
        """How many hosts are needed beyond the first population."""
        joining = [
            who
            for deed in self.script(seed, peers, infrastructure)
            if deed.kind == "join"
            for who in deed.who
        ]
        return max(joining, default=peers + infrastructure - 1) + 1 - peers - infrastructure

    def shortfall(self, seed: int, peers: int, infrastructure: int) -> list[str]:
        """What was to be drawn and could not be, and why: a sentence for each kind."""
        return Drawing(self, seed, peers, infrastructure).shortfall()

    def refuse_strangers(self, peers: int, infrastructure: int) -> None:
        """A `ScenarioError` for deeds by name that are about somebody who is not there."""
        first = peers + infrastructure
        came: dict[int, Deed] = {}
        for join in (deed for deed in self.deeds if deed.kind == "join"):
            for who in join.who:
                if who in came:
                    raise ScenarioError(
                        f"churn: {join.text()}: {who} joins already by {came[who].text()}; each "
                        "newcomer has an address of its own"
                    )
                came[who] = join
        last = first + max(len(came), self.guests) + FREE_MAX
        for who in came:
            if who >= last:
                raise ScenarioError(
                    f"churn: {came[who].text()}: newcomers have the addresses from {first} on, one "
                    f"after the other; {who} is too far beyond"
                )
        for deed in self.deeds:
            if deed.kind not in (
                "join",
                "restart",
                "fail",
            ):  # of whom those take more is to be said
                _refuse_strangers(deed, first, self.guests, came)


def _refuse_strangers(deed: Deed, first: int, guests: int, came: dict[int, Deed]) -> None:
    for who in deed.who:
        if who >= first + guests and who not in came:
            raise ScenarioError(
                f"churn: {deed.text()}: there is no {who}; addresses are 0 to {first - 1}, and those "
                "of newcomers that join by a deed"
            )
        if (
            deed.kind in ("leave", "crash", "freeze", "return", "fall")
            and who in came
            and deed < came[who]
        ):
            raise ScenarioError(
                f"churn: {deed.text()}: {who} comes only by {came[who].text()}; it takes a later time"
            )


_NAMES = (*(each.name for each in fields(Churn) if each.name != "deeds"), "deed")
_COUNTS = (
    "joins",
    "leaves",
    "crashes",
    "returns",
    "restarts",
    "fails",
    "freezes",
    "slow",
    "cuts",
    "flaps",
    "splits",
    "bursts",
    "falls",
    "anew",
)
_RANGES = (
    "down_s",
    "away_s",
    "freeze_s",
    "slow_ms",
    "cut_s",
    "flap_s",
    "split_s",
    "burst_s",
    "burst_rate",
)


def _text(value: int | float | str | Range) -> str:
    if isinstance(value, tuple):
        return f"{value[0]!r}..{value[1]!r}"
    return value if isinstance(value, str) else repr(value)


def _value(name: str, text: str) -> int | float | str | Range:
    if name == "disk":
        return text
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


_OF_MEMBERS = (
    "join",
    "leave",
    "crash",
    "return",
    "register",
    "describe",
    "withdraw",
    "burst",
    "fall",
)


def refuse_the_impossible(
    script: tuple[Deed, ...], design: Design, peers: int, infrastructure: int
) -> None:
    """A `ScenarioError` for deeds that cannot be done to whom they name."""
    fixed = range(peers, peers + infrastructure)
    for deed in script:
        named = [who for who in deed.who if who in fixed]
        if deed.kind in ("restart", "fail") and len(named) < len(deed.who):
            have = f"they are {list(fixed)}" if fixed else f"{design.name} has none"
            raise ScenarioError(
                f"churn: {deed.text()}: only servers and brokers restart or fail; {have}"
            )
        if deed.kind == "restart" and design.fixture is None:
            raise ScenarioError(
                f"churn: {deed.text()}: {design.name} has nothing that can come back"
            )
        if deed.kind == "return" and design.member is None:
            raise ScenarioError(f"churn: {deed.text()}: members of {design.name} do not come back")
        if deed.kind in _OF_MEMBERS and named:
            raise ScenarioError(
                f"churn: {deed.text()}: {named[0]} is no peer; it takes restart or fail"
            )
        if deed.kind == "join" and min(deed.who) < fixed.stop:
            raise ScenarioError(
                f"churn: {deed.text()}: newcomers have addresses from {fixed.stop} on"
            )
