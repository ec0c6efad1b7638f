"""What a node sees of its network, to be drawn: who is near, which casts pass, whose ground is
where.

Surfaces are drawn as tiles along their curve, whatever their dimensions: a prefix of the curve is a
box of the square. Where there is no surface, every peer has a place on a circle by name. Only what
this node itself knows is shown.
"""

import math
import time
from typing import Any

from implicast.net.config import text_of
from implicast.peer.contract import Address
from implicast.space.morton import box, side
from implicast.web.desk import Desk
from implicast.web.letters import cast_text
from implicast.web.passing import CastStep, Passing

TILES_MAX = 400
SQUARE = 100.0
RADIUS = 42.0
EVERY_S = 1.0
"""How often the page looks, and so how much of the past one look shows."""
FLIGHT_S = 0.8
"""How long a message is seen on its way."""
FLIGHTS_MAX = 60
LISTED = 10
"""Casts in the list."""
Values = dict[str, Any]


class Neighbourhood:
    """One node's surroundings."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._node = desk, desk.node
        self._before: tuple[float, dict[str, int]] | None = None
        self.passing = Passing()
        self._node.driver.observe(self.passing.see)

    def now(self) -> Values:
        """All that the page shows, as plain values."""
        status, peers, tiles = self._node.status(), self._peers(), self._tiles()
        own = self._point(self._node.name.hex())
        return {
            "status": {
                each: status[each]
                for each in (
                    "address",
                    "design",
                    "role",
                    "network",
                    "life",
                    "joined",
                    "registered",
                    "connections",
                    "inbox",
                    "inbox_open",
                    "outbox_open",
                    "disk_full",
                    "up_s",
                )
            },
            "counters": status["counters"],
            "rates": self._rates(status["counters"]),
            "peers": peers,
            "queued": sum(each["queued"] for each in peers),
            "tiles": tiles,
            "own": own,
            "casts": self._casts(),
            "flights": self._flights(own, peers, tiles),
        }

    # --- load

    def _rates(self, counters: dict[str, int]) -> dict[str, float]:
        """Messages per second since the last request; those of casts apart, the rest is upkeep."""
        counted = {
            "sent": counters["sent"],
            "received": counters["received"],
            "came": self.passing.came,
            "went": self.passing.went,
        }
        now, before = time.monotonic(), self._before
        if before is None or now - before[0] > EVERY_S / 2:
            self._before = (now, counted)
        if before is None:
            return dict.fromkeys(counted, 0.0)
        took = max(EVERY_S / 2, now - before[0])
        return {each: round((counted[each] - before[1][each]) / took, 1) for each in counted}

    # --- who is near

    def _peers(self) -> list[Values]:
        near = sorted(self._node.peers(), key=lambda each: str(each["name"]))
        return [
            {
                **each,
                "label": self._desk.letters.known_as(each["name"]),
                **self._point(each["name"]),
            }
            for each in near
        ]

    def _point(self, name: str) -> dict[str, float]:
        """Its place on the circle."""
        turn = 2 * math.pi * int(name[:8], 16) / (1 << 32)
        middle = SQUARE / 2
        return {
            "x": round(middle + RADIUS * math.sin(turn), 2),
            "y": round(middle - RADIUS * math.cos(turn), 2),
        }

    # --- the surface

    def _tiles(self) -> list[Values]:
        """Own pieces and those of others that the node knows; none where there is no surface."""
        surface = getattr(self._node.peer, "surface", None)
        ownership = getattr(surface, "ownership", None)
        if ownership is None:
            return []
        near = {text_of(address) for address in ownership.neighbours()}
        own = [_tile(each.low, each.bits, self._node.address, "own") for each in ownership.extents]
        others = [
            _tile(each.low, each.bits, each.owner, "near" if text_of(each.owner) in near else "far")
            for each in ownership.others
        ]
        return [*own, *others][:TILES_MAX]

    # --- casts

    def _casts(self) -> list[Values]:
        """The casts that passed last: whose, how many messages of each, and the letter if it was
        for this person.
        """
        found = []
        for _, each in zip(range(LISTED), self.passing.newest(), strict=False):
            publisher = each.cast.publisher.hex()
            letter = self._desk.letters.by_cast(cast_text(each.cast))
            found.append(
                {
                    "publisher": publisher,
                    "label": self._desk.letters.known_as(publisher),
                    "own": publisher == self._desk.name,
                    "serial": each.cast.serial,
                    "at_us": each.at_us,
                    "came": each.came,
                    "went": each.went,
                    "letter": letter,
                }
            )
        return found

    def _flights(self, own: Values, peers: list[Values], tiles: list[Values]) -> list[Values]:
        """The messages of casts since the page looked last, to be seen once more as they went."""
        since_s = time.monotonic() - EVERY_S
        places: dict[str, tuple[float, float]] = {
            each["address"]: (each["x"], each["y"]) for each in peers
        }
        here = (own["x"], own["y"])
        if tiles:
            places |= {
                each["owner"]: _middle(each)
                for each in sorted(tiles, key=lambda each: float(each["w"]))
            }
            here = places.get(text_of(self._node.address), here)
        return [
            _flight(each, here, places[text_of(each.other)], each.at_s - since_s)
            for each in self.passing.since(since_s)[-FLIGHTS_MAX:]
            if text_of(each.other) in places
        ]


def _tile(low: int, bits: int, owner: Address, kind: str) -> Values:
    (top, left), (bottom, right) = box(low, bits, 2)
    scale = SQUARE / side(2)
    return {
        "x": round(left * scale, 3),
        "y": round(top * scale, 3),
        "w": round((right - left) * scale, 3),
        "h": round((bottom - top) * scale, 3),
        "owner": text_of(owner),
        "kind": kind,
    }


def _middle(tile: Values) -> tuple[float, float]:
    return round(tile["x"] + tile["w"] / 2, 2), round(tile["y"] + tile["h"] / 2, 2)


def _flight(
    step: CastStep, here: tuple[float, float], there: tuple[float, float], begin_s: float
) -> Values:
    start, end = (there, here) if step.came else (here, there)
    return {
        "x1": start[0],
        "y1": start[1],
        "x2": end[0],
        "y2": end[1],
        "came": step.came,
        "begin_s": round(max(0.0, begin_s), 2),
        "lasts_s": FLIGHT_S,
    }
