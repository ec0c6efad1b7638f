"""What a node sees of its network, to be drawn: who is near, what passes, whose ground is where.

Surfaces are drawn as tiles along their curve, whatever their dimensions: a prefix of the curve is a box of the square.
Rings are drawn as circles, each name at its place. Only what this node itself knows is shown.
"""

import math
import time
from typing import Any

from implicast.net.config import text_of
from implicast.net.node import Node
from implicast.peer.contract import Address
from implicast.space.morton import box, side

TILES_MAX = 400
SQUARE = 100.0


class Neighbourhood:
    """One node's surroundings."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._before: tuple[float, dict[str, int]] | None = None

    def now(self) -> dict[str, Any]:
        """All that the page shows, as plain values."""
        status = self._node.status()
        return {
            "status": {each: status[each] for each in ("address", "design", "role", "network", "life", "joined",
                       "registered", "connections", "inbox", "inbox_open", "outbox_open", "disk_full", "up_s")},
            "counters": status["counters"],
            "rates": self._rates(status["counters"]),
            "peers": self._peers(),
            "tiles": self._tiles(),
            "own": self._point(self._node.name.hex()),
            "queue": self._queued(),
        }  # fmt: skip

    def _rates(self, counters: dict[str, int]) -> dict[str, float]:
        """Per second, since somebody looked last."""
        now, before = time.monotonic(), self._before
        if before is None or now - before[0] > 0.5:
            self._before = (now, dict(counters))
        if before is None:
            return {"sent": 0.0, "received": 0.0, "delivered": 0.0}
        took = max(0.5, now - before[0])
        return {each: round((counters[each] - before[1][each]) / took, 1) for each in ("sent", "received", "delivered")}

    def _peers(self) -> list[dict[str, Any]]:
        near = sorted(self._node.peers(), key=lambda each: str(each["name"]))
        return [{**each, **self._point(each["name"])} for each in near]

    def _point(self, name: str) -> dict[str, float]:
        """Its place on the circle."""
        turn = 2 * math.pi * int(name[:8], 16) / (1 << 32)
        return {"x": round(SQUARE / 2 + 42 * math.sin(turn), 2), "y": round(SQUARE / 2 - 42 * math.cos(turn), 2)}

    def _queued(self) -> int:
        return int(self._node.counters["dropped_queue"])

    # --- the surface

    def _tiles(self) -> list[dict[str, Any]]:
        """Own pieces and those of others that the node knows; none where there is no surface."""
        surface = getattr(self._node.peer, "surface", None)
        plot = getattr(surface, "plot", None)
        if plot is None:
            return []
        near = {text_of(address) for address in plot.neighbours()}
        own = [_tile(each.low, each.bits, self._node.address, "own") for each in plot.pieces]
        others = [_tile(each.low, each.bits, each.owner, "near" if text_of(each.owner) in near else "far")
                  for each in plot.others]  # fmt: skip
        return [*own, *others][:TILES_MAX]


def _tile(low: int, bits: int, owner: Address, kind: str) -> dict[str, Any]:
    (top, left), (bottom, right) = box(low, bits, 2)
    scale = SQUARE / side(2)
    return {"x": round(left * scale, 3), "y": round(top * scale, 3), "w": round((right - left) * scale, 3),
            "h": round((bottom - top) * scale, 3), "owner": text_of(owner), "kind": kind}  # fmt: skip
