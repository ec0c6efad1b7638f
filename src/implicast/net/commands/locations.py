"""Folders of networks and nodes on this machine. Each network has a folder, with one subfolder per
node.

The base folder is `$IMPLICAST_HOME`, else `~/.implicast`. If the home folder does not exist or is
not writable, it is a folder of this user below the folder for temporary files.
"""

import os
import tempfile
from pathlib import Path

from implicast.peer.errors import LocalError


class LocationError(LocalError):
    """The network or node does not exist; the text lists those that do."""


def home() -> Path:
    """The folder of all networks of this user."""
    given = os.environ.get("IMPLICAST_HOME")
    if given:
        return Path(given)
    try:
        where = Path.home() / ".implicast"
        where.mkdir(mode=0o700, exist_ok=True)
        if os.access(where, os.W_OK):
            return where
    except (OSError, RuntimeError):
        pass
    fallback = Path(tempfile.gettempdir()) / f"implicast-{os.getuid()}"
    fallback.mkdir(mode=0o700, exist_ok=True)
    if fallback.stat().st_uid != os.getuid():
        raise LocationError(
            f"{fallback} belongs to another user; set IMPLICAST_HOME to a folder of your own"
        )
    return fallback


def local() -> Path:
    """The folder of the network that `implicast local` starts."""
    return home() / "local"


def node(name: str | None, directory: Path | None = None) -> Path:
    """The folder of a node: `directory` itself if it is a node's, else the node of that name in it,
    else its first member.
    """
    base = directory if directory is not None else local()
    if (base / "node.toml").exists():
        return base
    there = sorted(each.parent.name for each in base.glob("*/node.toml"))
    members = [each for each in there if not each.startswith("_")]
    if not members:
        raise LocationError(f"there is no network in {base}: start one with `implicast local 20`")
    if name is None:
        return base / members[0]
    if name in there:
        return base / name
    if name.isdigit() and f"n{int(name):02d}" in there:
        return base / f"n{int(name):02d}"
    raise LocationError(
        f"there is no node {name!r} in {base}; there are: {', '.join(members[:12])}"
        + (" …" if len(members) > 12 else "")
    )
