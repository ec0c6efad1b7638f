"""The configuration of a node: its folder with `node.toml`.

DIR/node.toml       design, network, role, listen, join, parameters, infrastructure
DIR/node.key        the node's private key, created here
DIR/node.pem        its certificate               DIR/authority.pem   the network's root certificate
DIR/journal/        the journal, if `journal = true`
DIR/node.db         durable state, inbox, outbox  DIR/control.sock    the control socket
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from implicast.net.storage.files import make_private_folder, tighten, write_private
from implicast.peer.contract import Address
from implicast.peer.errors import LocalError
from implicast.peer.expiry import LIFETIME_MAX_US

LEVELS, FORMS = ("debug", "info", "warning"), ("text", "json")


class ConfigError(LocalError):
    """A folder or value is not valid; the text says what is."""


class NodeConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The content of `node.toml`."""

    network: str
    """Name of the network, the same for all its nodes."""
    design: str = "spice-unloaded"
    """Design of the network, the same for all its nodes (`implicast designs`)."""
    role: str = "member"
    """`member`, or a role of the infrastructure: `server`, `broker`, `authority`."""
    listen: str = "127.0.0.1:0"
    """Address at which the node accepts connections; port 0: any free port."""
    advertise: str = ""
    """The address at which other nodes reach this one, if it differs from `listen`."""
    join: list[str] = []
    """Addresses of nodes that are in the network."""
    parameters: dict[str, str | int | float | bool] = {}
    """Parameters of the design."""
    infrastructure: dict[str, list[str]] = {}
    """By role, the addresses of the infrastructure."""
    authority: str = ""
    """Address of the authority service (`implicast authority serve`), which renews certificates and
    distributes the revocation list.
    """
    plain: bool = False
    """Without TLS: for tests on one machine."""
    journal: bool = False
    """Write a journal, for `implicast journal`."""
    metrics: str = ""
    """Where Prometheus metrics are served: a port on loopback, or host:port. Empty: nowhere."""
    log: str = "info"
    """Level from which log lines are written: `debug`, `info` or `warning`."""
    log_format: str = "text"
    """Form of log lines: `text` or `json`."""
    rate_per_s: float = 2000.0
    """Messages per second that one connection may send, after a burst of the same number; 0: any
    number.
    """
    casts_per_s: float = 10.0
    """Casts per second that the node makes; 0: any number."""
    casts_burst: float = 50.0
    """Casts that the node makes at once before `casts_per_s` holds."""
    ttl_s: float = 86_400.0
    """Seconds from a cast of this node to its expiry, at most 30 days. No peer sends it later."""
    keep_s: float = 30 * 86_400.0
    """Seconds for which done messages and final receipts are kept."""
    proxy: bool = False
    """Run stand-ins for light clients."""
    payload_max: int = 16 << 20
    """Size in bytes of the largest payload that this node sends or fetches."""

    @property
    def roles(self) -> Mapping[str, tuple[Address, ...]]:
        return {role: tuple(map(address_of, where)) for role, where in self.infrastructure.items()}


def read_config(directory: Path) -> NodeConfig:
    path = directory / "node.toml"
    try:
        config = msgspec.convert(tomllib.loads(path.read_text()), NodeConfig, strict=False)
    except FileNotFoundError:
        raise ConfigError(f"{directory} is not a node's folder: it has no node.toml") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if config.log not in LEVELS or config.log_format not in FORMS:
        raise ConfigError(
            f"{path}: log is one of {', '.join(LEVELS)}, log_format one of {', '.join(FORMS)}"
        )
    if not 0 < config.ttl_s * 1e6 <= LIFETIME_MAX_US:
        raise ConfigError(
            f"{path}: ttl_s = {config.ttl_s:g}: casts expire after more than 0 and at most "
            f"{LIFETIME_MAX_US // 1_000_000} seconds (30 days)"
        )
    return config


def write_config(directory: Path, config: NodeConfig) -> None:
    """Write `node.toml`, with nested tables last."""
    plain: dict[str, Any] = msgspec.to_builtins(config)
    tables = {name: value for name, value in plain.items() if isinstance(value, dict)}
    lines = [f"{name} = {_toml(value)}" for name, value in plain.items() if name not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    make_private_folder(directory)
    tighten(directory)
    write_private(directory / "node.toml", "\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return msgspec.json.encode(value).decode() if isinstance(value, str) else repr(value)


def address_of(text: str) -> tuple[str, int]:
    """Parse `host:port`, `[::1]:port` or `port`."""
    host, _, port = text.rpartition(":")
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 16:
        raise ConfigError(f"{text!r} is not an address: write host:port, like 192.0.2.7:7070")
    return host.strip("[]") or "127.0.0.1", number


def text_of(address: Address) -> str:
    if not isinstance(address, tuple):
        return str(address)
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@cache
def software() -> str:
    """The version in this node's hellos. Cached, because it is read from a file."""
    from implicast import __version__

    return __version__
