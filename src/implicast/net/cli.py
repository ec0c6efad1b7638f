"""The commands of the live network: `local`, `node`, `authority`, and what one asks of a running node."""

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from implicast.front.pairs import pairs
from implicast.front.people import read_people
from implicast.net import control, places, trial
from implicast.net.authority import CertificateAuthority
from implicast.net.config import read_config, write_config
from implicast.net.enrolment import enrol
from implicast.net.identity import own_key, pem
from implicast.net.local import Local, Processes, Someone, StartError, Tasks, attend, everybody, is_running
from implicast.net.node import PAYLOAD_MAX
from implicast.net.record import replay
from implicast.peer.errors import ParameterError

_node = click.option("--node", "name", metavar="NAME", help="Which node; the first of the local network by default.")
_dir = click.option("--dir", "directory", type=click.Path(path_type=Path), help="The folder of the network or node.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, a line each where there are many.")
_authority = click.option("--authority", "directory", type=click.Path(path_type=Path), required=True,
                          help="The authority's folder.")  # fmt: skip
_debug = click.option("--debug", is_flag=True, help="Show the traceback of an error.")


@click.command("local")
@click.argument("count", type=click.IntRange(1, 500), default=20)
@click.option("--design", default="spice-unloaded", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design.")
@click.option("--peers-from", "people", type=click.Path(path_type=Path), help="Who there is, instead of COUNT.")
@click.option("--in-process", is_flag=True, help="Nodes as tasks of one process instead of a process each.")
@click.option("--plain", is_flag=True, help="Without TLS.")
@click.option("--journal", is_flag=True, help="Nodes write down what they see, for `implicast journal`.")
@click.option("--casts", default=0, help="Make so many casts, judge them, and stop.")
@click.option("--seed", default=1, show_default=True, help="Of the casts.")
@_dir
@_json
@_debug
def local_command(
    count: int, design: str, settings: tuple[str, ...], people: Path | None, in_process: bool, plain: bool,
    journal: bool, casts: int, seed: int, directory: Path | None, as_json: bool, debug: bool,
) -> None:  # fmt: skip
    """Start a network of COUNT nodes on this machine, with its own authority, and say who is what.

    \b
    implicast local 20                            in one terminal
    implicast cast "gpu & eu" -m "hello"          in another
    implicast inbox --node n01 --follow           in a third
    """
    members = everybody(count) if people is None else [
        Someone(each.name, each.text) for each in read_people(people).persons
    ]  # fmt: skip
    where = (directory or places.local()).expanduser()
    if is_running(where):
        raise StartError(f"a network is running in {where}: stop it first, or name another folder with --dir")
    made = Local(where, design, members, pairs(settings), plain, not casts, journal)
    _quiet()
    made.lay_out()
    (where / "local.pid").write_text(str(os.getpid()))
    try:
        if in_process:
            outcome = asyncio.run(_in_process(made, casts, seed, as_json))
        else:
            outcome = _as_processes(made, casts, seed, as_json)
    finally:
        (where / "local.pid").unlink(missing_ok=True)
    if outcome is not None:
        click.echo(json.dumps(outcome, indent=2) if as_json else _verdict(outcome))
        if outcome["missing"] or outcome["wrong"] or outcome["twice"]:
            raise SystemExit(1)


def _as_processes(made: Local, casts: int, seed: int, as_json: bool) -> dict[str, Any] | None:
    processes = Processes(made)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        seconds = processes.start_all(_progress(as_json))
        if not casts:
            _welcome(made, seconds)
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


async def _in_process(made: Local, casts: int, seed: int, as_json: bool) -> dict[str, Any] | None:
    tasks = Tasks(made)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        seconds = await tasks.start_all(_progress(as_json))
        if not casts:
            _welcome(made, seconds)
            await asyncio.Event().wait()
        found: dict[str, Any] = await trial.in_thread(_tried, made, casts, seed, seconds, time.process_time)
        return found
    except asyncio.CancelledError:
        return None
    finally:
        await tasks.stop()


def _tried(made: Local, casts: int, seed: int, ready_s: float, cpu_s: Callable[[], float]) -> dict[str, Any]:
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
        _, life, serial = receipt["cast"].split(".")
        named[each.number] = made_us.get((each.publisher, int(life), int(serial)), 0)
    verdict = trial.judge(base, drawn, receipts, members, {number: at for number, at in named.items() if at})
    return {
        "design": made.design,
        "nodes": len(every),
        "casts": casts,
        **{each: getattr(verdict, each) for each in
           ("due", "delivered", "missing", "wrong", "twice", "receipts_exact", "latency_ms")},
        "messages": messages_after - messages,
        "bytes": sent_after - sent,
        "seconds_to_ready": round(ready_s, 2),
        "seconds": round(took_s, 2),
        "cpu_s": round(cpu, 2),
        "tls": not made.plain,
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }  # fmt: skip


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


def _welcome(made: Local, seconds: float) -> None:
    click.echo(f"{len(made.members)} nodes of {made.design} are up after {seconds:.1f} s, in {made.directory}\n")
    width = max(len(each.name) for each in made.members)
    for each in made.members:
        click.echo(f"  {each.name:{width}}  {each.text}")
    click.echo('\nIn another terminal:\n  implicast cast "gpu & eu" -m "hello"\n  implicast inbox --node '
               f"{made.members[0].name} --follow\nCtrl-C stops the network.")  # fmt: skip


def _quiet() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")


@click.command("node")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--network", help="The network's name, for a new node.")
@click.option("--design", help="How casts are carried; all nodes of a network agree on it.")
@click.option("--role", help="member (the default), or a piece of infrastructure: server, broker, authority.")
@click.option("--listen", metavar="HOST:PORT")
@click.option("--advertise", metavar="HOST:PORT", help="Where others reach it, if that is not where it listens.")
@click.option("--join", multiple=True, metavar="HOST:PORT", help="Nodes of the network that are there already.")
@click.option("--serves", multiple=True, metavar="ROLE=HOST:PORT", help="Where the infrastructure is.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design.")
@click.option("--describe", "said", help="What the node says of itself when it has said nothing yet.")
@click.option("--plain", is_flag=True, default=None, help="Without TLS.")
@click.option("--journal", is_flag=True, default=None, help="Write down what it sees, for `implicast journal`.")
@click.option("--record", type=click.Path(path_type=Path), help="Write all inputs to a file, for `replay-node`.")
@click.option("--log", "level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True)
@_debug
def node_command(
    directory: Path, said: str | None, record: Path | None, level: str, debug: bool, **given: Any
) -> None:
    """Run the node of a folder until it is stopped; options are written into its node.toml."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    directory = directory.expanduser()
    _configure(directory, given)
    try:
        asyncio.run(_attended(directory, said, record))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _configure(directory: Path, given: dict[str, Any]) -> None:
    from implicast.net.config import ConfigError, NodeConfig

    try:
        config = read_config(directory)
    except ConfigError:
        if (directory / "node.toml").exists() or not given["network"]:
            raise
        config = NodeConfig(given["network"])
    for name in ("network", "design", "role", "listen", "advertise", "plain", "journal"):
        if given[name] is not None:
            setattr(config, name, given[name])
    config.join = list(given["join"]) or config.join
    config.parameters = {**config.parameters, **pairs(given["settings"])}
    for word in given["serves"]:
        role, equals, where = word.partition("=")
        if not equals:
            raise ParameterError(f"--serves {word}: expected ROLE=HOST:PORT, like server=192.0.2.7:7070")
        config.infrastructure.setdefault(role, [])
        if where not in config.infrastructure[role]:
            config.infrastructure[role].append(where)
    write_config(directory, config)


async def _attended(directory: Path, said: str | None, record: Path | None) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    log = logging.getLogger("implicast")
    try:
        up = partial(log.info, "%s is up: %s")
        await attend(directory, said, lambda node: up(node.status()["address"], node.name.hex()), record)
    except asyncio.CancelledError:
        log.info("stopped")


@click.command("replay-node")
@click.argument("path", type=click.Path(path_type=Path))
@_json
@_debug
def replay_node_command(path: Path, as_json: bool, debug: bool) -> None:
    """Feed the recorded inputs of a node to a fresh peer, and compare what it sends, byte for byte."""
    went = replay(path)
    if as_json:
        click.echo(json.dumps(asdict(went)))
    else:
        same = "the same bytes were sent" if went.differs_at is None else f"other bytes after input {went.differs_at}"
        click.echo(f"{went.messages} messages, {went.alarms} alarms, {went.verbs} verbs: {same}")
    if went.differs_at is not None:
        raise SystemExit(1)


@click.command("cast")
@click.argument("target")
@click.option("-m", "--message", help="What is said.")
@click.option("--file", "path", type=click.Path(path_type=Path), help="A file that is sent; - reads standard input.")
@click.option("--wait", default=5.0, show_default=True, help="Seconds to wait for the receipt.")
@_node
@_dir
@_json
@_debug
def cast_command(
    target: str, message: str | None, path: Path | None, wait: float, name: str | None, directory: Path | None,
    as_json: bool, debug: bool,
) -> None:  # fmt: skip
    """Send a message to whoever TARGET describes, and print the receipt. Exit code 1 when somebody did not answer."""
    payload = _payload(message, path)
    request = {"do": "cast", "target": target, "payload": payload.hex(), "wait": wait}
    (receipt,) = control.ask(places.node(name, directory), request, wait + 30)
    click.echo(json.dumps(receipt, indent=2) if as_json else _receipt_text(receipt))
    if receipt["unreachable"] or not receipt["complete"]:
        raise SystemExit(1)


def _payload(message: str | None, path: Path | None) -> bytes:
    if message is not None and path is not None:
        raise ParameterError("-m and --file are two messages: give one")
    if path is None:
        return (message or "").encode()
    try:
        payload = sys.stdin.buffer.read(PAYLOAD_MAX + 1) if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(payload) > PAYLOAD_MAX:
        raise ParameterError(f"{path} has more than {PAYLOAD_MAX} bytes, which is all that travels inside a cast")
    return payload


def _receipt_text(receipt: dict[str, Any]) -> str:
    if receipt["complete"] and not receipt["expected"]:
        return "nobody matched"
    parts = [f"{receipt['notified']} of {receipt['expected']} notified"]
    parts += [f"{receipt[each]} {each}" for each in ("declined", "unreachable", "open") if receipt[each]]
    parts += ["did not answer: " + ", ".join(name[:8] for name in receipt["silent"])] * bool(receipt["silent"])
    parts += ["not known yet what became of it; `implicast receipts` says later"] * (not receipt["complete"])
    return "; ".join(parts)


@click.command("inbox")
@click.option("--follow", is_flag=True, help="Go on as messages arrive.")
@click.option("--keep", is_flag=True, help="Do not mark them as done: they are shown again.")
@_node
@_dir
@_json
@_debug
def inbox_command(follow: bool, keep: bool, name: str | None, directory: Path | None, as_json: bool,
                  debug: bool) -> None:  # fmt: skip
    """Show what has arrived at a node and is not done yet."""
    request = {"do": "inbox", "follow": follow, "keep": keep}
    try:
        for note in control.ask(places.node(name, directory), request, None if follow else 60.0):
            click.echo(json.dumps(note) if as_json else _note_text(note))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _note_text(note: dict[str, Any]) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(note["arrived_us"] / 1e6))
    said = note["text"] if note["text"] is not None else f"{len(note['payload']) // 2} bytes"
    shown = "".join(each if each.isprintable() else "�" for each in said)
    return f"{when}  from {note['publisher'][:8]}  {shown}"


def _asking(name: str, help_text: str, request: dict[str, Any], show: Callable[[dict[str, Any]], str]) -> click.Command:
    """A command that asks a node one thing and prints the answers."""

    @click.command(name, help=help_text)
    @_node
    @_dir
    @_json
    @_debug
    def command(name: str | None, directory: Path | None, as_json: bool, debug: bool) -> None:
        for answer in control.ask(places.node(name, directory), request):
            click.echo(json.dumps(answer) if as_json else show(answer))

    return command


def _status_text(status: dict[str, Any]) -> str:
    shown = {key: value for key, value in status.items() if key != "counters"}
    counted = {key: value for key, value in status["counters"].items() if value}
    return "\n".join([f"{key:12} {value}" for key, value in shown.items()]
                     + [f"{key:22} {value:,}" for key, value in counted.items()])  # fmt: skip


def _receipts_text(row: dict[str, Any]) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(row["made_us"] / 1e6))
    if "notified" not in row:
        return f"{when}  {row['target']}  unknown yet"
    return f"{when}  {row['target']}  {row['notified']} of {row['expected']} notified, {row['open']} open"


status_command = _asking("status", "What there is to know about a node.", {"do": "status"}, _status_text)
peers_command = _asking("peers", "Who a node is connected with.", {"do": "peers"},
                        lambda each: f"{each['name'][:8]}  {each['address']}")  # fmt: skip
receipts_command = _asking("receipts", "What became of a node's casts.", {"do": "receipts"}, _receipts_text)
leave_command = _asking("leave", "Let a node hand over what it keeps for others, and go.", {"do": "leave"},
                        lambda answer: "left")  # fmt: skip


@click.command("describe")
@click.argument("text")
@_node
@_dir
@_json
@_debug
def describe_command(text: str, name: str | None, directory: Path | None, as_json: bool, debug: bool) -> None:
    """Say what a node is, in place of what it said before."""
    (answer,) = control.ask(places.node(name, directory), {"do": "describe", "text": text})
    click.echo(json.dumps(answer) if as_json else f"registered: {answer['description']}")


@click.group("authority")
def authority_command() -> None:
    """The authority of a network: who belongs to it."""


@authority_command.command("init")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", "network", required=True, help="The network's name.")
def authority_init(directory: Path, network: str) -> None:
    """Make a new authority in a folder."""
    CertificateAuthority.init(directory.expanduser(), network).close()
    click.echo(f"{directory}: the authority of {network}. Keep authority.key to yourself; give authority.pem to nodes.")


@authority_command.command("issue")
@click.argument("label")
@_authority
@click.option("--node", "folder", type=click.Path(path_type=Path), required=True, help="The node's folder.")
@click.option("--role", default="member", show_default=True, help="`authority` for the node that plays it in bft.")
def authority_issue(label: str, directory: Path, folder: Path, role: str) -> None:
    """Admit the node of a folder under a LABEL: its key is made there, its certificate is put beside it."""
    authority = CertificateAuthority.open(directory.expanduser())
    certificate = authority.issue(label, own_key(folder.expanduser() / "node.key").public_key())
    (folder.expanduser() / "node.pem").write_bytes(pem(certificate))
    (folder.expanduser() / "authority.pem").write_bytes(pem(authority.root))
    enrol(directory.expanduser(), folder.expanduser(), role)
    authority.close()
    click.echo(f"{label} is admitted until {certificate.not_valid_after_utc:%Y-%m-%d}")


@authority_command.command("revoke")
@click.argument("label")
@_authority
def authority_revoke(label: str, directory: Path) -> None:
    """All certificates of LABEL count no more."""
    authority = CertificateAuthority.open(directory.expanduser())
    for name in authority.revoke(label):
        click.echo(f"{name.hex()} is revoked")
    authority.close()


@authority_command.command("list")
@_authority
@_json
def authority_list(directory: Path, as_json: bool) -> None:
    """Who was admitted."""
    authority = CertificateAuthority.open(directory.expanduser())
    for each in authority.admitted():
        row = {"serial": each.serial, "label": each.label, "name": each.name.hex(), "until": each.until,
               "revoked": each.revoked}  # fmt: skip
        click.echo(json.dumps(row) if as_json else f"{each.serial:5}  {each.label:20} {row['name']}  until "
                   f"{each.until[:10]}{'  revoked' * each.revoked}")  # fmt: skip
    authority.close()
