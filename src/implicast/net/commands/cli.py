"""Commands for a running node: `cast`, `inbox`, `describe`, `receipts`, `status`, `watch`, and
so on.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from implicast.net.commands import control, locations
from implicast.net.commands.options import debug_option, dir_option, json_option, node_option
from implicast.net.commands.snapshot import folders, take_snapshot
from implicast.net.storage.blobs import INLINE_MAX
from implicast.peer.errors import ParameterError
from implicast.peer.expiry import LIFETIME_MAX_US


@click.command("cast")
@click.argument("target")
@click.option("-m", "--message", help="The message.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="A file to send; - reads standard input.",
)
@click.option("--wait", default=5.0, show_default=True, help="Seconds to wait for the receipt.")
@click.option(
    "--verified",
    is_flag=True,
    help="This node also checks the registrations of the selected members (ring designs).",
)
@click.option(
    "--expires",
    help="Lifetime: no peer sends the cast later. A number with its unit, like 90s, 15m, 12h or 7d; "
    "at most 30d. Default: ttl_s of node.toml, 24h if it is not set.",
)
@node_option
@dir_option
@json_option
@debug_option
def cast_command(
    target: str,
    message: str | None,
    path: Path | None,
    wait: float,
    verified: bool,
    expires: str | None,
    name: str | None,
    directory: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Send a message to all members that TARGET selects, and print the receipt. Exit code 1 if a
    member did not answer.

    Up to 32 KiB travel inside the cast. A larger file, up to 16 MiB, is fetched by the receivers,
    from this node and from each other. The command shows how many have it, and returns when all do
    or when --wait is over; the transfers continue.
    """
    request = {
        "do": "cast",
        "target": target,
        "wait": wait,
        "verified": verified,
        **({} if expires is None else {"expires_s": lifetime_s(expires)}),
        **_payload(message, path),
    }
    receipt: dict[str, Any] = {}
    for answer in control.ask(locations.node(name, directory), request, wait + 30):
        if "fetched" in answer:
            _show_fetched(answer["fetched"], as_json)
            receipt = answer
        else:
            receipt = {**receipt, **answer}
    click.echo(json.dumps(receipt, indent=2) if as_json else receipt_text(receipt))
    if receipt["unreachable"] or not receipt["complete"]:
        raise SystemExit(1)


def duration_s(option: str, text: str) -> float:
    """Read a duration like 90s, 15m, 12h or 7d, in seconds."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    number, unit = text[:-1], text[-1:]
    if unit not in units or not number.replace(".", "", 1).isdecimal():
        raise ParameterError(
            f"{option} {text}: write a number with its unit, like 90s, 15m, 12h or 7d"
        )
    return float(number) * units[unit]


def lifetime_s(text: str) -> float:
    """Read the lifetime of a cast, in seconds."""
    lifetime = duration_s("--expires", text)
    if not 0 < lifetime * 1e6 <= LIFETIME_MAX_US:
        raise ParameterError(f"--expires {text}: more than 0s and at most 30d are possible")
    return lifetime


def _show_fetched(fetched: dict[str, int], as_json: bool) -> None:
    if sys.stderr.isatty() and not as_json:
        whole = fetched["have"] >= fetched["expected"]
        shown_text = (
            f"{fetched['have']} of {fetched['expected']} have all {fetched['size']:,} bytes"
        )
        click.echo("\r" + shown_text, nl=whole, err=True)


def _payload(message: str | None, path: Path | None) -> dict[str, str]:
    """The payload part of a request: a payload, or a file that the node reads itself."""
    if message is not None and path is not None:
        raise ParameterError("-m and --file are two messages: give one")
    if path is None:
        return {"payload": (message or "").encode().hex()}
    if str(path) != "-":
        return {"file": str(path.expanduser().resolve()), "name": path.name}
    payload = sys.stdin.buffer.read(INLINE_MAX + 1)
    if len(payload) > INLINE_MAX:
        raise ParameterError(f"more than {INLINE_MAX} bytes on standard input: send a file")
    return {"payload": payload.hex()}


def receipt_text(receipt: dict[str, Any]) -> str:
    if receipt["complete"] and not receipt["expected"]:
        return "no member matched"
    parts = [f"{receipt['notified']} of {receipt['expected']} notified"]
    parts += [
        f"{receipt[each]} {each}" for each in ("declined", "unreachable", "open") if receipt[each]
    ]
    parts += [f"members of {receipt['uncertain']} regions of the overlay are not known"] * bool(
        receipt["uncertain"]
    )
    parts += ["did not answer: " + ", ".join(name[:8] for name in receipt["silent"])] * bool(
        receipt["silent"]
    )
    if "fetched" in receipt and receipt["fetched"]["have"] < receipt["fetched"]["expected"]:
        parts.append(f"{receipt['fetched']['have']} have fetched it so far")
    if receipt["open"] or not (receipt["complete"] or receipt["uncertain"]):
        parts.append("the receipt is not complete yet; `implicast receipts` shows it later")
    return "; ".join(parts)


@click.command("inbox")
@click.option("--follow", is_flag=True, help="Continue as messages arrive.")
@click.option("--since", help="Only messages that arrived in this time, like 90s, 15m, 12h or 7d.")
@click.option("--from", "sender", help="Only messages of this publisher; the start of its name.")
@click.option("--limit", type=click.IntRange(min=1), help="End after so many messages.")
@click.option(
    "--keep", is_flag=True, help="Do not mark the messages as done; they are shown again."
)
@node_option
@dir_option
@json_option
@debug_option
def inbox_command(
    follow: bool,
    since: str | None,
    sender: str | None,
    limit: int | None,
    keep: bool,
    name: str | None,
    directory: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Show the messages that have arrived at a node and are not done. With --follow, continue also
    after a restart of the node.
    """
    request = {
        "do": "inbox",
        "follow": follow,
        "keep": keep,
        "from": sender,
        "limit": limit,
        "since_s": None if since is None else duration_s("--since", since),
    }
    try:
        for note in inbox_messages(locations.node(name, directory), request):
            click.echo(json.dumps(note) if as_json else _message_text(note))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def inbox_messages(folder: Path, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The node's inbox messages, each once. A restarted node hands out again the messages that are
    not done; the repeats are skipped.
    """
    shown: set[str] = set()
    while True:
        try:
            for note in control.ask(folder, request, None if request["follow"] else 60.0):
                if note["cast"] not in shown:
                    shown.add(note["cast"])
                    yield note
            return
        except control.StoppedError as stopped:
            if not request["follow"]:
                raise
            click.echo(f"{stopped}: waiting until it restarts", err=True)
            control.wait_until_up(folder)


def _message_text(note: dict[str, Any]) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(note["arrived_us"] / 1e6))
    shown_text = note["text"] if note["text"] is not None else f"{note['bytes']:,} bytes"
    if note["file"] is not None:
        shown_text = f"{note['name'] or 'a file'}, {shown_text}: {note['file']}"
    shown = "".join(each if each.isprintable() else "�" for each in shown_text)
    return f"{when}  from {note['publisher'][:8]}  {shown}"


def _asking(
    name: str, help_text: str, request: dict[str, Any], show: Callable[[dict[str, Any]], str]
) -> click.Command:
    """A command that sends one request to a node and prints the answers."""

    @click.command(name, help=help_text)
    @node_option
    @dir_option
    @json_option
    @debug_option
    def command(name: str | None, directory: Path | None, as_json: bool, debug: bool) -> None:
        for answer in control.ask(locations.node(name, directory), request):
            click.echo(json.dumps(answer) if as_json else show(answer))

    return command


def _status_text(status: dict[str, Any]) -> str:
    shown = {key: value for key, value in status.items() if key != "counters"}
    counted = {key: value for key, value in status["counters"].items() if value}
    return "\n".join(
        [f"{key:12} {value}" for key, value in shown.items()]
        + [f"{key:22} {value:,}" for key, value in counted.items()]
    )


def _receipts_text(row: dict[str, Any]) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(row["made_us"] / 1e6))
    if "notified" not in row:
        return f"{when}  {row['target']}  no receipt yet"
    counts = f"{row['notified']} of {row['expected']} notified, {row['open']} open"
    return f"{when}  {row['target']}  {counts}"


status_command = _asking("status", "Show the status of a node.", {"do": "status"}, _status_text)
peers_command = _asking(
    "peers",
    "List the nodes that a node is connected to.",
    {"do": "peers"},
    lambda each: f"{each['name'][:8]}  {each['address']}",
)
leave_command = _asking(
    "leave",
    "Let a node hand over the data it stores for others, and leave.",
    {"do": "leave"},
    lambda answer: "left",
)


@click.command("receipts")
@click.option("--since", help="Only casts made in this time, like 90s, 15m, 12h or 7d.")
@click.option("--open", "open_only", is_flag=True, help="Only casts whose receipt is not final.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many; 100 by default.")
@node_option
@dir_option
@json_option
@debug_option
def receipts_command(
    since: str | None,
    open_only: bool,
    limit: int | None,
    name: str | None,
    directory: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Show the receipts of a node's casts, newest first."""
    request = {
        "do": "receipts",
        "limit": limit,
        "open": open_only,
        "since_s": None if since is None else duration_s("--since", since),
    }
    for row in control.ask(locations.node(name, directory), request):
        click.echo(json.dumps(row) if as_json else _receipts_text(row))


@click.command("describe")
@click.argument("text")
@node_option
@dir_option
@json_option
@debug_option
def describe_command(
    text: str, name: str | None, directory: Path | None, as_json: bool, debug: bool
) -> None:
    """Set the description of a node. It replaces the previous one."""
    (answer,) = control.ask(locations.node(name, directory), {"do": "describe", "text": text})
    click.echo(json.dumps(answer) if as_json else f"registered: {answer['description']}")


@click.command("watch")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two snapshots.",
)
@dir_option
@debug_option
def watch_command(every_s: float, directory: Path | None, debug: bool) -> None:
    """Watch a network in the terminal: state of nodes, progress of casts, queues. `q` quits.

    \b
    implicast local 20            in one terminal
    implicast watch               in another
    """
    from implicast.net.commands.watch import WatchApp

    where = folders(directory.expanduser() if directory is not None else None)
    WatchApp(partial(take_snapshot, where), every_s).run()
