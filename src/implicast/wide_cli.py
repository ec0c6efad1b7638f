"""What `implicast campaign --wide` prints: failures with replays, repair times by kind of trouble,
coverage, CPU time.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import click

from implicast.campaign_cli import Tally
from implicast.casting.designs import Design
from implicast.trials.campaign import CampaignOptions, Finding, Mapper, shrink
from implicast.trials.coverage import NOTHING, joined
from implicast.trials.feedback import WideCheck, WideFinding, wide_campaign
from implicast.trials.troubles import TROUBLES
from implicast.trials.wide import Choices, choices_of

SHRINK_RUNS = 40
"""Further runs to shrink a failing scenario: wide ones take seconds."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A finding and the CPU time that it took."""

    found: WideFinding
    cpu_s: float


@dataclass(frozen=True, slots=True)
class TimedCheck:
    """Checks a scenario and measures the CPU time of its process."""

    check: WideCheck

    def __call__(self, choices: Choices) -> Timed:
        begun_s = time.process_time()
        found = self.check(choices)
        return Timed(found, time.process_time() - begun_s)


class WideTally(Tally):
    """What a wide campaign has seen so far."""

    def __init__(self, name: str, scenarios: int) -> None:
        super().__init__(name, scenarios)
        self.cpu_s: list[float] = []
        self.covered = NOTHING
        self.course: list[tuple[int, float, int]] = []
        """(scenarios, CPU seconds, pairs and triples seen) after each scenario."""
        self.repairs: dict[str, list[float]] = {}

    def take(self, timed: Timed) -> None:
        self.cpu_s.append(timed.cpu_s)
        self.covered = joined(self.covered, timed.found.codes)
        self.course.append((len(self.cpu_s), round(sum(self.cpu_s), 1), len(self.covered)))
        repair_s = timed.found.repair_s()
        if repair_s is not None:
            for kind in timed.found.choices.kinds:
                self.repairs.setdefault(kind, []).append(repair_s)
        self.see(timed.found.finding)

    def progress(self) -> str:
        cpu_s, pairs = sum(self.cpu_s), len(self.covered)
        return f"{super().progress()}, {cpu_s:.0f} CPU s, coverage {pairs:,}"

    def repair_table(self) -> list[dict[str, Any]]:
        """By kind of trouble: over the scenarios with it, the longest repair of each."""
        return [
            {
                "kind": kind,
                "scenarios": len(times_s),
                "median_s": _finite(median(times_s)),
                "max_s": _finite(max(times_s)),
            }
            for kind in TROUBLES
            if (times_s := self.repairs.get(kind))
        ]

    def milestones(self) -> list[tuple[int, float, int]]:
        """The course at 1, 2, 5, 10, 20, ... scenarios, and at the end."""
        marks = {base * 10**power for power in range(6) for base in (1, 2, 5)}
        return [each for each in self.course if each[0] in marks or each is self.course[-1]]

    def described(self, failed: list[Finding]) -> dict[str, Any]:
        course = [
            {"scenarios": count, "cpu_s": cpu_s, "coverage": pairs}
            for count, cpu_s, pairs in self.milestones()
        ]
        return {
            **super().described(failed),
            "cpu_s": round(sum(self.cpu_s), 1),
            "cpu_s_max": round(max(self.cpu_s, default=0.0), 1),
            "repair_by_kind": self.repair_table(),
            "coverage": course,
        }

    def text(self, failed: list[Finding]) -> str:
        lines = [super().text(failed)]
        lines.append(
            f"  {sum(self.cpu_s):.0f} CPU s, at most {max(self.cpu_s, default=0.0):.1f} s a scenario; "
            f"drawn {len(self.cpu_s)}, drawn again {self.count['drawn_again']}"
        )
        lines.append("  repair, seconds          scenarios   median      max")
        for row in self.repair_table():
            spent = f"{_shown(row['median_s']):>9}{_shown(row['max_s']):>9}"
            lines.append(f"    {row['kind']:<22}{row['scenarios']:>8}{spent}")
        course = ", ".join(f"{pairs:,} after {count}" for count, _, pairs in self.milestones())
        lines.append(f"  coverage, pairs and triples of messages and causes: {course}")
        return "\n".join(lines)


def _finite(value: float) -> float | None:
    """None: never repaired."""
    return round(value, 1) if value != float("inf") else None


def _shown(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


def run_wide(
    design: Design,
    scenarios: int,
    seed: int,
    first: int,
    mapped: Mapper,
    options: CampaignOptions,
    guided: bool,
    whole: bool,
    as_json: bool,
) -> int:
    """Run one wide campaign, print it, and return the number of failed scenarios."""
    tally = WideTally(design.name, scenarios)
    check = TimedCheck(WideCheck(design.name, seed, options))
    if guided:
        timed: list[Timed] = []

        def checked(choices: Choices) -> WideFinding:
            timed.append(check(choices))
            return timed[-1].found

        failed = wide_campaign(
            design,
            scenarios,
            seed,
            first,
            checked,
            lambda found: tally.take(timed[-1]),
            options,
            guided=True,
        )
    else:
        failed = list(_blind(design, scenarios, seed, first, mapped, options, check, tally.take))
    findings = [one.finding for one in failed]
    small = findings if whole else [_shrunk(design, one) for one in findings]
    tally.finish()
    click.echo(json.dumps(tally.described(small), indent=2) if as_json else tally.text(small))
    return len(failed)


def _blind(
    design: Design,
    scenarios: int,
    seed: int,
    first: int,
    mapped: Mapper,
    options: CampaignOptions,
    check: TimedCheck,
    take: Callable[[Timed], None],
) -> Iterator[WideFinding]:
    drawn = [choices_of(design, seed, first + turn, options) for turn in range(scenarios)]
    apply: Any = mapped
    for timed in apply(check, drawn):
        take(timed)
        if timed.found.finding.reasons:
            yield timed.found


def _shrunk(design: Design, failed: Finding) -> Finding:
    given = failed.scenario.parameters
    infrastructure = partial(_infrastructure, design, given)
    return replace(shrink(failed, infrastructure, SHRINK_RUNS), redrawn=failed.redrawn)


def _infrastructure(design: Design, given: Any, peers: int) -> int:
    return design.infrastructure(peers, design.settle(given))
