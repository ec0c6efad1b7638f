"""Kinds of trouble that wide campaigns draw, each with the amounts that it draws.

A kind is drawn only for designs that declare to survive what it consists of (`Design.survives`).
Amounts are log-uniform, so that small ones are as likely as large ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from implicast.casting.designs import Design
from implicast.language.parameters import Parameter, Setting
from implicast.world.drawing import SETTLED_S
from implicast.world.liars.liars import STRATEGIES
from implicast.world.scenario import PAYLOAD_MAX
from implicast.world.scripted_events import ANY_DISK, DISKS, FAULTY_DISKS, ScriptedEvent

ABSENCE_S = (60.0, 7200.0)
"""How long members are absent in the kind `absence`."""
JUMP_S = (0.1, 30.0)
"""Clock jumps. A node refuses to join from an offset of 60 s on."""
DRIFT = (0.001, 0.05)
LOSS = (0.005, 0.25)
CASTS_PER_S = (5.0, 100.0)
TURNOVER = (12.0, 120.0)
"""Joins a minute, and as many departures."""
FLASH = (2.0, 8.0)
"""Factor of a flash crowd."""
TERMS = (2, 64)
LIARS = (0.02, 0.2)
"""Share of members that lie."""


@dataclass(slots=True)
class WideDraft:
    """A scenario while it is drawn."""

    design: Design
    language: str
    peers: int
    over_s: float
    interval_ms: int = 1000
    churn: dict[str, Any] = field(default_factory=dict)
    events: list[ScriptedEvent] = field(default_factory=list)
    faults: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Setting] = field(default_factory=dict)
    share: float = 0.1
    """Share of members that a cast selects."""
    terms: int = 1
    factor: float = 1.0
    """By how much the number of members grows."""
    joining: float = 0.0
    """Members that join during the run."""
    burst_casts: float = 0.0
    """Casts besides those at the interval."""
    longest_s: float = 15.0
    """Longest time from the begin of an event to its end."""
    payload_bytes: int = 0
    start: str = "assembled"
    register: str = "messages"
    changes: int = 0
    liars: str = ""

    def add(self, **amounts: Any) -> None:
        self.churn.update(amounts)

    def lasts(self, longest_s: float) -> None:
        self.longest_s = max(self.longest_s, longest_s)


def log_uniform(chance: Random, low: float, high: float) -> float:
    return float(low * (high / low) ** chance.random())


def whole(chance: Random, low: int, high: int) -> int:
    """A whole number, log-uniform, both bounds included."""
    return min(high, int(log_uniform(chance, low, high + 1)))


def _span(value: float) -> tuple[float, float]:
    return round(value * 0.7, 3), round(value, 3)


def _exactly(value: float) -> tuple[float, float]:
    return round(value, 3), round(value, 3)


# --- members


def _crash(chance: Random, draft: WideDraft) -> None:
    group = whole(chance, 1, 4)
    draft.add(crashes=group * whole(chance, 1, max(1, draft.peers // 8 // group)), group=group)


def _join(chance: Random, draft: WideDraft) -> None:
    draft.add(joins=whole(chance, 1, max(1, draft.peers // 2)))
    draft.joining += draft.peers / 4
    draft.factor *= 1.2


def _leave(chance: Random, draft: WideDraft) -> None:
    draft.add(leaves=whole(chance, 1, max(1, draft.peers // 4)))


def _mass_leave(chance: Random, draft: WideDraft) -> None:
    draft.add(mass_leaves=1, leave_share=_exactly(log_uniform(chance, 0.1, 0.75)))


def _flash(chance: Random, draft: WideDraft) -> None:
    factor = log_uniform(chance, *FLASH)
    draft.add(flash=1, flash_factor=_exactly(factor))
    draft.joining += draft.peers * draft.factor * (factor - 1)
    draft.factor *= factor


def _turnover(chance: Random, draft: WideDraft) -> None:
    turnover = round(log_uniform(chance, *TURNOVER), 1)
    draft.add(turnover=turnover)
    draft.joining += turnover * draft.over_s / 60
    draft.factor *= 1 + turnover / 60 * SETTLED_S / draft.peers


def _disks(chance: Random, draft: WideDraft) -> None:
    draft.add(disk=chance.choice((*DISKS, *FAULTY_DISKS, ANY_DISK)))


def _away(chance: Random, draft: WideDraft) -> None:
    longest_s = log_uniform(chance, 0.2, 60.0)
    draft.add(away_s=_span(longest_s))
    draft.lasts(longest_s)


def _return(chance: Random, draft: WideDraft) -> None:
    draft.add(returns=whole(chance, 1, max(1, draft.peers // 4)))
    _away(chance, draft)
    _disks(chance, draft)


def _power_cut(chance: Random, draft: WideDraft) -> None:
    draft.add(outages=1, outage_share=_exactly(log_uniform(chance, 0.1, 1.0)))
    _away(chance, draft)
    _disks(chance, draft)


def _blackout(chance: Random, draft: WideDraft) -> None:
    draft.add(blackouts=1, lost=chance.choice((0.0, 0.33)))
    _away(chance, draft)


def _roll(chance: Random, draft: WideDraft) -> None:
    gap_s = log_uniform(chance, 0.2, 4.0)
    draft.add(rolls=1, roll_s=_span(gap_s))
    _away(chance, draft)
    draft.lasts(gap_s * draft.peers * draft.factor + draft.longest_s)


def _absence(chance: Random, draft: WideDraft) -> None:
    """Named events, because other absences of the scenario are shorter."""
    count = whole(chance, 1, max(1, draft.peers // 4))
    disk = chance.choice(("", "", "", "old"))
    for who in sorted(chance.sample(range(draft.peers), count)):
        from_s = round(chance.uniform(0, draft.over_s), 3)
        absent_s = log_uniform(chance, *ABSENCE_S)
        draft.events.append(
            ScriptedEvent(from_s, round(from_s + absent_s, 3), "return", (who,), detail=disk)
        )
        draft.lasts(absent_s)


def _describe(chance: Random, draft: WideDraft) -> None:
    draft.add(anew=whole(chance, 1, max(1, draft.peers // 4)))
    draft.changes = chance.choice((0, draft.peers // 2))


def _freeze(chance: Random, draft: WideDraft) -> None:
    longest_s = log_uniform(chance, 1.0, 150.0)
    draft.add(freezes=whole(chance, 1, max(1, draft.peers // 4)), freeze_s=_span(longest_s))
    draft.lasts(longest_s)


def _burst(chance: Random, draft: WideDraft) -> None:
    rate = log_uniform(chance, 20.0, 300.0)
    draft.add(bursts=1, burst_rate=_span(rate))
    if "crashes" in draft.design.survives:
        draft.add(falls=chance.choice((0, 1)))
    draft.burst_casts += 3 * rate


# --- links and infrastructure


def _split(chance: Random, draft: WideDraft, name: str = "splits") -> None:
    longest_s = log_uniform(chance, 3.0, 420.0)
    share = round(log_uniform(chance, 0.05, 0.5), 3)
    draft.add(**{name: 1}, split_s=_span(longest_s), share=share)
    draft.lasts(longest_s)


def _oneway(chance: Random, draft: WideDraft) -> None:
    _split(chance, draft, "oneway")


def _deaf(chance: Random, draft: WideDraft) -> None:
    longest_s = log_uniform(chance, 3.0, 150.0)
    draft.add(deaf=whole(chance, 1, max(1, draft.peers // 8)), deaf_s=_span(longest_s))
    draft.lasts(longest_s)


def _links(chance: Random, draft: WideDraft) -> None:
    longest_s = log_uniform(chance, 3.0, 150.0)
    draft.add(cuts=whole(chance, 1, 8), flaps=whole(chance, 1, 8), cut_s=_span(longest_s))
    draft.lasts(longest_s)


def _slow(chance: Random, draft: WideDraft) -> None:
    slow_ms = _span(log_uniform(chance, 50.0, 1000.0))
    draft.add(slow=whole(chance, 1, max(1, draft.peers // 4)), slow_ms=slow_ms)


def _restart(chance: Random, draft: WideDraft) -> None:
    longest_s = log_uniform(chance, 0.5, 60.0)
    draft.add(restarts=whole(chance, 1, 3), down_s=_span(longest_s))
    draft.lasts(longest_s)


def _fail(chance: Random, draft: WideDraft) -> None:
    draft.add(fails=whole(chance, 1, 3))


def _loss(chance: Random, draft: WideDraft) -> None:
    draft.faults["loss"] = round(log_uniform(chance, *LOSS), 4)


def _disorder(chance: Random, draft: WideDraft) -> None:
    draft.faults["duplicate"] = round(log_uniform(chance, 0.005, 0.1), 4)
    draft.faults["reorder"] = round(log_uniform(chance, 0.01, 0.5), 4)


def _delay(chance: Random, draft: WideDraft) -> None:
    draft.faults["delay"] = round(log_uniform(chance, 0.005, 0.2), 4)
    draft.faults["delay_ms"] = (10.0, round(log_uniform(chance, 50.0, 2000.0), 1))
    draft.faults["jitter"] = round(log_uniform(chance, 0.05, 3.0), 3)


def _drift(chance: Random, draft: WideDraft) -> None:
    draft.add(drift=round(log_uniform(chance, *DRIFT), 5))


def _jump(chance: Random, draft: WideDraft) -> None:
    longest_s = log_uniform(chance, *JUMP_S)
    draft.add(jumps=whole(chance, 1, max(1, draft.peers // 8)), jump_s=_span(longest_s))
    if "returns" in draft.design.survives:
        draft.add(jumps_back=chance.random() < 0.5)


# --- load and parameters


def _fast(chance: Random, draft: WideDraft) -> None:
    draft.interval_ms = max(1, int(1000 / log_uniform(chance, *CASTS_PER_S)))


def _terms(chance: Random, draft: WideDraft) -> None:
    draft.terms = whole(chance, *TERMS)


def _all(chance: Random, draft: WideDraft) -> None:
    draft.share = 1.0


def _payload(chance: Random, draft: WideDraft) -> None:
    draft.payload_bytes = whole(chance, 16, PAYLOAD_MAX)


def _signed(chance: Random, draft: WideDraft) -> None:
    draft.parameters |= {"signed": True, "signatures": "stand-in"}


def _joined(chance: Random, draft: WideDraft) -> None:
    draft.start, draft.register = "joined", ""


def _liars(chance: Random, draft: WideDraft) -> None:
    strategy = chance.choice(list(STRATEGIES))
    draft.liars = f"share={round(log_uniform(chance, *LIARS), 3)},strategy={strategy}"


NOT_DRAWN = frozenset(
    (
        "assurance",
        "audience_max",
        "casts_burst",
        "casts_per_s",
        "protected",
        "reach",
        "replication",
        "schema",
        "settle",
        "signatures",
        "signed",
        "validity_s",
        "values_max",
        "window_s",
        *("alpha", "del_flow_poss", "del_flow_thres", "delta_margin", "grace_s", "hold_s"),
        *("period_s", "piggyback"),
    )
)
"""Parameters that wide campaigns do not draw: limits on casts, which refuse some; the designs of
the papers without receipts, and what only they use; bounds on the age of messages."""
LEAST = frozenset(("copies", "k", "expected_tags", "bits", "places_max"))
"""Parameters whose default is the least value that survives crashes, or that suits the workload."""


def _parameters(chance: Random, draft: WideDraft) -> None:
    drawn = [each for each in draft.design.parameters if each.name not in NOT_DRAWN]
    count = whole(chance, 1, max(1, len(drawn)))
    for each in chance.sample(drawn, min(count, len(drawn))):
        draft.parameters[each.name] = drawn_value(chance, each)


def drawn_value(chance: Random, each: Parameter) -> Setting:
    """A value within the documented range. Times and numbers of attempts are at most the default:
    the promised repair time is that of the defaults.
    """
    if each.choices:
        return chance.choice(each.choices)
    if isinstance(each.default, bool):
        return chance.random() < 0.5
    assert not isinstance(each.default, str), f"{each.name} is a word without choices"
    low, high = _bounds(each)
    value = log_uniform(chance, low, high) if low > 0 else chance.uniform(low, high)
    return int(value) if isinstance(each.default, int) else round(value, 6)


def _bounds(each: Parameter) -> tuple[float, float]:
    default = float(each.default) or 7000.0  # 0: the peer's own choice, 7 s or more, in ms
    low, high = default / 4, default * 2
    if each.name.endswith(("_s", "_ms")) or each.name in ("tries", "asks"):
        low, high = (default / 2 if each.name in ("tries", "asks") else default / 4), default
    if each.name in LEAST:
        low = default
    if each.name in ("brokers", "landmarks", "broker_share"):
        low, high = {"brokers": (2, 12), "landmarks": (1, 64), "broker_share": (0.01, 0.1)}[
            each.name
        ]
    least = -float("inf") if each.low is None else each.low
    most = float("inf") if each.high is None else each.high
    return max(low, least), min(high, most)


Draw = Callable[[Random, WideDraft], None]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of trouble."""

    needs: tuple[str, ...]
    """Of `SURVIVABLE`: what a design must survive."""
    draw: Draw
    changes: bool = True
    """Whether it is churn. A scenario has at least one such kind."""
    weight: float = 1.0
    """Factor of its probability. Kinds that leave less to judge or need long runs are rarer."""


TROUBLES: Mapping[str, Trouble] = {
    "joined": Trouble((), _joined, False),
    "joins": Trouble(("joins",), _join),
    "flash crowd": Trouble(("joins",), _flash),
    "turnover": Trouble(("joins", "leaves", "crashes"), _turnover),
    "leaves": Trouble(("leaves",), _leave),
    "mass leave": Trouble(("leaves",), _mass_leave),
    "crashes": Trouble(("crashes",), _crash),
    "returns": Trouble(("returns",), _return),
    "power cut": Trouble(("returns",), _power_cut),
    "blackout": Trouble(("returns",), _blackout),
    "rolling restart": Trouble(("returns",), _roll),
    "absence": Trouble(("returns",), _absence, weight=0.5),
    "freezes": Trouble(("freezes",), _freeze),
    "registrations": Trouble((), _describe),
    "bursts": Trouble((), _burst),
    "partition": Trouble(("partitions",), _split),
    "one-way partition": Trouble(("partitions",), _oneway),
    "deaf hosts": Trouble(("partitions",), _deaf),
    "links": Trouble(("partitions",), _links),
    "slow peers": Trouble(("loss",), _slow),
    "restarts": Trouble(("restarts",), _restart),
    "fails": Trouble(("fails",), _fail),
    "loss": Trouble(("loss",), _loss, False),
    "disorder": Trouble(("loss",), _disorder, False),
    "delay": Trouble(("loss",), _delay, False),
    "drift": Trouble((), _drift, False),
    "clock jumps": Trouble((), _jump),
    "fast casts": Trouble((), _fast, False),
    "many terms": Trouble((), _terms, False),
    "casts to all": Trouble((), _all, False),
    "payloads": Trouble((), _payload, False),
    "signed": Trouble((), _signed, False),
    "liars": Trouble((), _liars, False, weight=0.25),
    "parameters": Trouble((), _parameters, False),
}
"""By name, in the order in which they are drawn."""


def possible(design: Design, language: str) -> list[str]:
    """Kinds that a design survives."""
    return [
        name
        for name, each in TROUBLES.items()
        if design.survives.issuperset(each.needs) and (name != "many terms" or language == "tags")
    ]
