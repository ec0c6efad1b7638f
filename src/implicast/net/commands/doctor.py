"""The commands `doctor`, `backup` and `restore`."""

import contextlib
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from implicast.net.commands import control
from implicast.net.commands.options import debug_option, json_option
from implicast.net.commands.snapshot import folders
from implicast.net.config import address_of, software
from implicast.net.observation.examination import CheckResult, Verdict, examine
from implicast.net.storage.backup import back_up, restore, salvage
from implicast.net.storage.store import Store
from implicast.net.transport.clock import REFUSE_S, WARN_S

CONNECT_S = 2.0
REACHED_MAX = 16
"""Neighbours to which the doctor connects."""


@click.command("doctor")
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option(
    "--salvage", "salvages", is_flag=True, help="Replace a damaged database by its readable rows."
)
@click.option("--acknowledge", is_flag=True, help="Forget the losses that were noticed.")
@json_option
@debug_option
def doctor_command(
    directory: Path | None, salvages: bool, acknowledge: bool, as_json: bool, debug: bool
) -> None:
    """Check a node, or all nodes of a network's folder: one line for each check.

    Exit code 0: all is well; 1: there are warnings; 2: a check failed. The node may run or not.
    """
    worst = Verdict.OK
    for folder in folders(directory.expanduser() if directory is not None else None):
        if salvages:
            kept = salvage(folder)
            click.echo(f"{folder.name}: kept {sum(kept.values())} rows", err=True)
        if acknowledge:
            click.echo(f"{folder.name}: {_acknowledge(folder)} losses acknowledged", err=True)
        for finding in all_findings(folder):
            _show(folder, finding, as_json)
            worst = max(worst, finding.verdict, key=list(Verdict).index)
    raise SystemExit(list(Verdict).index(worst))


def _show(folder: Path, finding: CheckResult, as_json: bool) -> None:
    if as_json:
        row = {"node": folder.name, **msgspec.to_builtins(finding)}
        click.echo(json.dumps(row))
    else:
        click.echo(f"{folder.name:12} {finding.check:14} {finding.verdict:8} {finding.text}")


def _acknowledge(folder: Path) -> int:
    """Forget the losses, through the running node or in the database."""
    try:
        answer = next(control.ask(folder, {"do": "acknowledge"}))
        return int(answer["acknowledged"])
    except control.ControlError:
        store = Store(folder / "node.db")
        try:
            return store.acknowledge_losses()
        finally:
            store.close()


def all_findings(folder: Path) -> Iterator[CheckResult]:
    """The checks of a folder, and of its node if that runs."""
    yield from examine(folder)
    try:
        status = next(control.ask(folder, {"do": "status"}, 5.0))
        peers = list(control.ask(folder, {"do": "peers"}, 5.0))
    except control.ControlError:
        yield CheckResult("process", Verdict.FAILED, "no node is running in this folder")
        return
    yield CheckResult("process", Verdict.OK, f"up for {status['up_s']:.0f} s")
    yield _version(status)
    yield _port(status)
    yield _clock(status)
    yield from _membership(status)
    yield _neighbours(status, peers)


def _version(status: dict[str, Any]) -> CheckResult:
    if status["software"] != software():
        text = f"the node runs {status['software']}, this command is {software()}: restart the node"
        return CheckResult("version", Verdict.WARNING, text)
    return CheckResult("version", Verdict.OK, software())


def _port(status: dict[str, Any]) -> CheckResult:
    address = status["address"]
    if answers(address):
        return CheckResult("port", Verdict.OK, f"{address} accepts connections")
    return CheckResult("port", Verdict.FAILED, f"{address} accepts no connection")


def answers(address: str) -> bool:
    """True if a connection to an address can be opened."""
    with contextlib.suppress(OSError), socket.create_connection(address_of(address), CONNECT_S):
        return True
    return False


def _clock(status: dict[str, Any]) -> CheckResult:
    off_s, jumped_s = abs(status["clock_offset_s"]), abs(status["clock_jumped_s"])
    text = f"{off_s:.3f} s off the neighbours' clocks, jumped {jumped_s:.3f} s since the start"
    worst = max(off_s, jumped_s)
    verdict = (
        Verdict.FAILED if worst >= REFUSE_S else Verdict.WARNING if worst >= WARN_S else Verdict.OK
    )
    return CheckResult("clock", verdict, text)


def _membership(status: dict[str, Any]) -> Iterator[CheckResult]:
    if status["revoked"]:
        yield CheckResult("membership", Verdict.FAILED, "this node was revoked")
    elif not status["joined"]:
        yield CheckResult("membership", Verdict.FAILED, "the node is not in the network")
    else:
        yield CheckResult("membership", Verdict.OK, f"in the network {status['network']}")
    if status["role"] == "member":
        described = status["description"]
        verdict = Verdict.OK if status["registered"] else Verdict.WARNING
        text = f"registered: {described}" if status["registered"] else "not registered"
        yield CheckResult("registration", verdict, text)
    if status["disk_full"]:
        yield CheckResult("writes", Verdict.FAILED, "the disk is full: nothing is acknowledged")


def _neighbours(status: dict[str, Any], peers: list[dict[str, Any]]) -> CheckResult:
    known = [each["address"] for each in peers][:REACHED_MAX]
    reached = sum(map(answers, known))
    text = f"{reached} of {len(known)} connected nodes accept connections"
    if not known:
        return CheckResult("neighbours", Verdict.WARNING, "connected to no other node")
    verdict = (
        Verdict.OK if reached == len(known) else Verdict.WARNING if reached else Verdict.FAILED
    )
    return CheckResult("neighbours", verdict, text)


# --- backups


@click.command("backup")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@debug_option
def backup_command(directory: Path, file: Path, as_json: bool, debug: bool) -> None:
    """Write the folder DIRECTORY of a node into one FILE: database, configuration, keys, payloads.

    The node may run. The backup contains all that the node has acknowledged before it begins.
    """
    about = back_up(directory.expanduser(), file.expanduser())
    click.echo(json.dumps(about) if as_json else f"{file}: {_text(about)}")


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Move a database that is in the folder aside.")
@json_option
@debug_option
def restore_command(file: Path, directory: Path, replace: bool, as_json: bool, debug: bool) -> None:
    """Restore the folder DIRECTORY of a node from a backup FILE.

    When the node starts, it asks the other members for the casts since the backup.
    """
    about = restore(file.expanduser(), directory.expanduser(), replace)
    click.echo(json.dumps(about) if as_json else f"{directory}: {_text(about)}")


def _text(about: dict[str, Any]) -> str:
    when = datetime.fromtimestamp(about["time_us"] / 1e6, UTC)
    return f"{about['notices']} messages, commit {about['commit']} of {when:%Y-%m-%d %H:%M:%S} UTC"
