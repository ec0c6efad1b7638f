"""A trial of a running network: casts drawn from a seed, and what became of them against what should have.

Whom a target selects is found by trying every description, here; nodes are only asked to cast and for their inboxes.
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
from implicast.net import control
from implicast.net.local import Someone

AT_ONCE = 8
SETTLE_S = 45.0
"""How long a receipt is waited for."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One cast to be made."""

    number: int
    publisher: str
    target: str
    due: frozenset[str]


def draw(members: Sequence[Someone], casts: int, seed: int) -> list[Drawn]:
    """Casts to expressions over the tags that there are."""
    chance = Random(seed)
    said = {each.name: description(each.text) for each in members}
    tags = sorted({tag for each in said.values() for tag in each.tags})
    found = []
    for number in range(casts):
        target = _expression(chance, tags)
        wanted = parse(target)
        due = frozenset(name for name, each in said.items() if wanted.selects(each))
        found.append(Drawn(number, chance.choice(list(said)), target, due))
    return found


def _expression(chance: Random, tags: list[str]) -> str:
    one, two, three = chance.sample(tags, 3)
    return chance.choice((f"{one} & {two}", f"({one} | {two}) & {three}", f"{one} & !{two}", one))


def cast_all(base: Path, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    """Make all casts, some at a time, through the control sockets; their receipts."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: _cast(base, each), drawn))


def _cast(base: Path, drawn: Drawn) -> dict[str, Any]:
    payload = json.dumps({"trial": drawn.number}).encode().hex()
    request = {"do": "cast", "target": drawn.target, "payload": payload, "wait": SETTLE_S}
    return next(control.ask(base / drawn.publisher, request, SETTLE_S + 30))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a trial."""

    due: int
    delivered: int
    wrong: int
    twice: int
    missing: int
    receipts_exact: int
    latency_ms: dict[str, float]


def judge(
    base: Path,
    drawn: Sequence[Drawn],
    receipts: Sequence[dict[str, Any]],
    members: Sequence[Someone],
    made_us: dict[int, int],
) -> Verdict:
    """Read every inbox, and compare."""
    heard: Counter[tuple[int, str]] = Counter()
    latency_ms: list[float] = []
    for someone in members:
        for note in control.ask(base / someone.name, {"do": "inbox", "keep": True}):
            number = json.loads(note["text"])["trial"]
            heard[number, someone.name] += 1
            if number in made_us:
                latency_ms.append((note["arrived_us"] - made_us[number]) / 1000)
    due = {(each.number, name) for each in drawn for name in each.due}
    exact = sum(
        receipt["complete"] and receipt["notified"] == len(each.due) == receipt["expected"]
        for each, receipt in zip(drawn, receipts, strict=True)
    )
    in_order = sorted(latency_ms)
    return Verdict(
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


def casts_made_us(base: Path, members: Sequence[Someone]) -> dict[tuple[str, int, int], int]:
    """When each cast was made, by publisher, life and serial."""
    found = {}
    for someone in members:
        for row in control.ask(base / someone.name, {"do": "receipts"}):
            found[someone.name, row["life"], row["serial"]] = row["made_us"]
    return found


def traffic(base: Path, folders: Sequence[Path]) -> tuple[int, int]:
    """Messages and bytes that all nodes have sent so far."""
    counters = [next(control.ask(folder, {"do": "status"}))["counters"] for folder in folders]
    return sum(each["sent"] for each in counters), sum(each["bytes_sent"] for each in counters)


async def in_thread(what: Any, *arguments: Any) -> Any:
    """Control sockets block; nodes that are tasks of this process must go on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(None, what, *arguments)
