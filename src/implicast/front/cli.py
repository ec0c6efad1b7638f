"""The commands `try`, `explain` and `compare`."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from implicast.casting.designs import designs
from implicast.front.compare import FIGURES, Row, compare, refuse_repeats, table, unknown_parameters
from implicast.front.explain import Explanation, among, followed, measured, network_of, understood
from implicast.front.pairs import pairs
from implicast.front.people import People, read_people
from implicast.front.picture import drawn
from implicast.language.attributes import Schema
from implicast.language.parameters import Setting
from implicast.peer.errors import ParameterError
from implicast.workload.workload import workload
from implicast.world.requirement import broken, read
from implicast.world.scenario import Scenario

WAY_SHOWN = 24
"""Messages of a way that are shown; the others are counted."""

_design = click.option(
    "--design", "name", default="spice-unloaded", show_default=True, help="How it is carried."
)
_set = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design."
)
_schema = click.option(
    "--schema", metavar="TEXT", help='Attributes, such as "price: 0..1000 by 0.01; city: text".'
)
_people = click.option(
    "--peers-from",
    "people",
    type=click.Path(path_type=Path),
    help="Who there is: a .csv with columns name,description, or a .toml.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_debug = click.option("--debug", is_flag=True, help="Show the traceback of an error.")


@click.command("try")
@click.argument("expression", metavar="EXPR")
@_people
@_design
@_set
@_schema
@click.option("--by", metavar="NAME", help="Who casts; the first of the file by default.")
@click.option("-m", "--message", default="hello", show_default=True, help="What is said.")
@click.option("--seed", default=1, show_default=True)
@_json
@_debug
def try_command(
    expression: str,
    people: Path | None,
    name: str,
    settings: tuple[str, ...],
    schema: str | None,
    by: str | None,
    message: str,
    seed: int,
    as_json: bool,
    debug: bool,
) -> None:
    """Cast to EXPR among the peers of a file, and say who was reached, over which way, at what cost.

    \b
    implicast try "(samba | jazz) & football" --peers-from people.csv
    """
    if people is None:
        raise ParameterError(
            'try needs peers: --peers-from people.csv, with lines like ann,"samba, football"'
        )
    there = read_people(people, _read_schema(schema))
    target, explanation = understood(expression, there.schema)
    network = network_of(there, name, pairs(settings), seed)
    receipt = network.cast(expression, message.encode(), by=by)
    found = followed(among(explanation, target, _described(there)), network, receipt)
    if as_json:
        answers = {
            each: getattr(receipt, each)
            for each in ("notified", "declined", "unreachable", "open", "uncertain")
        }
        click.echo(json.dumps({**found.described(), **answers}, indent=2, ensure_ascii=False))
    else:
        click.echo(_tried(found))


@click.command("explain")
@click.argument("expression", metavar="EXPR")
@_people
@_design
@_set
@_schema
@click.option(
    "--workload",
    help="Peers of a workload instead: zipf | extreme | groups | attributes | a directory.",
)
@click.option("--peers", default=512, show_default=True, help="How many peers the workload has.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--draw", type=click.Path(path_type=Path), metavar="FILE.svg", help="Draw the way of the cast."
)
@_json
@_debug
def explain_command(
    expression: str,
    people: Path | None,
    name: str,
    settings: tuple[str, ...],
    schema: str | None,
    workload: str | None,
    peers: int,
    seed: int,
    draw: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Say what EXPR means: its normal form in words, whom it selects, what a cast to it would take.

    \b
    implicast explain "gpu & (eu | us) & !beta"
    implicast explain "t1 & t2" --workload zipf --peers 1024 --design dht
    """
    if people is not None and workload is not None:
        raise ParameterError(
            "--peers-from and --workload are two answers to one question: leave one out"
        )
    if draw is not None and people is None:
        raise ParameterError("--draw needs peers with names: --peers-from people.csv")
    if draw is not None and draw.suffix != ".svg":
        raise ParameterError(
            f"--draw {draw}: the way is drawn as SVG, so the name should end in .svg"
        )
    there = read_people(people, _read_schema(schema)) if people is not None else None
    target, found = understood(
        expression, there.schema if there is not None else _read_schema(schema)
    )
    if there is not None:
        found = among(found, target, _described(there))
        network = network_of(there, name, pairs(settings), seed)
        found = followed(found, network, network.cast(expression))
    elif workload is not None:
        scenario = Scenario(name, peers, 1, seed, pairs(settings), workload)
        found = among(found, target, _peers_of(scenario))
        found = measured(found, target, scenario)
    if draw is not None:
        _write(draw, drawn(found))
    click.echo(
        json.dumps(found.described(), indent=2, ensure_ascii=False)
        if as_json
        else _explained(found)
    )


@click.command("compare")
@click.argument("names", nargs=-1, metavar="[DESIGN]...")
@click.option("--peers", default=512, show_default=True, help="How many peers register.")
@click.option("--casts", default=64, show_default=True, help="How many casts are made.")
@click.option("--seed", default=1, show_default=True)
@click.option("--workload", default="zipf", show_default=True)
@click.option(
    "--tags-per-peer", default=6, show_default=True, help="Tags each peer registers (zipf)."
)
@click.option("--network", default="flat", show_default=True)
@_set
@click.option(
    "--require",
    "requirements",
    multiple=True,
    metavar="TEXT",
    help='A threshold that every design must meet, like "missing == 0" or "RTH < 5".',
)
@_json
@_debug
def compare_command(
    names: tuple[str, ...],
    settings: tuple[str, ...],
    requirements: tuple[str, ...],
    as_json: bool,
    debug: bool,
    tags_per_peer: int,
    **plain: Any,
) -> None:
    """All designs (or those named) on the same peers and casts, in one table.

    Messages are counted against one server that knows every member. Exit code 1 when a contract is
    broken or a requirement is not met.
    """
    chosen = list(names) or list(designs())
    refuse_repeats(chosen)
    wanted = read(requirements, FIGURES)
    knobs: dict[str, Setting] = (
        {"tags_per_peer": tags_per_peer} if plain["workload"] == "zipf" else {}
    )
    scenario = Scenario(
        design=chosen[0], parameters=pairs(settings), workload_parameters=knobs, **plain
    )
    unknown_parameters(chosen, scenario)
    workload(scenario.workload, scenario.seed, scenario.peers, scenario.casts, **knobs)
    rows: list[Row] = []
    failed: list[str] = []
    for each in compare(chosen, scenario, time.process_time):
        if isinstance(each, Row):
            rows.append(each)
            figures = {
                key: value
                for key, value in each.described().items()
                if isinstance(value, int | float)
            }
            failed += [f"{each.design}: {sentence}" for sentence in broken(wanted, figures)]
            failed += [f"{each.design}: the contract was broken"] * (each.contract != "kept")
        else:
            click.echo(f"{each[0]} takes no part: {each[1]}", err=True)
    if as_json:
        settled = {key: value for key, value in scenario.described().items() if key != "design"}
        click.echo(
            json.dumps(
                {
                    "scenario": settled,
                    "designs": [each.described() for each in rows],
                    "failed": failed,
                },
                indent=2,
            )
        )
    else:
        click.echo(table(rows))
        for sentence in failed:
            click.echo(f"implicast: {sentence}", err=True)
    if failed or not rows:
        raise SystemExit(1)


def _read_schema(text: str | None) -> Schema | None:
    return None if text is None else Schema.read(text)


def _described(people: People) -> list[tuple[str, Any]]:
    return [(person.name, person.description) for person in people.persons]


def _peers_of(scenario: Scenario) -> list[tuple[str, Any]]:
    made = workload(scenario.workload, seed=scenario.seed, peers=scenario.peers, casts=1)
    return [(f"peer {number}", said) for number, said in enumerate(made.described())]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {error.strerror or error}") from None


def _explained(found: Explanation) -> str:
    lines = [
        f"{found.expression}",
        f"  normal form   {found.normal_form}",
        f"  in words      {found.words}",
    ]
    if found.expected is not None:
        names = ", ".join(found.members) + (" …" if found.expected > len(found.members) else "")
        lines.append(
            f"  selects       {found.expected} of {found.population}"
            + (f": {names}" if names else "")
        )
    lines += [f"  warning       {each}" for each in found.warnings]
    if found.design is not None:
        lines.append(
            f"  with {found.design}: {found.messages:g} messages, {found.hops:.1f} hops to a member, "
            f"{found.latency_ms:.0f} ms to the last"
        )
    lines += [f"  rendezvous    {', '.join(found.rendezvous)}"] * bool(found.rendezvous)
    return "\n".join(lines)


def _tried(found: Explanation) -> str:
    reached = ", ".join(found.reached) or "no member"
    lines = [
        _explained(replace(found, rendezvous=[])),
        f"  reached       {len(found.reached)}: {reached}",
    ]
    lines += [
        f"  {each.step:>4}  {each.by} → {each.to}  {each.kind}" for each in found.way[:WAY_SHOWN]
    ]
    more = len(found.way) - WAY_SHOWN
    lines += [f"        … and {more} more"] * (more > 0)
    return "\n".join(lines)
