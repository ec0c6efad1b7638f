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
    FORMS,
    LEVELS,
    ConfigError,
    NodeConfig,
    address_of,
    read_config,
    write_config,
)
from implicast.net.environment import variable_of, with_environment
from implicast.net.node import Node
from implicast.net.observation.logs import log_to_stderr
from implicast.peer.errors import ImplicastError, ParameterError
from implicast.web.pages import page_of

log = logging.getLogger("implicast")


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
@click.option("--log", type=click.Choice(LEVELS), help="Level of the log; `info` by default.")
@click.option(
    "--log-format", type=click.Choice(FORMS), help="Form of log lines; `text` by default."
)
@web_option
@debug_option
def node_command(
    directory: Path,
    describe_as: str | None,
    record: Path | None,
    web: int | None,
    debug: bool,
    **given: Any,
) -> None:
    """Run the node of a folder until it is stopped. The options are written into its node.toml.

    SIGTERM and Ctrl-C stop the node. SIGHUP makes it read its configuration, its certificate and
    its revocation list again. Environment variables like IMPLICAST_LISTEN replace values of
    node.toml; options replace both.
    """
    directory = directory.expanduser()
    _write_options(directory, given)
    config = _effective(directory, given)
    log_to_stderr(config.log, config.log_format)
    page = no_page if web is None else page_of(directory, web)
    running = _Running(directory, given)
    try:
        asyncio.run(running.serve(config, describe_as, record, page))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


KEYS = (
    *("network", "design", "role", "listen", "advertise", "plain", "authority", "proxy", "journal"),
    *("metrics", "log", "log_format"),
)
"""Keys of `node.toml` that options set as they are."""


def _write_options(directory: Path, given: dict[str, Any]) -> None:
    """Write the options into `node.toml`."""
    try:
        config = read_config(directory)
    except ConfigError:
        network = given["network"] or os.environ.get(variable_of("network"))
        if (directory / "node.toml").exists() or not network:
            raise
        config = NodeConfig(network)
    if given["metrics"]:
        address_of(given["metrics"])
    _apply(config, given)
    write_config(directory, config)


def _effective(directory: Path, given: dict[str, Any]) -> NodeConfig:
    """`node.toml`, replaced by the environment, replaced by the options."""
    config = with_environment(read_config(directory))
    _apply(config, given)
    return config


def _apply(config: NodeConfig, given: dict[str, Any]) -> None:
    for name in KEYS:
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


class _Running:
    """The node that the command runs."""

    def __init__(self, directory: Path, given: dict[str, Any]) -> None:
        self._directory, self._given = directory, given
        self._node: Node | None = None

    async def serve(
        self, config: NodeConfig, describe_as: str | None, record: Path | None, page: Page
    ) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        try:
            await serve_node(self._directory, describe_as, self._on_ready, record, page, config)
        except asyncio.CancelledError:
            notify("STOPPING=1")
            log.info("stopped")

    def _on_ready(self, node: Node) -> None:
        """Log that the node has joined, and notify systemd if it waits for that."""
        self._node = node
        freeze_heap()
        where = node.status()["address"]
        log.info("%s is up: %s", where, node.name.hex())
        notify(f"READY=1\nSTATUS={node.design.name} at {where}")

    def _reload(self) -> None:
        """Read configuration, certificate and revocation list again."""
        try:
            config = _effective(self._directory, self._given)
        except ImplicastError as error:
            log.warning("SIGHUP: nothing was reloaded: %s", error)
            return
        log_to_stderr(config.log, config.log_format)
        if self._node is None:
            log.info("SIGHUP: reloaded the log settings; the node has not joined yet")
            return
        changed, waiting = self._node.reload(config)
        log.info("SIGHUP: reloaded: %s", ", ".join(changed) or "no value changed")
        if waiting:
            log.warning("a restart is needed for: %s", ", ".join(waiting))


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
