"""Snapshots of the nodes of a folder: status, progress of casts, connections."""

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from implicast.net.commands import control, locations

ANSWER_S = 2.0
CASTS_MAX = 100
"""Number of casts in a snapshot; the newest are shown."""
StatusRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    """The state of all nodes at one moment."""

    nodes: list[StatusRow] = field(default_factory=list)
    """Status of each node, with `node` (the name of its folder), `up`, and `sent_per_s`: messages
    sent per second since the previous snapshot.
    """
    casts: list[StatusRow] = field(default_factory=list)
    """Receipts of all nodes, newest first, with `node`."""
    peers: dict[str, list[StatusRow]] = field(default_factory=dict)
    """By node: the nodes it is connected to."""


def folders(directory: Path | None) -> list[Path]:
    """The node folders of a network's folder, or the folder itself if it is a node's."""
    base = directory if directory is not None else locations.local()
    if (base / "node.toml").exists():
        return [base]
    found = sorted(each.parent for each in base.glob("*/node.toml"))
    if not found:
        raise locations.LocationError(
            f"there is no network in {base}: start one with `implicast local 20`"
        )
    return found


def take_snapshot(where: list[Path], before: NetworkSnapshot | None = None) -> NetworkSnapshot:
    """Query every node through its control socket. A node that does not answer counts as down."""
    last = {row["node"]: row for row in before.nodes} if before is not None else {}
    snapshot = NetworkSnapshot()
    for folder in where:
        row: StatusRow = {"node": folder.name, "up": False, "at": time.monotonic()}
        with contextlib.suppress(control.ControlError, OSError, StopIteration, ValueError):
            row |= next(control.ask(folder, {"do": "status"}, ANSWER_S))
            snapshot.peers[folder.name] = list(control.ask(folder, {"do": "peers"}, ANSWER_S))
            receipts = control.ask(folder, {"do": "receipts"}, ANSWER_S)
            snapshot.casts.extend({"node": folder.name, **each} for each in receipts)
            row["up"] = True
        row["sent_per_s"] = _rate(row, last.get(folder.name))
        row["queued"] = sum(each.get("queued", 0) for each in snapshot.peers.get(folder.name, []))
        snapshot.nodes.append(row)
    newest = sorted(snapshot.casts, key=lambda each: -int(each["made_us"]))[:CASTS_MAX]
    return NetworkSnapshot(snapshot.nodes, newest, snapshot.peers)


def _rate(now: StatusRow, before: StatusRow | None) -> float:
    """Messages sent per second since the previous snapshot."""
    if before is None or not (now["up"] and before["up"]):
        return 0.0
    sent = int(now["counters"]["sent"]) - int(before["counters"]["sent"])
    return max(0.0, sent / max(1e-6, float(now["at"]) - float(before["at"])))
