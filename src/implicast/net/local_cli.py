"""The command `local`: a network on this machine, judged where casts are asked for."""

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
from implicast.net import places, trial
from implicast.net.local import (
    Local,
    Processes,
    Someone,
    StartError,
    Tasks,
    everybody,
    is_running,
    settle,
)
from implicast.net.logs import log_to_stderr
from implicast.net.options import debug_option, dir_option, json_option, web_option
from implicast.web.pages import Pages

DESIGN = "spice-unloaded"


ROUNDS = {"round_s": 5.0, "slack_s": 2.0}
"""Of designs in which a registration waits for a round of upkeep: short ones, for a network that is tried out."""


@click.command("local")
@click.argument("count", type=click.IntRange(1, 500), default=20)
@click.option("--design", help="How casts are carried. [spice-unloaded]")
@click.option(
    "--scenario",
    type=click.Path(path_type=Path),
    help="Make the casts of a file, as `simulate` does.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design."
)
@click.option(
    "--peers-from",
    "people",
    type=click.Path(path_type=Path),
    help="Who there is, instead of COUNT.",
)
@click.option(
    "--in-process", is_flag=True, help="Nodes as tasks of one process instead of a process each."
)
@click.option("--plain", is_flag=True, help="Without TLS.")
@click.option(
    "--journal", is_flag=True, help="Nodes write down what they see, for `implicast journal`."
)
@click.option("--casts", default=0, help="Make so many casts, judge them, and stop.")
@click.option("--seed", default=1, show_default=True, help="Of the casts.")
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
    """Start a network of COUNT nodes on this machine, with its own authority, and say who is what.

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
        everybody(count)
        if people is None
        else [Someone(each.name, each.text) for each in read_people(people).persons]
    )
    where = (directory or places.local()).expanduser()
    if is_running(where):
        raise StartError(
            f"a network is running in {where}: stop it first, or name another folder with --dir"
        )
    parameters = _parameters(design or DESIGN, settings)
    made = Local(
        where, design or DESIGN, members, parameters, plain, limits=not casts, journal=journal
    )
    pages = None if web is None else Pages(members, web)
    if pages is not None:
        made.page = pages
    _quiet()
    made.lay_out()
    (where / "local.pid").write_text(str(os.getpid()))
    try:
        if in_process:
            outcome = asyncio.run(_in_process(made, casts, seed, as_json, pages))
        else:
            outcome = _as_processes(made, casts, seed, as_json, pages)
    finally:
        (where / "local.pid").unlink(missing_ok=True)
    if outcome is not None:
        click.echo(json.dumps(outcome, indent=2) if as_json else _verdict(outcome))
        if outcome["missing"] or outcome["wrong"] or outcome["twice"]:
            raise SystemExit(1)


def _parameters(name: str, settings: tuple[str, ...]) -> dict[str, Setting]:
    """What was given, and short rounds where it says nothing of them."""
    known = {each.name for each in designed(name).parameters}
    return {**{each: value for each, value in ROUNDS.items() if each in known}, **pairs(settings)}


def _as_processes(
    made: Local, casts: int, seed: int, as_json: bool, pages: Pages | None
) -> dict[str, Any] | None:
    processes = Processes(made)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        seconds = processes.start_all(_progress(as_json))
        if not casts:
            _welcome(made, seconds, pages)
            signal.pause()
            return None
        return _tried(made, casts, seed, seconds, lambda: _cpu_s(processes))
    except KeyboardInterrupt:
        return None
    finally:
        processes.stop()


def _cpu_s(processes: Processes) -> float:
    """User and system time of all nodes, from /proc where there is one."""
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
    made: Local, casts: int, seed: int, as_json: bool, pages: Pages | None
) -> dict[str, Any] | None:
    tasks = Tasks(made)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        seconds = await tasks.start_all(_progress(as_json))
        settle()
        if not casts:
            _welcome(made, seconds, pages)
            await asyncio.Event().wait()
        found: dict[str, Any] = await trial.in_thread(
            _tried, made, casts, seed, seconds, time.process_time
        )
        return found
    except asyncio.CancelledError:
        return None
    finally:
        await tasks.stop()


def _tried(
    made: Local, casts: int, seed: int, ready_s: float, cpu_s: Callable[[], float]
) -> dict[str, Any]:
    base, members = made.directory, made.members
    drawn = trial.draw(members, casts, seed)
    every = [*made.fixtures(), *made.folders()]
    messages, sent = trial.traffic(base, every)
    begun, cpu = time.monotonic(), cpu_s()
    receipts = trial.cast_all(base, drawn)
    took_s, cpu = time.monotonic() - begun, cpu_s() - cpu
    messages_after, sent_after = trial.traffic(base, every)
    made_us = trial.casts_made_us(base, members)
    named = {}
    for each, receipt in zip(drawn, receipts, strict=True):
        _, incarnation, serial = receipt["cast"].split(".")
        named[each.number] = made_us.get((each.publisher, int(incarnation), int(serial)), 0)
    verdict = trial.judge(
        base, drawn, receipts, members, {number: at for number, at in named.items() if at}
    )
    return {
        "design": made.design,
        "nodes": len(every),
        "casts": casts,
        **{
            each: getattr(verdict, each)
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


def _verdict(outcome: dict[str, Any]) -> str:
    return (
        f"{outcome['design']}: {outcome['nodes']} nodes, {outcome['casts']} casts: {outcome['delivered']} of "
        f"{outcome['due']} delivered, {outcome['wrong']} wrong, {outcome['twice']} twice; {outcome['receipts_exact']} "
        f"receipts exact; p50 {outcome['latency_ms']['p50']} ms, p99 {outcome['latency_ms']['p99']} ms; "
        f"ready after {outcome['seconds_to_ready']} s"
    )


def _progress(as_json: bool) -> Callable[[int, int], None]:
    shown = sys.stderr.isatty() and not as_json

    def show(done: int, of: int) -> None:
        if shown:
            click.echo(f"\r{done} of {of} nodes are in and registered", nl=done == of, err=True)

    return show


def _welcome(made: Local, seconds: float, pages: Pages | None) -> None:
    click.echo(
        f"{len(made.members)} nodes of {made.design} are up after {seconds:.1f} s, in {made.directory}\n"
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
