"""The command `implicast campaign`: random scenarios of change for a design; failures made small, with a replay."""

import json
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

import click

from implicast.casting.designs import Design, design, designs
from implicast.world.campaign import Finding, campaign, shrink


@click.command("campaign")
@click.argument("name", metavar="DESIGN")
@click.option("--scenarios", default=20, show_default=True, help="How many.")
@click.option("--seed", default=1, show_default=True, help="All scenarios follow from it.")
@click.option("--first", default=0, show_default=True, help="Number of the first scenario.")
@click.option("--whole", is_flag=True, help="Show failing scenarios as they are, without making them small.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def campaign_command(name: str, scenarios: int, seed: int, first: int, whole: bool, as_json: bool) -> None:
    """Try random scenarios of change on DESIGN (or on `all`) and judge each from outside."""
    chosen = [each for each in designs().values() if each.survives] if name == "all" else [design(name)]
    failures = 0
    for each in chosen:
        tally = Tally(each.name, scenarios, as_json)
        failed = campaign(each, scenarios, seed, first, tally.see)
        small = failed if whole else [shrink(one, partial(_infrastructure, each)) for one in failed]
        failures += len(failed)
        click.echo(json.dumps(tally.described(small), indent=2) if as_json else tally.text(small))
    if failures:
        raise SystemExit(1)


def _infrastructure(design: Design, peers: int) -> int:
    return design.infrastructure(peers, design.settle(design.alive))


class Tally:
    """What a campaign has seen so far."""

    def __init__(self, name: str, scenarios: int, quiet: bool) -> None:
        self.name, self.scenarios = name, scenarios
        self.show = sys.stderr.isatty() and not quiet
        self.count: Counter[str] = Counter()
        self.repairs_s: list[float] = []
        self.begun = time.perf_counter()

    def see(self, finding: Finding) -> None:
        count = self.count
        count["scenarios"] += 1
        count["failed"] += bool(finding.reasons)
        change = finding.outcome.change if finding.outcome else None
        if change is not None:
            count["expected"] += change.during.expected
            count["missing"] += change.during.missing
            count["expected_after"] += change.after.expected
            self.repairs_s.append(change.repair_s_max)
        if self.show:
            so_far = f"\r{self.name} {count['scenarios']}/{self.scenarios}, {count['failed']} failed"
            click.echo(so_far, nl=False, err=True)

    def ratio(self) -> float:
        return 1 - self.count["missing"] / self.count["expected"] if self.count["expected"] else 1.0

    def described(self, failed: list[Finding]) -> dict[str, Any]:
        return {
            "design": self.name,
            **self.count,
            "delivery_ratio_during_change": self.ratio(),
            "repair_s_max": max(self.repairs_s, default=0.0),
            "seconds": round(time.perf_counter() - self.begun, 1),
            "failures": [{"reasons": list(one.reasons), "replay": one.scenario.command()} for one in failed],
        }

    def text(self, failed: list[Finding]) -> str:
        count = self.count
        lines = [
            f"{self.name}: {count['scenarios']} scenarios, {count['failed']} failed; reached during change "
            f"{self.ratio():.4f} of {count['expected']:,}, after it {count['expected_after']:,} expected; "
            f"longest repair {max(self.repairs_s, default=0.0):.1f} s; {time.perf_counter() - self.begun:.0f} s"
        ]
        for one in failed:
            lines += [f"  failed: {reason}" for reason in one.reasons[:5]]
            lines.append(f"  replay: {one.scenario.command()}")
        return "\n".join(lines)
