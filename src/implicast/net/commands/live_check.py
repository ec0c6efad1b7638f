"""Checks a running network: makes casts drawn from a seed and compares the deliveries with the
expected ones.

The expected receivers are computed here, by matching each target against every description. Nodes
are asked only to cast and for their inboxes.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from implicast.language.parse import description, parse
from implicast.net.commands import control
from implicast.net.commands.local import MemberSpec

AT_ONCE = 8
SETTLE_S = 45.0
"""Seconds to wait for a complete receipt."""


@dataclass(frozen=True, slots=True)
class PlannedCast:
    """One cast to be made, with its expected receivers."""

    number: int
    publisher: str
    target: str
    due: frozenset[str]


def draw(members: Sequence[MemberSpec], casts: int, seed: int) -> list[PlannedCast]:
    """Draw casts to random expressions over the tags that the members use."""
    chance = Random(seed)
    descriptions = {each.name: description(each.text) for each in members}
    tags = sorted({tag for each in descriptions.values() for tag in each.tags})
    found = []
    for number in range(casts):
        target = _expression(chance, tags)
        wanted = parse(target)
        due = frozenset(name for name, each in descriptions.items() if wanted.selects(each))
        found.append(PlannedCast(number, chance.choice(list(descriptions)), target, due))
    return found


def _expression(chance: Random, tags: list[str]) -> str:
    one, two, three = chance.sample(tags, 3)
    return chance.choice((f"{one} & {two}", f"({one} | {two}) & {three}", f"{one} & !{two}", one))


def cast_all(base: Path, drawn: Sequence[PlannedCast]) -> list[dict[str, Any]]:
    """Make all casts through the control sockets, `AT_ONCE` at a time. Returns their receipts."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: _cast(base, each), drawn))


def _cast(base: Path, drawn: PlannedCast) -> dict[str, Any]:
    payload = json.dumps({"trial": drawn.number}).encode().hex()
    request = {"do": "cast", "target": drawn.target, "payload": payload, "wait": SETTLE_S}
    return next(control.ask(base / drawn.publisher, request, SETTLE_S + 30))


@dataclass(frozen=True, slots=True)
class LiveCheckResult:
    """Counts of expected, correct and wrong deliveries, and the delivery latency."""

    due: int
    delivered: int
    wrong: int
    twice: int
    missing: int
    receipts_exact: int
    latency_ms: dict[str, float]


def judge(
    base: Path,
    drawn: Sequence[PlannedCast],
    receipts: Sequence[dict[str, Any]],
    members: Sequence[MemberSpec],
    made_us: dict[int, int],
) -> LiveCheckResult:
    """Read every inbox and compare it with the expected deliveries."""
    heard: Counter[tuple[int, str]] = Counter()
    latency_ms: list[float] = []
    for member in members:
        for note in control.ask(base / member.name, {"do": "inbox", "keep": True}):
            number = json.loads(note["text"])["trial"]
            heard[number, member.name] += 1
            if number in made_us:
                latency_ms.append((note["arrived_us"] - made_us[number]) / 1000)
    due = {(each.number, name) for each in drawn for name in each.due}
    exact = sum(
        receipt["complete"] and receipt["notified"] == len(each.due) == receipt["expected"]
        for each, receipt in zip(drawn, receipts, strict=True)
    )
    in_order = sorted(latency_ms)
    return LiveCheckResult(
        due=len(due),
        delivered=len(due & heard.keys()),
        wrong=len(heard.keys() - due),
        twice=sum(count - 1 for count in heard.values()),
        missing=len(due - heard.keys()),
        receipts_exact=exact,
        latency_ms={"p50": _share(in_order, 0.5), "p99": _share(in_order, 0.99)},
    )


def _share(in_order: Sequence[float], share: float) -> float:
    return (
        round(in_order[min(len(in_order) - 1, int(share * len(in_order)))], 2) if in_order else 0.0
    )


def casts_made_us(base: Path, members: Sequence[MemberSpec]) -> dict[tuple[str, int, int], int]:
    """The time of each cast, by publisher, incarnation and serial."""
    found = {}
    for member in members:
        for row in control.ask(base / member.name, {"do": "receipts"}):
            found[member.name, row["life"], row["serial"]] = row["made_us"]
    return found


def traffic(base: Path, folders: Sequence[Path]) -> tuple[int, int]:
    """Messages and bytes that all nodes have sent so far."""
    counters = [next(control.ask(folder, {"do": "status"}))["counters"] for folder in folders]
    return sum(each["sent"] for each in counters), sum(each["bytes_sent"] for each in counters)


async def run_in_thread(what: Any, *arguments: Any) -> Any:
    """Call a blocking function in a thread, so that nodes that run in this process continue."""
    return await asyncio.get_running_loop().run_in_executor(None, what, *arguments)
