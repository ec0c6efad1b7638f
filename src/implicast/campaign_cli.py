"""The command `implicast campaign`: random scenarios of change for a design; failures made small,
with a replay.

Scenarios follow from design, seed and number alone, so several processes may share them: the
results are the same.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

import click

from implicast.casting.designs import Design, design, designs
from implicast.trials.campaign import MIXED, CampaignOptions, Finding, Mapper, campaign, shrink
from implicast.world.liars.liars import Liars
from implicast.world.liars.trust import TrustResult


@click.command("campaign")
@click.argument("name", metavar="DESIGN")
@click.option(
    "--scenarios", default=20, show_default=True, type=click.IntRange(min=1), help="How many."
)
@click.option("--seed", default=1, show_default=True, help="All scenarios follow from it.")
@click.option(
    "--first",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Number of the first scenario.",
)
@click.option(
    "--jobs",
    default=1,
    show_default=True,
    type=click.IntRange(1, 1024),
    help="Processes that share them.",
)
@click.option(
    "--language",
    default=MIXED,
    show_default=True,
    type=click.Choice([MIXED, "tags", "attributes"]),
    help="Casts to tags, to ranges of values, or now these and now those.",
)
@click.option(
    "--lasting",
    is_flag=True,
    help="Freezes, cuts, partitions of up to seven minutes, not twenty seconds.",
)
@click.option(
    "--changing",
    is_flag=True,
    help="Half the peers describe themselves anew, or withdraw, meanwhile.",
)
@click.option(
    "--returns",
    "returning",
    is_flag=True,
    help="An eighth of the peers crash and come back, every time.",
)
@click.option(
    "--blackout",
    is_flag=True,
    help="All members stop once and start again; in half the scenarios a third does not.",
)
@click.option(
    "--liars",
    default="",
    metavar="TEXT",
    help="Members that lie meanwhile, like share=0.2,strategy=silent; see `simulate --help`.",
)
@click.option(
    "--wide",
    is_flag=True,
    help="Draw far more: power cuts, turnover, long absences, one-way partitions, deaf hosts, clock "
    "jumps, faulty disks, 2 to 512 peers, parameters; each scenario leaves whole kinds out.",
)
@click.option(
    "--guided",
    is_flag=True,
    help="With --wide: change scenarios that showed new messages, longer repair or higher cost.",
)
@click.option(
    "--whole", is_flag=True, help="Show failing scenarios as they are, without making them small."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each design.")
def campaign_command(
    name: str,
    scenarios: int,
    seed: int,
    first: int,
    jobs: int,
    liars: str,
    wide: bool,
    guided: bool,
    whole: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Try random scenarios of change on DESIGN (or on `all`) and judge each from outside."""
    if guided and (not wide or jobs > 1):
        raise click.UsageError("--guided needs --wide, and one process: each draw needs the last")
    meant = [each for each in designs().values() if _meant(each, options["language"])]
    chosen = meant if name == "all" else [design(name)]
    lying, failures = Liars.parse(liars), 0
    with mapper(jobs) as mapped:
        for each in chosen:
            if wide:
                given = CampaignOptions(**options, liars=lying)
                failures += _wide(
                    each, scenarios, seed, first, mapped, given, guided, whole, as_json
                )
                continue
            tally = Tally(each.name, scenarios)
            failed = campaign(
                each,
                scenarios,
                seed,
                first,
                tally.see,
                mapped,
                CampaignOptions(**options, liars=lying),
            )
            small = (
                failed if whole else [shrink(one, partial(_infrastructure, each)) for one in failed]
            )
            failures += len(failed)
            tally.finish()
            click.echo(
                json.dumps(tally.described(small), indent=2) if as_json else tally.text(small)
            )
    if failures:
        raise SystemExit(1)


def _wide(each: Design, *given: Any) -> int:
    from implicast.wide_cli import run_wide  # imports this module for `Tally`

    return run_wide(each, *given)


def _meant(each: Design, language: str) -> bool:
    return bool(each.survives) and (language == MIXED or language in each.languages)


@contextmanager
def mapper(jobs: int) -> Iterator[Mapper]:
    """How a function is put to many values: one after the other, or by so many processes, in order
    in both.
    """
    if jobs == 1:
        yield map
        return
    # Fresh processes: a copy of this one would share whatever threads hold in it.
    with get_context("spawn").Pool(jobs) as pool:
        yield partial(pool.imap, chunksize=1)


def _infrastructure(design: Design, peers: int) -> int:
    return design.infrastructure(peers, design.settle(design.trial))


class Tally:
    """What a campaign has seen so far; on a terminal with a line that says how long it will take."""

    def __init__(self, name: str, scenarios: int) -> None:
        self.name, self.scenarios = name, scenarios
        self.show = sys.stderr.isatty()
        self.count: Counter[str] = Counter()
        self.repairs_s: list[float] = []
        self.upkeep: list[float] = []
        self.returns_s: list[float] = []
        self.trust: Counter[str] | None = None
        """Over all scenarios, where members lied."""
        self.begun = time.perf_counter()

    def see(self, finding: Finding) -> None:
        count = self.count
        count["scenarios"] += 1
        count["failed"] += bool(finding.reasons)
        count["drawn_again"] += finding.redrawn
        change = finding.outcome.change if finding.outcome else None
        if finding.outcome is not None and finding.outcome.trust is not None:
            self._trust(finding.outcome.trust)
        if finding.outcome is not None:
            count["messages"] += sum(finding.outcome.messages.values())
        if change is not None:
            count["expected"] += change.during.expected
            count["missing"] += change.during.missing
            count["late"] += change.during.late
            count["expected_after"] += change.after.expected
            count["returns"] += change.returns
            self.returns_s.append(change.return_s_max)
            self.repairs_s.append(change.repair_s_max)
            self.upkeep.append(change.upkeep_per_peer_minute)
        if self.show:
            click.echo(f"\r{self.progress()}\x1b[K", nl=False, err=True)

    def _trust(self, trust: TrustResult) -> None:
        self.trust = self.trust or Counter()
        for name in (
            "expected",
            "arrived",
            "victim_expected",
            "victim_arrived",
            "forged",
            "repeated",
            "uninvited",
        ):
            self.trust[name] += getattr(trust, name)

    def _trusted(self) -> dict[str, Any]:
        if self.trust is None:
            return {}
        expected = self.trust["expected"]
        return {
            "trust": {
                **self.trust,
                "arrival": self.trust["arrived"] / expected if expected else 1.0,
            }
        }

    def progress(self) -> str:
        done = self.count["scenarios"]
        left_s = (time.perf_counter() - self.begun) / done * (self.scenarios - done)
        left = f"{left_s / 60:.0f} min" if left_s > 90 else f"{left_s:.0f} s"
        return (
            f"{self.name} {done}/{self.scenarios}, {self.count['failed']} failed, about {left} left"
        )

    def finish(self) -> None:
        """The line has served."""
        if self.show:
            click.echo("\r\x1b[K", nl=False, err=True)

    def ratio(self) -> float:
        return 1 - self.count["missing"] / self.count["expected"] if self.count["expected"] else 1.0

    def described(self, failed: list[Finding]) -> dict[str, Any]:
        return {
            "design": self.name,
            **self.count,
            "delivery_ratio_during_change": self.ratio(),
            "repair_s_max": max(self.repairs_s, default=0.0),
            "return_s_max": max(self.returns_s, default=0.0),
            "upkeep_per_peer_minute_mean": sum(self.upkeep) / len(self.upkeep)
            if self.upkeep
            else 0.0,
            "seconds": round(time.perf_counter() - self.begun, 1),
            **self._trusted(),
            "failures": [
                {"reasons": list(one.reasons), "replay": one.scenario.command()} for one in failed
            ],
        }

    def text(self, failed: list[Finding]) -> str:
        count = self.count
        lines = [
            f"{self.name}: {count['scenarios']} scenarios, {count['failed']} failed; reached during change "
            f"{self.ratio():.4f} of {count['expected']:,}, after it {count['expected_after']:,} expected; "
            f"longest repair {max(self.repairs_s, default=0.0):.1f} s, {count['returns']} came back, registered within "
            f"{max(self.returns_s, default=0.0):.1f} s; {count['drawn_again']} drawn again; "
            f"{time.perf_counter() - self.begun:.0f} s"
        ]
        for trust in self._trusted().values():
            lines.append(
                f"  among liars {trust['arrival']:.4f} of {trust['expected']:,} arrived at the honest, "
                f"{trust['victim_arrived']} of {trust['victim_expected']} at victims; forged {trust['forged']}, "
                f"repeated {trust['repeated']}, uninvited {trust['uninvited']}"
            )
        for one in failed:
            lines += [f"  failed: {reason}" for reason in one.reasons[:5]]
            lines.append(f"  replay: {one.scenario.command()}")
        return "\n".join(lines)
