"""What there is to see of the nodes of a folder: how each is, its casts as they spread, whom it is connected with."""

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from implicast.net import control, places

ANSWER_S = 2.0
CASTS_MAX = 100
"""Casts that are shown, the newest."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at all nodes."""

    nodes: list[Row] = field(default_factory=list)
    """Status of each, with `node` (its folder's name), `up`, and messages a second since the look before."""
    casts: list[Row] = field(default_factory=list)
    """Receipts of all, newest first, with `node`."""
    peers: dict[str, list[Row]] = field(default_factory=dict)
    """Of each node, whom it is connected with."""


def folders(directory: Path | None) -> list[Path]:
    """The nodes of a network's folder, or the one whose folder it is."""
    base = directory if directory is not None else places.local()
    if (base / "node.toml").exists():
        return [base]
    found = sorted(each.parent for each in base.glob("*/node.toml"))
    if not found:
        raise places.PlaceError(
            f"there is no network in {base}: start one with `implicast local 20`"
        )
    return found


def look(where: list[Path], before: Sight | None = None) -> Sight:
    """Ask every node; one that does not answer is down."""
    last = {row["node"]: row for row in before.nodes} if before is not None else {}
    sight = Sight()
    for folder in where:
        row: Row = {"node": folder.name, "up": False, "at": time.monotonic()}
        with contextlib.suppress(control.ControlError, OSError, StopIteration, ValueError):
            row |= next(control.ask(folder, {"do": "status"}, ANSWER_S))
            sight.peers[folder.name] = list(control.ask(folder, {"do": "peers"}, ANSWER_S))
            told = control.ask(folder, {"do": "receipts"}, ANSWER_S)
            sight.casts.extend({"node": folder.name, **each} for each in told)
            row["up"] = True
        row["sent_per_s"] = _rate(row, last.get(folder.name))
        row["queued"] = sum(each.get("queued", 0) for each in sight.peers.get(folder.name, []))
        sight.nodes.append(row)
    newest = sorted(sight.casts, key=lambda each: -int(each["made_us"]))[:CASTS_MAX]
    return Sight(sight.nodes, newest, sight.peers)


def _rate(now: Row, before: Row | None) -> float:
    """Messages a second since the look before."""
    if before is None or not (now["up"] and before["up"]):
        return 0.0
    sent = int(now["counters"]["sent"]) - int(before["counters"]["sent"])
    return max(0.0, sent / max(1e-6, float(now["at"]) - float(before["at"])))
