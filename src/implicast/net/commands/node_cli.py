"""The commands `node` and `replay-node`: run one node, and replay its record."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from implicast.front.pairs import pairs
from implicast.net.application.record import replay
from implicast.net.commands.local import Page, freeze_heap, no_page, serve_node
from implicast.net.commands.options import debug_option, json_option, web_option
from implicast.net.config import (
    ConfigError,
    NodeConfig,
    address_of,
    read_config,
    write_config,
)
from implicast.net.node import Node
from implicast.net.observation.logs import log_to_stderr
from implicast.peer.errors import ParameterError
from implicast.web.pages import page_of


@click.command("node")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--network", help="The network's name, for a new node.")
@click.option("--design", help="The design of the network; the same for all its nodes.")
@click.option("--role", help="member (the default), or infrastructure: server, broker, authority.")
@click.option("--listen", metavar="HOST:PORT")
@click.option(
    "--advertise",
    metavar="HOST:PORT",
    help="The address that other nodes use, if it differs from --listen.",
)
@click.option(
    "--join",
    multiple=True,
    metavar="HOST:PORT",
    help="A node that is already in the network; may be repeated.",
)
@click.option(
    "--serves",
    multiple=True,
    metavar="ROLE=HOST:PORT",
    help="Address of an infrastructure node; may be repeated.",
)
@click.option("--proxy", is_flag=True, default=None, help="Run stand-ins for light clients.")
@click.option(
    "--authority",
    metavar="HOST:PORT",
    help="Address of the authority service.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Parameters of the design."
)
@click.option("--describe", "describe_as", help="The node's description, if it has none yet.")
@click.option("--plain", is_flag=True, default=None, help="Without TLS.")
@click.option(
    "--journal",
    is_flag=True,
    default=None,
    help="Write a journal, for `implicast journal`.",
)
@click.option(
    "--metrics",
    metavar="PORT",
    help="Serve Prometheus metrics at a port on loopback, or at HOST:PORT.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    help="Write all inputs to a file, for `replay-node`.",
)
@click.option(
    "--log",
    "level",
    type=click.Choice(["debug", "info", "warning"]),
    default="info",
    show_default=True,
)
@web_option
@debug_option
def node_command(
    directory: Path,
    describe_as: str | None,
    record: Path | None,
    level: str,
    web: int | None,
    debug: bool,
    **given: Any,
) -> None:
    """Run the node of a folder until it is stopped. The options are written into its node.toml.

    SIGTERM and Ctrl-C stop the node. It ignores SIGHUP, because its log goes to standard error.
    """
    log_to_stderr(level)
    directory = directory.expanduser()
    _configure(directory, given)
    try:
        asyncio.run(
            _serve(
                directory, describe_as, record, no_page if web is None else page_of(directory, web)
            )
        )
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _configure(directory: Path, given: dict[str, Any]) -> None:
    try:
        config = read_config(directory)
    except ConfigError:
        if (directory / "node.toml").exists() or not given["network"]:
            raise
        config = NodeConfig(given["network"])
    if given["metrics"]:
        address_of(given["metrics"])
    for name in (
        "network",
        "design",
        "role",
        "listen",
        "advertise",
        "plain",
        "authority",
        "proxy",
        "journal",
        "metrics",
    ):
        if given[name] is not None:
            setattr(config, name, given[name])
    config.join = list(given["join"]) or config.join
    config.parameters = {**config.parameters, **pairs(given["settings"])}
    for given_role in given["serves"]:
        role, equals, where = given_role.partition("=")
        if not equals:
            raise ParameterError(
                f"--serves {given_role}: expected ROLE=HOST:PORT, like server=192.0.2.7:7070"
            )
        config.infrastructure.setdefault(role, [])
        if where not in config.infrastructure[role]:
            config.infrastructure[role].append(where)
    write_config(directory, config)


async def _serve(directory: Path, describe_as: str | None, record: Path | None, page: Page) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    log = logging.getLogger("implicast")
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    loop.add_signal_handler(signal.SIGHUP, log.info, "SIGHUP is ignored")
    try:
        await serve_node(directory, describe_as, _on_ready, record, page)
    except asyncio.CancelledError:
        notify("STOPPING=1")
        log.info("stopped")


def _on_ready(node: Node) -> None:
    """Log that the node has joined, and notify systemd if it waits for that."""
    freeze_heap()
    where = node.status()["address"]
    logging.getLogger("implicast").info("%s is up: %s", where, node.name.hex())
    notify(f"READY=1\nSTATUS={node.design.name} at {where}")


@click.command("replay-node")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="The node's folder, if the record is elsewhere.",
)
@json_option
@debug_option
def replay_node_command(path: Path, folder: Path | None, as_json: bool, debug: bool) -> None:
    """Replay the recorded inputs of a node to a new peer, and compare the bytes it sends."""
    went = replay(path, folder)
    if as_json:
        click.echo(json.dumps(asdict(went)))
    else:
        same = (
            "the same bytes were sent"
            if went.differs_at is None
            else f"other bytes after input {went.differs_at}"
        )
        click.echo(f"{went.messages} messages, {went.alarms} alarms, {went.verbs} verbs: {same}")
    if went.differs_at is not None:
        raise SystemExit(1)


def notify(text: str) -> None:
    """Send `READY=1`, `STOPPING=1` or `STATUS=...` to the socket that systemd named; do nothing if
    there is none.
    """
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect("\0" + where[1:] if where.startswith("@") else where)
        line.sendall(text.encode())
