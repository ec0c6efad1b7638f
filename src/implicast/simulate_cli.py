"""The commands `simulate` and `designs`."""

import atexit
import gc
import json
import resource
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

from implicast.casting.designs import SURVIVABLE, Design, design, designs
from implicast.front.pairs import pairs
from implicast.language.parameters import Setting
from implicast.peer.errors import ParameterError
from implicast.world.change import Change
from implicast.world.churn import Churn
from implicast.world.core import core
from implicast.world.faults import Faults
from implicast.world.invariants import ContractReport
from implicast.world.journal import PHASES
from implicast.world.liars.liars import Liars
from implicast.world.liars.trust import TrustResult
from implicast.world.requirement import broken, read
from implicast.world.scenario import MESSAGES, Scenario
from implicast.world.scenario_file import read_scenario
from implicast.world.simulate import RARELY, Progress, SimulationOutcome, silent, simulate
from implicast.world.tally import NAMES


@click.command("designs")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def designs_command(name: str | None, as_json: bool) -> None:
    """The designs and their parameters; with NAME, one of them."""
    chosen = [design(name)] if name else list(designs().values())
    if as_json:
        click.echo(json.dumps({each.name: _design_described(each) for each in chosen}, indent=2))
        return
    for each in chosen:
        click.echo(_design_text(each))


@click.command("simulate")
@click.argument("name", metavar="[DESIGN]", required=False)
@click.option(
    "--scenario",
    "path",
    type=click.Path(path_type=Path),
    help="All of it from a TOML file but the design.",
)
@click.option("--peers", default=4096, show_default=True, help="How many peers register.")
@click.option("--casts", default=1024, show_default=True, help="How many casts are made.")
@click.option(
    "--seed", default=1, show_default=True, help="Everything drawn in the run follows from it."
)
@click.option(
    "--workload",
    default="zipf",
    show_default=True,
    help="zipf | extreme | groups | attributes | a directory of tables.",
)
@click.option("--skew", type=float, help="Exponent of the zipf workload (default 1.0).")
@click.option("--tags-per-peer", type=int, help="Tags each peer registers (default 18).")
@click.option(
    "--with",
    "knobs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Further parameters of the workload.",
)
@click.option(
    "--network",
    default="flat",
    show_default=True,
    help="flat | national | laboratory | worldwide | the path of a map (.cch, .latencies.intra, .graphml, RTT matrix).",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design."
)
@click.option("--interval-ms", default=1000, show_default=True, help="Time between two casts.")
@click.option(
    "--warm-up", default=0, show_default=True, help="Casts before those that are measured."
)
@click.option("--payload-bytes", default=0, show_default=True, help="What each cast carries.")
@click.option(
    "--start",
    type=click.Choice(["assembled", "joined"]),
    default="assembled",
    show_default=True,
    help="The converged overlay at once, or grown by joining through messages.",
)
@click.option(
    "--register",
    type=click.Choice(["assembled", "messages"]),
    help="What registrations leave behind put in place at once, or registering by messages. Default: "
    "as the network starts: assembled where it is assembled, messages where peers join.",
)
@click.option(
    "--changes",
    default=0,
    show_default=True,
    help="Re-registrations and withdrawals while casts go on.",
)
@click.option(
    "--faults",
    default="",
    metavar="TEXT",
    help="Message faults, such as loss=0.01,duplicate=0.01,reorder=0.1.",
)
@click.option(
    "--churn",
    default="",
    metavar="TEXT",
    help="Churn, such as joins=64,leaves=32,crashes=32,over_s=600, or event=5:crash:7; also outages, "
    "rolls, flash, mass_leaves, oneway, deaf, jumps, disk=torn or disk=lost; @FILE reads a script.",
)
@click.option(
    "--liars",
    default="",
    metavar="TEXT",
    help="Members that lie, such as share=0.2,strategy=silent; strategies: "
    "silent, dropping, delaying, selective, aimed, hoarding, replaying, forging, flooding, preempting, "
    "sybil, misrouting, eclipsing; victim=ADDRESS where one is aimed at.",
)
@click.option("--strict", is_flag=True, help="Encode every message and compare on arrival.")
@click.option(
    "--journal", type=click.Path(path_type=Path), help="Keep the journal in this new directory."
)
@click.option(
    "--require",
    "requirements",
    multiple=True,
    metavar="TEXT",
    help='A threshold that decides the exit code, like "missing == 0" or "RTH < 5".',
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def simulate_command(
    name: str | None,
    path: Path | None,
    skew: float | None,
    tags_per_peer: int | None,
    knobs: tuple[str, ...],
    settings: tuple[str, ...],
    journal: Path | None,
    requirements: tuple[str, ...],
    as_json: bool,
    debug: bool,
    **plain: Any,
) -> None:
    """Simulate one run of DESIGN and print its measures."""
    given: dict[str, Setting | None] = {"skew": skew, "tags_per_peer": tags_per_peer}
    workload_parameters = {key: value for key, value in given.items() if value is not None} | pairs(
        knobs, "--with"
    )
    parameters = pairs(settings)
    wanted = read(requirements, () if plain["liars"] else KNOWN)
    scenario = _scenario(
        name, path, {"parameters": parameters, "workload_parameters": workload_parameters, **plain}
    )
    scenario.refuse_what_is_in_vain()
    begun = time.perf_counter()
    atexit.register(
        gc.freeze
    )  # looking for cycles in what goes with the process took a tenth of a large run,
    gc.set_threshold(*RARELY)  # and right after the run a thirtieth of a small one
    outcome = simulate(scenario, journal, _bar() if sys.stderr.isatty() and not as_json else silent)
    cost: dict[str, Any] = {
        "core": core(),
        "seconds": round(time.perf_counter() - begun, 3),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    if as_json:
        click.echo(json.dumps({**outcome.described(), **cost}, indent=2))
    else:
        click.echo(_outcome_text(outcome, cost, journal))
    failed = broken(wanted, _all_figures(outcome)) if wanted else []
    for sentence in failed:
        click.echo(f"implicast: {sentence}", err=True)
    if failed or (not outcome.contract_held and scenario.promised()):
        raise SystemExit(1)


def _scenario(name: str | None, path: Path | None, given: dict[str, Any]) -> Scenario:
    """What the options say, or what a file says."""
    if path is not None:
        return read_scenario(path, design=name)
    if name is None:
        raise click.UsageError(
            "name a design, like dht, or a file with --scenario; `implicast designs` lists them"
        )
    _refuse_options(name, given["parameters"])
    texts = {
        "faults": Faults.parse(given["faults"]),
        "churn": Churn.parse(given["churn"]),
        "liars": Liars.parse(given["liars"]),
        "register": given["register"] or "",
    }
    return Scenario(design=name, **{**given, **texts})


def _all_figures(outcome: SimulationOutcome) -> dict[str, float]:
    """Whatever may be required of a run, by name."""
    counted = {f"messages.{phase}": float(count) for phase, count in outcome.messages.items()}
    honest = outcome.trust.described() if outcome.trust is not None else {}
    return {**outcome.measures, **asdict(outcome.contract), **counted, **honest}


KNOWN = (
    *NAMES,
    *(each.name for each in fields(ContractReport)),
    *(f"messages.{phase}" for phase in PHASES),
)
"""The same before the run; among liars there are more."""


def _refuse_options(name: str, parameters: Mapping[str, Setting]) -> None:
    """Say so when `--set` is used for what is an option of its own."""
    options = {
        option.removeprefix("--") for each in simulate_command.params for option in each.opts
    }
    known = {each.name for each in design(name).parameters}
    if "alive" in parameters and "alive" not in known:
        raise ParameterError(
            f"{name} has no parameter 'alive': there is one {name}, and it survives unless told otherwise; "
            "--set assurance=receipts (the default) confirms and repeats, --set assurance=none does not"
        )
    for key, value in parameters.items():
        option = key.replace("_", "-")
        if key not in known and option in options:
            raise ParameterError(
                f"{name} has no parameter {key!r}; it is an option of its own: --{option} {value}"
            )


def _bar() -> Progress:
    """A line on the terminal that is written over again and again."""
    begun = time.perf_counter()

    def show(phase: str, done: int, of: int) -> None:
        share = done / of if of else 1
        filled = "█" * int(30 * share)
        end = "\n" if done == of else ""
        sys.stderr.write(
            f"\r{phase:12} {filled:·<30} {done}/{of}  {time.perf_counter() - begun:5.1f} s{end}"
        )
        sys.stderr.flush()

    return show


def _design_described(each: Design) -> dict[str, Any]:
    return {
        "summary": each.summary,
        "paper": each.paper,
        "languages": list(each.languages),
        "survives": [name for name in SURVIVABLE if name in each.survives],
        "trial": dict(each.trial),
        "quick": dict(each.quick),
        "parameters": {
            one.name: {
                "default": one.default,
                "takes": one.range_text(),
                "unit": one.unit,
                "doc": one.doc,
            }
            for one in each.parameters
        },
    }


def _design_text(each: Design) -> str:
    lines = [click.style(each.name, bold=True), f"  {each.summary}"]
    lines.append(f"  {each.paper}; speaks {', '.join(each.languages)}")
    if each.survives:
        settings = " ".join(f"{name}={value}" for name, value in each.trial.items())
        borne = ", ".join(name for name in SURVIVABLE if name in each.survives)
        lines.append(f"  survives {borne}" + (f" with {settings}" if settings else ""))
    for one in each.parameters:
        unit = f" {one.unit}" if one.unit else ""
        lines.append(f"    --set {one.name}={one.default}{unit}  ({one.range_text()})")
        lines.append(f"        {one.doc}")
    return "\n".join(lines) + "\n"


def _outcome_text(outcome: SimulationOutcome, cost: dict[str, Any], journal: Path | None) -> str:
    scenario, contract, measures = outcome.scenario, outcome.contract, outcome.measures
    broken = "as liars left it" if outcome.trust is not None else "not promised, and not kept"
    verdict = (
        "kept"
        if contract.clean and not outcome.unkept
        else "BROKEN"
        if scenario.promised() and not outcome.contract_held
        else broken
    )
    lines = [
        f"{scenario.design}: {scenario.peers} peers, {scenario.casts} casts, {scenario.workload} on "
        f"{scenario.network}, seed {scenario.seed}" + _assurance(outcome),
        f"  contract {verdict}: expected {contract.expected}, notified {contract.notified}, "
        f"missing {contract.missing}, repeated {contract.repeated}, uninvited {contract.uninvited}, "
        f"invented {contract.invented}, altered {contract.altered}, misreported {contract.misreported}",
    ]
    lines += [f"  {label:42} {_figures(measures, names)}" for label, names in _GROUPS]
    lines.append(
        f"  {'messages':42} "
        + "  ".join(f"{phase} {count:,}" for phase, count in outcome.messages.items())
    )
    lines += _change_lines(outcome.change) if outcome.change is not None else []
    lines += _trust_lines(outcome.trust) if outcome.trust is not None else []
    lines += [f"  promise broken: {unkept}" for unkept in outcome.unkept]
    lines += [f"  objection: {objection}" for objection in outcome.objections]
    lines += [f"  note: {note}" for note in outcome.notes]
    lines += [f"  hint: {scenario.advice()}"] * (
        not outcome.contract_held and bool(scenario.advice())
    )
    kept = f"; journal in {journal}" if journal else ""
    lines.append(f"  {cost['seconds']} s, {cost['peak_mb']} MB, {cost['core']} core{kept}")
    return "\n".join(lines)


def _assurance(outcome: SimulationOutcome) -> str:
    """Every table says whether steps were confirmed."""
    warm = f", after {outcome.scenario.warm_up} to warm up" if outcome.scenario.warm_up else ""
    told = outcome.parameters.get("assurance")
    said = ", registered by messages" if outcome.scenario.registers == MESSAGES else ""
    return warm + (f", assurance {told}" if told is not None else "") + said


def _change_lines(change: Change) -> list[str]:
    during = change.during
    return [
        f"  {'reached during change / after':42} {_reached(during)}, {during.excused} excused, {during.late} late  /  "
        f"{_reached(change.after)}",
        f"  {'notified wrongly during change':42} repeated {during.repeated}  uninvited {during.uninvited}  "
        f"invented {during.invented}  altered {during.altered}  misreported {during.misreported}",
        f"  {'repair, seconds':42} median {change.repair_s_median:.1f}  longest {change.repair_s_max:.1f}  "
        f"never {change.unrepaired}",
        f"  {'upkeep per peer and minute, storm':42} {change.upkeep_per_peer_minute:.2f}  {change.storm:.1f}",
        *[
            f"  {'back and registered, seconds':42} longest {change.return_s_max:.1f}, {change.returns} members"
        ]
        * bool(change.returns),
        *(f"  complaint: {complaint}" for complaint in change.complaints),
    ]


def _trust_lines(trust: TrustResult) -> list[str]:
    return [
        f"  {'arrived at the honest, among liars':42} {trust.arrival:.4f}, {trust.arrived} of {trust.expected:,}; "
        f"{trust.liars} lie",
        f"  {f'arrived at the victim, {trust.victim}':42} {trust.victim_arrived} of {trust.victim_expected:,}",
        f"  {'notified wrongly by liars':42} forged {trust.forged}  repeated {trust.repeated}  "
        f"uninvited {trust.uninvited}  breakdowns {trust.breakdowns}",
        f"  {'held against liars / against the honest':42} {trust.noticed} noticed after {trust.noticed_s:.1f} s  /  "
        f"{trust.accused} accused",
    ]


def _reached(verdict: ContractReport) -> str:
    """With no expected member there is no share: 1 would look like a proof."""
    if not verdict.expected:
        return "no member was expected"
    return f"{verdict.delivery_ratio:.4f}, {verdict.missing} of {verdict.expected:,} missing"


_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("sent for others, largest / fairness", ("TOUT_M", "TOUT_G", "POUT_M")),
    ("received for others, largest / fairness", ("TIN_M", "TIN_G", "PIN_M")),
    ("stored bytes, largest / fairness", ("STOR_M", "STOR_G")),
    ("packets per link", ("PINK_M", "TINK_M")),
    ("fairness over all, used and router links", ("TINK_G", "TINK_used_G", "TINK_router_G")),
    ("messages, mean and largest hops against one server", ("RTH", "RAH", "RMH")),
    (
        "milliseconds to a member",
        ("latency_ms_mean", "latency_ms_median", "latency_ms_p99", "latency_ms_max"),
    ),
)


def _figures(measures: dict[str, float], names: tuple[str, ...]) -> str:
    return "  ".join(f"{name} {_figure(measures[name])}" for name in names)


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
