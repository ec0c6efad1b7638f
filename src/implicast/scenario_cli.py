"""One scenario file in the world and on loopback: `implicast parity FILE`, and what `local
--scenario` does.
"""

import json
from dataclasses import replace
from pathlib import Path

import click

from implicast.casting.designs import DESIGN_MODULES
from implicast.lab import parity
from implicast.world.scenario_file import read_scenario


@click.command("parity")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--design",
    "designs",
    multiple=True,
    metavar="NAME",
    help="Instead of the file's; `all` for all ten.",
)
@click.option("--tls", is_flag=True, help="Over TLS; plain otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def parity_command(
    path: Path, designs: tuple[str, ...], tls: bool, as_json: bool, debug: bool
) -> None:
    """Run one scenario FILE in the world and over sockets on this machine, and compare.

    The same peers must be notified of the same casts, with messages for a cast within 20 %. Exit
    code 1 where they are not.

    \b
    implicast parity examples/parity.toml --design all
    """
    chosen = (
        list(DESIGN_MODULES) if "all" in designs else list(designs) or [read_scenario(path).design]
    )
    rows, failed = [], False
    for name in chosen:
        scenario = read_scenario(path, design=name)
        world, live = parity.in_world(scenario), parity.on_loopback(scenario, not tls)
        wrong = parity.objection(world, live)
        failed |= wrong is not None
        rows.append(
            {
                "design": name,
                "deliveries": len(world.pairs),
                "same": world.pairs == live.pairs,
                "messages_world": round(world.messages, 2),
                "messages_live": round(live.messages, 2),
                "objection": wrong,
            }
        )
        if not as_json:
            same = "the same" if wrong is None else wrong
            click.echo(
                f"{name:16} {len(world.pairs):6,} deliveries  {world.messages:7.2f} messages a cast in the "
                f"world, {live.messages:7.2f} on loopback: {same}"
            )
    if as_json:
        click.echo(json.dumps({"designs": rows}, indent=2))
    if failed:
        raise SystemExit(1)


def run_on_loopback(path: Path, design: str | None, plain: bool, as_json: bool) -> None:
    """`implicast local --scenario FILE`: make the casts of a scenario, judge them, and stop."""
    scenario = read_scenario(path, design=design)
    live = parity.on_loopback(scenario, plain)
    due = parity.in_world(replace(scenario, start="assembled")).pairs
    outcome = {
        "design": scenario.design,
        "peers": scenario.peers,
        "casts": scenario.casts,
        "due": len(due),
        "delivered": len(due & live.pairs),
        "missing": len(due - live.pairs),
        "wrong": len(live.pairs - due),
        **live.described(),
    }
    if as_json:
        click.echo(json.dumps(outcome, indent=2))
    else:
        click.echo(
            f"{scenario.design}: {scenario.peers} nodes, {scenario.casts} casts: {outcome['delivered']} of "
            f"{len(due)} delivered, {outcome['wrong']} wrong, {live.twice} twice; {live.messages:.1f} messages "
            "a cast"
        )
    if outcome["missing"] or outcome["wrong"] or live.twice:
        raise SystemExit(1)
