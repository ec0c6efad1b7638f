"""All promised times, as functions of what happened in a run.

| promise | time | what extends it |
|---|---|---|
| the invariants hold again | the design's repair time, 60 s (`centralised`: 30 s), after the last event; it holds for an eighth of the members crashing, and as many restarting | `FOUNDING_S` if more than half of the members stop at once: members wait for each other before they found a network |
| a registration is complete, a restarted member is registered again | `REGISTER_S` | disturbances, and `FOUNDING_S` as above |
| a cast of a living publisher has its final receipt | `CAST_END_S` | disturbances, and `FOUNDING_S` as above |

All times are twice as long if more than a tenth of all messages is lost (`LOSSY`).

A disturbance is a crash, restart, freeze, clock jump, deaf host, cut link or partition that is in force before the time is
over: a peer that cannot be reached may hold what is waited for. The time then starts again when the
disturbance is over. A power cut, a blackout, a partition or a long freeze therefore takes its own
duration and the promised time after it.
"""  # noqa: E501

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from implicast.world.scripted_events import ScriptedEvent

REGISTER_S = 40.0
"""A registration is complete within this time."""
CAST_END_S = 100.0
"""The final receipt of a cast comes within this time. `spice` gives a cast up after 90 s."""
FOUNDING_S = 20.0
"""Further time after a stop of more than half of the members."""
LOSSY, LOSSY_FACTOR = 0.1, 2
"""From this share of lost messages on, all promised times are longer by this factor: a request and
its answer then need up to twice as many attempts.
"""
POWER_CUT = 0.5
"""Share of the members that stop at once from which on members wait for each other."""
AT_ONCE_S = 5.0
"""Members stop at once if they stop within this time."""
DISTURBING = (
    "crash",
    "fall",
    "return",
    "fail",
    "restart",
    "split",
    "oneway",
    "deaf",
    "cut",
    "flap",
    "freeze",
    "jump",
)
"""Kinds of events after which a promised time starts again."""
STOPPING = ("crash", "return")
_S = 1_000_000


def is_power_cut(script: Iterable[ScriptedEvent], peers: int) -> bool:
    """Whether more than half of the members stop at once."""
    stops = sorted(
        (event.from_s, who) for event in script if event.kind in STOPPING for who in event.who
    )
    first = 0
    for last, (at_s, _) in enumerate(stops):
        while stops[first][0] < at_s - AT_ONCE_S:
            first += 1
        if len({who for _, who in stops[first : last + 1]}) > POWER_CUT * peers:
            return True
    return False


def factor_of(loss: float) -> int:
    """By how much promised times are longer where this share of messages is lost."""
    return LOSSY_FACTOR if loss > LOSSY else 1


def repair_us(
    design_us: int, script: Sequence[ScriptedEvent], peers: int, loss: float = 0.0
) -> int:
    """From the end of the last event to when the invariants hold and every cast is complete."""
    founding_us = int(FOUNDING_S * _S) if is_power_cut(script, peers) else 0
    return factor_of(loss) * (design_us + founding_us)


@dataclass(frozen=True, slots=True)
class PromisedTimes:
    """The times promised in one run. Without churn there are no disturbances."""

    disturbances_us: Sequence[tuple[int, int]] = ()
    """Begin and end of each, in order of begin."""
    more_us: int = 0
    """Further time after a power cut."""
    factor: int = 1

    @classmethod
    def of(
        cls, script: Sequence[ScriptedEvent], from_us: int, peers: int, loss: float = 0.0
    ) -> "PromisedTimes":
        """Of a script whose times count from `from_us` on."""
        disturbances = sorted(
            (from_us + int(event.from_s * _S), from_us + int(event.to_s * _S))
            for event in script
            if event.kind in DISTURBING
        )
        return cls(disturbances, repair_us(0, script, peers, loss), factor_of(loss))

    def registered_by_us(self, begun_us: int) -> int:
        """When a registration that began at a time must be complete."""
        return self._due_us(begun_us, int(REGISTER_S * _S))

    def ended_by_us(self, begun_us: int) -> int:
        """When a cast that began at a time must have its final receipt."""
        return self._due_us(begun_us, int(CAST_END_S * _S))

    def _due_us(self, begun_us: int, allowed_us: int) -> int:
        allowed_us = self.factor * allowed_us + self.more_us
        due_us = begun_us + allowed_us
        for from_us, to_us in self.disturbances_us:
            if from_us <= due_us and to_us > begun_us:
                due_us = max(due_us, to_us + allowed_us)
        return due_us
