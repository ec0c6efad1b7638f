"""Churn and temporary faults of a run: peers join, leave, crash, return, freeze, are slow or cut
off. Seeded.

    Churn.parse("joins=64,leaves=32,crashes=32,over_s=3600")
    Churn.parse("event=5:crash:7+8,event=9..20:freeze:3,event=12..30:split:0+1+2")

A `Churn` is a value and part of a scenario. It gives the number of events of each kind to draw, or
names single events, or both. `spelled` names all of them, so that a drawn script can be replayed
and shortened event by event. Times are seconds after the first cast. Newcomers have addresses above
those of the initial population; a member that returns keeps its address. `drawing.py` draws events,
`scripted_events.py` reads and writes one of them.
"""

import warnings
from dataclasses import dataclass, fields

from implicast.language.errors import OldNameWarning
from implicast.peer.errors import ParameterError, ScenarioError
from implicast.world.drawing import Drawing
from implicast.world.scripted_events import (
    ANY_DISK,
    DISKS,
    FAULTY_DISKS,
    Range,
    ScriptedEvent,
    number,
    script_items,
    span,
)

EVENTS_MAX = 100_000
"""Events of one kind in one script. A larger number is a typing error."""
FACTOR_MAX = 1_000
"""Largest factor of a flash crowd. A larger one is a typing error."""
FREE_MAX = 1_000
"""Unused addresses below that of the last named newcomer. Each costs a host; a larger number is a
typing error.
"""


EVENT, OLD_EVENT = "event", "deed"
OLD_EVENT_ADVICE = "churn: `deed=` is now called `event=`; `deed=` is accepted through version 0.2"


@dataclass(frozen=True, slots=True)
class Churn:
    """Number and ranges of events to draw, and named events. The default changes nothing."""

    joins: int = 0
    leaves: int = 0
    crashes: int = 0
    group: int = 1
    """Peers that crash at the same time. A number of crashes that is no multiple of it is rounded
    up to whole groups.
    """
    join_rate: float = 0.0
    """Further joins per minute, at the times of a Poisson process. Likewise the next two."""
    leave_rate: float = 0.0
    crash_rate: float = 0.0
    turnover: float = 0.0
    """Joins per minute, and as many departures: half of them leaves, half crashes."""
    restarts: int = 0
    """Servers or brokers that go down and come back with their durable state."""
    down_s: Range = (2.0, 15.0)
    fails: int = 0
    """Servers or brokers that go down for good."""
    returns: int = 0
    """Members that crash and come back at their address."""
    away_s: Range = (2.0, 15.0)
    disk: str = "kept"
    """The disk with which they come back: kept, old, empty, torn or lost; `any`: one of the first
    three, drawn for each.
    """
    blackouts: int = 0
    """Power cuts: all members stop at once. Each starts again after a time of `away_s`, with a disk
    of `disk`.
    """
    lost: float = 0.0
    """Share of the members that never start again after a blackout."""
    outages: int = 0
    """Power cuts in a part of the network: a share of the members stops at once. They start again
    together, after a time of `away_s`, with disks of `disk`.
    """
    outage_share: Range = (0.25, 1.0)
    rolls: int = 0
    """Rolling restarts: all members stop one after the other, at intervals of `roll_s`, each for a
    time of `away_s`.
    """
    roll_s: Range = (1.0, 5.0)
    flash: int = 0
    """Flash crowds: newcomers multiply the number of members by `flash_factor` within 10 s."""
    flash_factor: Range = (2.0, 4.0)
    mass_leaves: int = 0
    """Times at which a share of the members leaves at once."""
    leave_share: Range = (0.25, 0.5)
    bursts: int = 0
    """Publishers that cast many times a second."""
    burst_s: Range = (0.5, 2.0)
    burst_rate: Range = (100.0, 400.0)
    """Casts per second."""
    falls: int = 0
    """Publishers that cast as in a burst and then crash."""
    anew: int = 0
    """Members that register again, register another description, or withdraw."""
    freezes: int = 0
    """Peers that are stopped and continue without noticing it."""
    freeze_s: Range = (1.0, 14.0)
    slow: int = 0
    """Peers whose messages, both ways, take longer."""
    slow_ms: Range = (100.0, 800.0)
    cuts: int = 0
    """Links that carry nothing in one direction."""
    cut_s: Range = (3.0, 20.0)
    flaps: int = 0
    """Links that are dead and alive in turns."""
    flap_s: Range = (0.2, 2.0)
    splits: int = 0
    """Partitions: no message crosses between the two sides."""
    split_s: Range = (3.0, 20.0)
    oneway: int = 0
    """Partitions in one direction, for a time of `split_s`: the messages of the first side do not
    leave it.
    """
    share: float = 0.5
    """Largest share of the peers on the first side of a partition."""
    deaf: int = 0
    """Hosts that receive nothing; what they send arrives."""
    deaf_s: Range = (3.0, 20.0)
    jumps: int = 0
    """Clocks that jump."""
    jump_s: Range = (1.0, 30.0)
    jumps_back: bool = False
    """Half of the jumps go back, when their member restarts."""
    drift: float = 0.0
    """Clocks run at rates from 1 - drift to 1 + drift."""
    over_s: float = 60.0
    """Events begin within this many seconds after the first cast."""
    guests: int = 0
    """Number of newcomers that events may name although no event lets them join. Such events have
    no effect. Used by scripts from which the joins were removed.
    """
    events: tuple[ScriptedEvent, ...] = ()
    """Named events, in addition to the drawn ones."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            _between(name, getattr(self, name), 0, EVENTS_MAX, f"0 to {EVENTS_MAX}")
        _between("guests", self.guests, 0, EVENTS_MAX, f"0 to {EVENTS_MAX}")
        _between("group", self.group, 1, EVENTS_MAX, "1 or more")
        for name in ("join_rate", "leave_rate", "crash_rate", "turnover"):
            _between(name, getattr(self, name), 0, 1e6, "a number per minute, 0 or more")
        _between("share", self.share, 0, 1, "a share from 0 to 1")
        _between("lost", self.lost, 0, 1, "a share from 0 to 1")
        _between("drift", self.drift, 0, 0.5, "a share from 0 to 0.5")
        disks = (*DISKS, *FAULTY_DISKS, ANY_DISK)
        if self.disk not in disks:
            raise ParameterError(f"churn: disk={self.disk} is unknown; it takes {', '.join(disks)}")
        _between("over_s", self.over_s, 0.001, 1e7, "seconds, more than none")
        for name in _RANGES:
            low, high = getattr(self, name)
            _between(
                name, low, 0.001, high, "two numbers LOW..HIGH, the lower first, from 0.001 on"
            )
            _between(name, high, 0, 1e7, "numbers that end")
        for name in ("outage_share", "leave_share"):
            _between(name, getattr(self, name)[1], 0, 1, "shares of at most 1")
        _between(
            "flash_factor", self.flash_factor[0], 1, FACTOR_MAX, f"factors from 1 to {FACTOR_MAX}"
        )
        _between(
            "flash_factor", self.flash_factor[1], 1, FACTOR_MAX, f"factors from 1 to {FACTOR_MAX}"
        )

    @classmethod
    def parse(cls, text: str) -> "Churn":
        """Read `name=value,name=value`. `event` may occur several times. `@FILE` reads the same
        from a file. `deed` is the former name of `event`.
        """
        values: dict[str, int | float | str | Range] = {}
        events: list[ScriptedEvent] = []
        for part in filter(None, (part.strip() for part in script_items(text))):
            name, equals, value = part.partition("=")
            if name == OLD_EVENT:
                warnings.warn(OLD_EVENT_ADVICE, OldNameWarning, stacklevel=2)
                name = EVENT
            if not equals or name not in _NAMES:
                raise ParameterError(
                    f"churn: {part!r} is not understood; it takes {', '.join(_NAMES)} as name=value"
                )
            if name == EVENT:
                events.append(ScriptedEvent.parse(value))
            elif name in values:
                raise ParameterError(
                    f"churn: {name} is given again by {part}; only `event` may come more than once"
                )
            else:
                values[name] = _value(name, value)
        churn = cls(events=tuple(events), **values)  # type: ignore[arg-type]
        whole = churn.crashes // churn.group * churn.group
        if whole < churn.crashes:
            right = f"{whole} or {whole + churn.group}" if whole else str(churn.group)
            raise ParameterError(
                f"churn: crashes={churn.crashes} is no multiple of group={churn.group}; say {right}"
            )
        return churn

    def text(self) -> str:
        """The text that `parse` reads; empty if nothing changes."""
        still, given = Churn(), []
        for name in _NAMES[:-1]:
            value = self.group * self.groups() if name == "crashes" else getattr(self, name)
            if value != getattr(still, name):
                given.append(f"{name}={_text(value)}")
        return ",".join(given + [f"{EVENT}={event.text()}" for event in self.events])

    def groups(self) -> int:
        """Number of groups of peers that crash together."""
        return -(-self.crashes // self.group)

    def __bool__(self) -> bool:
        return bool(self.text())

    def spelled(self, seed: int, peers: int, infrastructure: int) -> "Churn":
        """The same script with every event named. Joins may be removed from it without making
        events of the newcomers invalid.
        """
        guests = max(self.guests, self.newcomers(seed, peers, infrastructure))
        return Churn(
            events=self.script(seed, peers, infrastructure), drift=self.drift, guests=guests
        )

    def script(self, seed: int, peers: int, infrastructure: int) -> tuple[ScriptedEvent, ...]:
        """All events in order of time. Servers and brokers have the addresses after the peers."""
        return tuple(sorted((*self.events, *Drawing(self, seed, peers, infrastructure).events())))

    def newcomers(self, seed: int, peers: int, infrastructure: int) -> int:
        """Number of hosts needed beyond the initial population."""
        joining = [
            who
            for event in self.script(seed, peers, infrastructure)
            if event.kind == "join"
            for who in event.who
        ]
        return max(joining, default=peers + infrastructure - 1) + 1 - peers - infrastructure

    def shortfall(self, seed: int, peers: int, infrastructure: int) -> list[str]:
        """One sentence for each kind of which fewer events can be drawn than asked for, with the
        reason.
        """
        return Drawing(self, seed, peers, infrastructure).shortfall()

    def refuse_strangers(self, peers: int, infrastructure: int) -> None:
        """Raise a `ScenarioError` for a named event that concerns an address without a peer."""
        first = peers + infrastructure
        came: dict[int, ScriptedEvent] = {}
        for join in (event for event in self.events if event.kind == "join"):
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
        for event in self.events:
            if event.kind not in (
                "join",
                "restart",
                "fail",
            ):  # these have checks of their own
                _refuse_strangers(event, first, self.guests, came)


def _refuse_strangers(
    event: ScriptedEvent, first: int, guests: int, came: dict[int, ScriptedEvent]
) -> None:
    for who in event.who:
        if who >= first + guests and who not in came:
            raise ScenarioError(
                f"churn: {event.text()}: there is no {who}; addresses are 0 to {first - 1}, "
                "and those of newcomers that join by an event"
            )
        if (
            event.kind in ("leave", "crash", "freeze", "return", "fall")
            and who in came
            and event < came[who]
        ):
            raise ScenarioError(
                f"churn: {event.text()}: {who} joins only by {came[who].text()}; "
                "it takes a later time"
            )


_NAMES = (*(each.name for each in fields(Churn) if each.name != "events"), EVENT)
_COUNTS = (
    "joins",
    "leaves",
    "crashes",
    "returns",
    "blackouts",
    "restarts",
    "fails",
    "freezes",
    "slow",
    "cuts",
    "flaps",
    "splits",
    "outages",
    "rolls",
    "flash",
    "mass_leaves",
    "oneway",
    "deaf",
    "jumps",
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
    "outage_share",
    "roll_s",
    "flash_factor",
    "leave_share",
    "deaf_s",
    "jump_s",
    "burst_s",
    "burst_rate",
)


def _text(value: int | float | str | Range) -> str:
    if isinstance(value, tuple):
        return f"{value[0]!r}..{value[1]!r}"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)


def _value(name: str, text: str) -> int | float | str | Range:
    if name == "disk":
        return text
    if name in _RANGES:
        return span("churn", name, text)
    if name == "jumps_back":
        if text not in ("true", "false"):
            raise ParameterError(f"churn: {name}={text}; it takes true or false")
        return text == "true"
    value = number("churn", name, text)
    if name not in _COUNTS and name not in ("group", "guests"):
        return value
    if value != int(value):
        raise ParameterError(f"churn: {name}={text} is not whole; it takes a whole number")
    return int(value)


def _between(name: str, value: float, low: float, high: float, takes: str) -> None:
    if not low <= value <= high:
        raise ParameterError(f"churn: {name}={value:g} is out of range; it takes {takes}")
