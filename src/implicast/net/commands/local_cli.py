"""The command `local`: a network on this machine; with --casts it makes casts and checks them."""

import asyncio
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from implicast.casting.designs import design as designed
from implicast.front.pairs import pairs
from implicast.front.people import read_people
from implicast.language.parameters import Setting
from implicast.net.commands import live_check, locations
from implicast.net.commands.local import (
    InProcessNodes,
    LocalNetwork,
    MemberSpec,
    NodeProcesses,
    StartError,
    freeze_heap,
    is_running,
    sample_members,
)
from implicast.net.commands.options import debug_option, dir_option, json_option, web_option
from implicast.net.observation.logs import log_to_stderr
from implicast.net.storage.files import write_private
from implicast.web.pages import Pages

DESIGN = "spice-unloaded"


ROUNDS = {"round_s": 5.0, "slack_s": 2.0}
"""Short maintenance rounds, for designs in which a registration waits for a round."""


@click.command("local")
@click.argument("count", type=click.IntRange(1, 500), default=20)
@click.option("--design", help="The design of the network. [spice-unloaded]")
@click.option(
    "--scenario",
    type=click.Path(path_type=Path),
    help="Run the scenario in a file, like `simulate`.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design."
)
@click.option(
    "--peers-from",
    "people",
    type=click.Path(path_type=Path),
    help="File with the members, instead of COUNT.",
)
@click.option("--in-process", is_flag=True, help="Run all nodes in one process.")
@click.option("--plain", is_flag=True, help="Without TLS.")
@click.option("--journal", is_flag=True, help="Nodes write a journal, for `implicast journal`.")
@click.option("--casts", default=0, help="Make this number of casts, check them, and stop.")
@click.option("--seed", default=1, show_default=True, help="Random seed of the casts.")
@web_option
@dir_option
@json_option
@debug_option
def local_command(
    count: int,
    design: str | None,
    scenario: Path | None,
    settings: tuple[str, ...],
    people: Path | None,
    in_process: bool,
    plain: bool,
    journal: bool,
    casts: int,
    seed: int,
    web: int | None,
    directory: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Start a network of COUNT nodes on this machine, with its own authority, and list the nodes.

    \b
    implicast local 20                            in one terminal
    implicast cast "gpu & eu" -m "hello"          in another
    implicast inbox --node n01 --follow           in a third
    """
    if scenario is not None:
        from implicast.scenario_cli import run_on_loopback

        run_on_loopback(scenario, design, plain, as_json)
        return
    members = (
        sample_members(count)
        if people is None
        else [MemberSpec(each.name, each.text) for each in read_people(people).persons]
    )
    where = (directory or locations.local()).expanduser()
    if is_running(where):
        raise StartError(
            f"a network is running in {where}: stop it first, or choose another folder with --dir"
        )
    parameters = _parameters(design or DESIGN, settings)
    made = LocalNetwork(
        where, design or DESIGN, members, parameters, plain, limits=not casts, journal=journal
    )
    pages = None if web is None else Pages(members, web)
    if pages is not None:
        made.page = pages
    _quiet()
    made.create_folders()
    write_private(where / "local.pid", str(os.getpid()))
    try:
        if in_process:
            outcome = asyncio.run(_in_process(made, casts, seed, as_json, pages))
        else:
            outcome = _as_processes(made, casts, seed, as_json, pages)
    finally:
        (where / "local.pid").unlink(missing_ok=True)
    if outcome is not None:
        click.echo(json.dumps(outcome, indent=2) if as_json else _result_text(outcome))
        if outcome["missing"] or outcome["wrong"] or outcome["twice"]:
            raise SystemExit(1)


def _parameters(name: str, settings: tuple[str, ...]) -> dict[str, Setting]:
    """The given parameters, with short rounds where they are not given."""
    known = {each.name for each in designed(name).parameters}
    return {**{each: value for each, value in ROUNDS.items() if each in known}, **pairs(settings)}


def _as_processes(
    made: LocalNetwork, casts: int, seed: int, as_json: bool, pages: Pages | None
) -> dict[str, Any] | None:
    processes = NodeProcesses(made)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        seconds = processes.start_all(_progress(as_json))
        if not casts:
            _welcome(made, seconds, pages)
            signal.pause()
            return None
        return _run_check(made, casts, seed, seconds, lambda: _cpu_s(processes))
    except KeyboardInterrupt:
        return None
    finally:
        processes.stop()


def _cpu_s(processes: NodeProcesses) -> float:
    """User and system time of all nodes in seconds, from /proc; 0 if there is none."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0.0
    for process in processes.running.values():
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
        except (OSError, IndexError, ValueError):
            return 0.0
    return total


def _interrupted(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


async def _in_process(
    made: LocalNetwork, casts: int, seed: int, as_json: bool, pages: Pages | None
) -> dict[str, Any] | None:
    tasks = InProcessNodes(made)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        seconds = await tasks.start_all(_progress(as_json))
        freeze_heap()
        if not casts:
            _welcome(made, seconds, pages)
            await asyncio.Event().wait()
        found: dict[str, Any] = await live_check.run_in_thread(
            _run_check, made, casts, seed, seconds, time.process_time
        )
        return found
    except asyncio.CancelledError:
        return None
    finally:
        await tasks.stop()


def _run_check(
    made: LocalNetwork, casts: int, seed: int, ready_s: float, cpu_s: Callable[[], float]
) -> dict[str, Any]:
    base, members = made.directory, made.members
    drawn = live_check.draw(members, casts, seed)
    every = [*made.fixtures(), *made.folders()]
    messages, sent = live_check.traffic(base, every)
    begun, cpu = time.monotonic(), cpu_s()
    receipts = live_check.cast_all(base, drawn)
    took_s, cpu = time.monotonic() - begun, cpu_s() - cpu
    messages_after, sent_after = live_check.traffic(base, every)
    made_us = live_check.casts_made_us(base, members)
    named = {}
    for each, receipt in zip(drawn, receipts, strict=True):
        _, incarnation, serial = receipt["cast"].split(".")
        named[each.number] = made_us.get((each.publisher, int(incarnation), int(serial)), 0)
    result = live_check.judge(
        base, drawn, receipts, members, {number: at for number, at in named.items() if at}
    )
    return {
        "design": made.design,
        "nodes": len(every),
        "casts": casts,
        **{
            each: getattr(result, each)
            for each in (
                "due",
                "delivered",
                "missing",
                "wrong",
                "twice",
                "receipts_exact",
                "latency_ms",
            )
        },
        "messages": messages_after - messages,
        "bytes": sent_after - sent,
        "seconds_to_ready": round(ready_s, 2),
        "seconds": round(took_s, 2),
        "cpu_s": round(cpu, 2),
        "tls": not made.plain,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _result_text(outcome: dict[str, Any]) -> str:
    return (
        f"{outcome['design']}: {outcome['nodes']} nodes, {outcome['casts']} casts: "
        f"{outcome['delivered']} of {outcome['due']} delivered, {outcome['wrong']} wrong, "
        f"{outcome['twice']} twice; {outcome['receipts_exact']} receipts exact; "
        f"p50 {outcome['latency_ms']['p50']} ms, p99 {outcome['latency_ms']['p99']} ms; "
        f"ready after {outcome['seconds_to_ready']} s"
    )


def _progress(as_json: bool) -> Callable[[int, int], None]:
    shown = sys.stderr.isatty() and not as_json

    def show(done: int, of: int) -> None:
        if shown:
            click.echo(
                f"\r{done} of {of} nodes have joined and registered", nl=done == of, err=True
            )

    return show


def _welcome(made: LocalNetwork, seconds: float, pages: Pages | None) -> None:
    click.echo(
        f"{len(made.members)} nodes of {made.design} are up after {seconds:.1f} s, "
        f"in {made.directory}\n"
    )
    width = max(len(each.name) for each in made.members)
    for each in made.members:
        click.echo(f"  {each.name:{width}}  {each.text}")
    click.echo(
        '\nIn another terminal:\n  implicast cast "gpu & eu" -m "hello"\n  implicast inbox --node '
        f"{made.members[0].name} --follow\nCtrl-C stops the network."
    )
    if pages is not None:
        click.echo(f"\n{pages.welcome()}")


def _quiet() -> None:
    log_to_stderr("warning")
