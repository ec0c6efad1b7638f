"""Number and strategies of liars: a value, part of a scenario.

    Liars.parse("share=0.2,strategy=silent")
    Liars.parse("share=0.1,strategy=aimed+delaying,victim=17,delay_s=1.5")

Strategies joined by `+` apply one after the other: each changes what the one before lets pass.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from implicast.peer.errors import ParameterError

STRATEGIES = {
    "silent": "answers probes and sends nothing for any cast",
    "dropping": "acknowledges what it gets and forwards nothing",
    "delaying": "forwards everything as late as senders tolerate",
    "selective": "forwards to all but the victim; without one, to half of all",
    "aimed": "registers the victim's description to get places beside it, and forwards nothing",
    "hoarding": "takes and gives up places repeatedly, uses old certificates, and forwards nothing",
    "replaying": "sends everything again, later, and to others too",
    "forging": "changes the payload of whatever carries one",
    "flooding": "sends everything to many, and casts of its own, dated ahead, to the victim",
    "preempting": "forwards genuine casts early and at too low a level, else nothing",
    "sybil": "claims every tag that casts ask for, and forwards nothing",
    "misrouting": "sends everything to a random member",
    "eclipsing": "names only fellow liars as neighbours, and forwards nothing",
}
"""By strategy, what its liars do; `strategies.py` has a class for each."""


@dataclass(frozen=True, slots=True)
class Liars:
    """Which members lie, and how much they can send."""

    share: float = 0.0
    """Share of all members, newcomers included."""
    strategy: str = "silent"
    """One of `STRATEGIES`, or several joined by `+`."""
    victim: int | None = None
    """Address of the victim; by default drawn from the honest members."""
    delay_s: float = 1.9
    """Delay of a delaying liar: a little less than senders wait before they retransmit."""
    drop: float = 1.0
    """Share of messages withheld, for strategies that withhold any."""
    extras: int = 200
    """Superfluous messages that each liar can send in all. Without a bound, liars that answer liars
    would multiply messages without end.
    """
    places: int = 60
    """Tags claimed by a liar that claims tags it does not have."""
    fixtures: bool = False
    """Infrastructure (server, brokers, authority) lies too."""

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
        """Read `name=value,name=value`. Empty: None, no member lies."""
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
        """The text that `parse` reads."""
        usual = Liars()
        changed = [
            each.name
            for each in fields(self)
            if getattr(self, each.name) != getattr(usual, each.name)
        ]
        names = dict.fromkeys(("share", "strategy", *changed))
        return ",".join(f"{name}={_written(getattr(self, name))}" for name in names)


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
        kinds: dict[object, str] = {float: "a number", int: "a whole number"}
        wanted = kinds.get(_READ[name], "true or false")
        raise ParameterError(f"liars: {name}={value}; it takes {wanted}") from None


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _between(name: str, value: float, low: float, high: float) -> None:
    if not (isfinite(value) and low <= value <= high):
        raise ParameterError(f"liars: {name}={value} is out of range; it takes {low} to {high}")
