"""One scripted event as text: `5:crash:7+8`, `9..20:freeze:3`, `12..30:cut:3>4`,
`5..60:slow~300:9`, `4..9:return:3:old`.

| kind | effect |
|---|---|
| join, leave, crash | at one time; a crash is for good |
| restart | a server or broker goes down and comes back with its durable state |
| return | a member crashes and comes back at its address; its disk is kept, old or empty |
| fail | a server or broker goes down for good |
| register | the member registers its last description again |
| describe | the member registers the given tags, or the description of some member |
| withdraw | the member withdraws its registration |
| burst | the peer casts ~ times a second |
| fall | the peer casts ~ times a second and crashes at the end |
| freeze | the peer is stopped and continues later |
| cut | the link from the first to the second address carries nothing |
| flap | that link is dead and alive in turns of ~ seconds |
| slow | every message to or from the peer takes ~ milliseconds longer |
| split | no message crosses between these peers and all others |
| oneway | no message of these peers reaches any other; those of the others reach them |
| deaf | no message reaches the peer; those that it sends arrive |
| jump | the clock of the peer goes ~ seconds ahead; with `back`, ~ seconds back at its next start |
"""

from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from implicast.peer.errors import ParameterError

Range = tuple[float, float]
"""(lowest, highest)."""

KINDS = (
    "join",
    "leave",
    "crash",
    "return",
    "restart",
    "fail",
    "freeze",
    "slow",
    "cut",
    "flap",
    "split",
    "oneway",
    "deaf",
    "jump",
    "burst",
    "fall",
    "register",
    "describe",
    "withdraw",
)
LASTING = (
    "return",
    "restart",
    "freeze",
    "slow",
    "cut",
    "flap",
    "split",
    "oneway",
    "deaf",
    "burst",
    "fall",
)
PAIRED = ("cut", "flap")
AMOUNTED = ("slow", "flap", "burst", "fall", "jump")
DETAILED = ("return", "describe", "jump")
DISKS = ("kept", "old", "empty")
"""The disk of a member that comes back: its state at the crash; its state at its first
registration; nothing.
"""
FAULTY_DISKS = ("torn", "lost")
"""Disks that lose what was written last: the last change of the state before the crash is
incomplete and discarded; the changes of the last second are missing.
"""
ANY_DISK = "any"
"""Draw one of `DISKS` for each member."""
BACK = "back"
"""The detail of a `jump` back."""


@dataclass(frozen=True, slots=True, order=True)
class ScriptedEvent:
    """An event that concerns some addresses. Times are seconds after the first cast."""

    from_s: float
    to_s: float
    kind: str
    who: tuple[int, ...]
    amount: float = 0.0
    """Milliseconds for `slow`, seconds for `flap` and `jump`, casts per second for `burst` and
    `fall`.
    """
    detail: str = ""
    """For `return` the disk, empty for `kept`. For `describe` the tags as `jazz+samba`; empty: the
    description of a member drawn by the seed. For `jump`, `back` or empty.
    """

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(
                f"churn: there is no event {self.kind!r}; choose one of {', '.join(KINDS)}"
            )
        if not 0 <= self.from_s <= self.to_s <= 1e7:
            raise ParameterError(
                f"churn: event {self.text()} must lie between 0 and 1e7 s, the earlier time first"
            )
        if (self.to_s > self.from_s) != (self.kind in LASTING):
            takes = "from one time to another, FROM..TO" if self.kind in LASTING else "at one time"
            raise ParameterError(f"churn: event {self.text()}: a {self.kind} happens {takes}")
        if not self.who or min(self.who) < 0 or (self.kind in PAIRED and len(self.who) != 2):
            takes = "two addresses as 3>4" if self.kind in PAIRED else "addresses as 3+4+5"
            raise ParameterError(f"churn: event {self.text()}: a {self.kind} takes {takes}")
        if len(set(self.who)) < len(self.who):
            takes = "two different addresses" if self.kind in PAIRED else "each address once"
            raise ParameterError(f"churn: event {self.text()}: a {self.kind} takes {takes}")
        if (self.amount > 0) != (self.kind in AMOUNTED):
            raise ParameterError(
                f"churn: event {self.text()}: an amount ~ belongs to {' and '.join(AMOUNTED)}"
            )
        self._refuse_detail()

    def _refuse_detail(self) -> None:
        if self.detail and self.kind not in DETAILED:
            raise ParameterError(
                f"churn: event {self.text()}: a further word belongs to {' and '.join(DETAILED)}"
            )
        if self.kind == "return" and self.disk not in (*DISKS, *FAULTY_DISKS):
            disks = ", ".join((*DISKS, *FAULTY_DISKS))
            raise ParameterError(f"churn: event {self.text()}: a disk is one of {disks}")
        if self.kind == "jump" and self.detail not in ("", BACK):
            raise ParameterError(f"churn: event {self.text()}: a jump takes no word but {BACK}")

    @property
    def disk(self) -> str:
        """The disk of a `return`: one of `DISKS` or `FAULTY_DISKS`."""
        return self.detail or "kept"

    @classmethod
    def parse(cls, text: str) -> "ScriptedEvent":
        parts = text.split(":", 3)
        if len(parts) < 3:
            raise ParameterError(
                f"churn: event {text!r} is not understood; it takes TIME:KIND:WHO such as 5:crash:7"
            )
        times, what, whom, detail = parts if len(parts) == 4 else (*parts, "")
        kind, tilde, amount = what.partition("~")
        from_s, to_s = (
            span("churn", "event", times)
            if ".." in times
            else (number("churn", "event", times),) * 2
        )
        names = whom.split(">" if kind in PAIRED else "+")
        if not all(name.isdecimal() for name in names):
            raise ParameterError(
                f"churn: event {text!r} names {whom!r}; "
                "it takes addresses as 3+4+5, or 3>4 for links"
            )
        many = number("churn", "event", amount) if tilde else 0.0
        return cls(
            from_s, to_s, kind, tuple(map(int, names)), many, "" if detail == "kept" else detail
        )

    def text(self) -> str:
        times = _short(self.from_s) + (f"..{_short(self.to_s)}" if self.to_s != self.from_s else "")
        amount = f"~{_short(self.amount)}" if self.amount else ""
        whom = (">" if self.kind in PAIRED else "+").join(map(str, self.who))
        return f"{times}:{self.kind}{amount}:{whom}" + (f":{self.detail}" if self.detail else "")


def _short(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def number(what: str, name: str, text: str) -> float:
    """Read a finite number; `ParameterError` otherwise."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ParameterError(f"{what}: {name}={text} is not a number")
    return value


def span(what: str, name: str, text: str) -> Range:
    """Read `LOW..HIGH`."""
    low, dots, high = text.partition("..")
    if not dots:
        raise ParameterError(f"{what}: {name}={text} is not a range; it takes LOW..HIGH")
    return number(what, name, low), number(what, name, high)


def script_items(text: str) -> list[str]:
    """The items between commas. `@FILE` reads them from the lines of a file, in which `#` begins a
    comment.
    """
    if not text.startswith("@"):
        return text.split(",")
    lines = [line.partition("#")[0] for line in _contents(text[1:]).splitlines()]
    return [part for line in lines for part in line.split(",")]


def _contents(name: str) -> str:
    path = Path(name)
    try:
        if path.is_dir():
            raise ParameterError(f"churn: @{name} is a directory; it takes a file of text")
        return path.read_text("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise ParameterError(f"churn: there is no script {name}") from None
    except UnicodeDecodeError as wrong:
        where = f"byte {wrong.start}"
        raise ParameterError(
            f"churn: {name} is no text in UTF-8: {where} cannot be read; save it as UTF-8"
        ) from None
    except (OSError, ValueError) as wrong:
        raise ParameterError(f"churn: {name} cannot be read: {wrong}") from None
