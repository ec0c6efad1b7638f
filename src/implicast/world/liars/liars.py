"""How many members lie, and how: a value, part of a scenario.

    Liars.parse("share=0.2,strategy=silent")
    Liars.parse("share=0.1,strategy=aimed+delaying,victim=17,delay_s=1.5")

Several strategies joined by `+` are all followed, one after the other: what the first lets pass the next may change.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from implicast.peer.errors import ParameterError

STRATEGIES = {
    "silent": "answers probes and sends nothing for any cast",
    "dropping": "confirms what it gets and hands nothing on",
    "delaying": "hands everything on as late as nobody complains",
    "selective": "hands on, but not to the victim; without one, not to half of all",
    "aimed": "describes itself as the victim does, to stand beside it, and hands nothing on",
    "hoarding": "takes and gives up places over and over, speaks with its old certificates, and hands nothing on",
    "replaying": "sends everything again, later, and to others too",
    "forging": "changes the payload of whatever carries one",
    "flooding": "sends everything to many, and casts of its own, dated ahead, to the victim",
    "preempting": "hands genuine casts on early and at too low a level, else nothing",
    "sybil": "claims to be everything that casts ask for, and hands nothing on",
    "misrouting": "sends everything to somebody else",
    "eclipsing": "names only fellow liars to whoever asks for neighbours, and hands nothing on",
}
"""By name what a liar of this strategy does; `strategies.py` has a class for each."""


@dataclass(frozen=True, slots=True)
class Liars:
    """Who lies, and what liars may spend."""

    share: float = 0.0
    """Of all members, newcomers too."""
    strategy: str = "silent"
    """Of `STRATEGIES`; several joined by `+`."""
    victim: int | None = None
    """The address that is aimed at; else one is drawn among the honest."""
    delay_s: float = 1.9
    """How late a delaying liar hands on: a little less than senders wait before they repeat."""
    drop: float = 1.0
    """Share of casts that liars keep back, for strategies that keep any back."""
    extras: int = 200
    """Superfluous messages that each liar can afford in all: liars that answer liars would multiply without end."""
    places: int = 60
    """Tags that a liar claims which claims what it is not."""
    fixtures: bool = False
    """The infrastructure (a server, brokers, the authority) lies too."""

    def __post_init__(self) -> None:
        _between("share", self.share, 0, 1)
        _between("drop", self.drop, 0, 1)
        _between("delay_s", self.delay_s, 0, 3_600)
        _between("extras", self.extras, 0, 1_000_000)
        _between("places", self.places, 1, 1_000)
        for name in self.strategies:
            if name not in STRATEGIES:
                raise ParameterError(
                    f"liars: there is no strategy {name!r}; it takes {', '.join(STRATEGIES)}"
                )

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.strategy.split("+")))

    @classmethod
    def parse(cls, text: str) -> "Liars | None":
        """Read `name=value,name=value`. Empty: nobody lies."""
        values: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = part.partition("=")
            if not equals or name not in _READ:
                raise ParameterError(
                    f"liars: {part!r} is not understood; it takes {', '.join(_READ)} as name=value"
                )
            values[name] = _read(name, value)
        return cls(**values) if values else None

    def text(self) -> str:
        """What `parse` reads."""
        usual = Liars()
        said = [
            each.name
            for each in fields(self)
            if getattr(self, each.name) != getattr(usual, each.name)
        ]
        words = dict.fromkeys(("share", "strategy", *said))
        return ",".join(f"{name}={_written(getattr(self, name))}" for name in words)


_READ: dict[str, Callable[[str], Any]] = {
    "share": float,
    "strategy": str,
    "victim": int,
    "delay_s": float,
    "drop": float,
    "extras": int,
    "places": int,
    "fixtures": {"true": True, "false": False}.__getitem__,
}


def _read(name: str, value: str) -> Any:
    try:
        return _READ[name](value)
    except (ValueError, KeyError):
        wanted = {float: "a number", int: "a whole number"}.get(_READ[name], "true or false")  # type: ignore[call-overload]
        raise ParameterError(f"liars: {name}={value}; it takes {wanted}") from None


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _between(name: str, value: float, low: float, high: float) -> None:
    if not (isfinite(value) and low <= value <= high):
        raise ParameterError(f"liars: {name}={value} is out of range; it takes {low} to {high}")
