"""What all arms are asked to do: the same people, the same casts, the same tenth of them killed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from implicast.language.parse import description, parse
from implicast.net.commands.live_check import PlannedCast, draw
from implicast.net.commands.local import MemberSpec, sample_members

PAYLOAD = 64
"""Bytes that each cast carries besides what an arm needs to find its receivers."""


@dataclass(frozen=True, slots=True)
class Task:
    """One comparison."""

    people: list[MemberSpec]
    casts: list[PlannedCast]
    after: list[PlannedCast]
    """Casts that are made when some have been killed, none of them by those."""
    killed: list[str]


@dataclass(slots=True)
class Result:
    """What an arm did."""

    arm: str
    version: str
    settings: str
    due: int = 0
    delivered: int = 0
    wrong: int = 0
    """Notified although the target does not describe it."""
    reached: int = 0
    """Copies that reached one that the target does not describe, and were dropped there."""
    bytes_per_cast: float = 0.0
    idle_bytes_per_s: float = 0.0
    latency_ms: list[float] = field(default_factory=list)
    bytes_by: list[int] = field(default_factory=list)
    due_after: int = 0
    delivered_after: int = 0
    note: str = ""


def task(peers: int, casts: int, seed: int) -> Task:
    people = sample_members(peers)
    drawn = draw(people, casts, seed)
    killed = sorted(Random(seed).sample([each.name for each in people], peers // 10))
    alive = [each for each in draw(people, 2 * casts, seed + 1) if each.publisher not in killed][
        :casts
    ]
    return Task(people, drawn, alive, killed)


def topics(target: str) -> list[str]:
    """Tags to which a cast must be published so that all whom it describes are subscribed to one: a
    tag that all alternatives have where there is one, else one for each alternative.
    """
    terms = parse(target).terms
    common = set(terms[0].has).intersection(*(term.has for term in terms))
    return [min(common)] if common else sorted({min(term.has) for term in terms})


def tags(someone: MemberSpec) -> tuple[str, ...]:
    return tuple(description(someone.text).tags)


def selects(target: str, someone: MemberSpec) -> bool:
    return parse(target).selects(description(someone.text))


def due_of(casts: Iterable[PlannedCast], but: Iterable[str] = ()) -> set[tuple[int, str]]:
    return {(each.number, name) for each in casts for name in each.due - set(but)}


def plain(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value
