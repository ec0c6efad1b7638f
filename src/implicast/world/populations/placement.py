"""Placement of records on an assembled surface: the state that all registrations leave behind.

A record is stored at its home at the lowest notch that is open there. A registry closes at a peer
as soon as it would hold more records than the limit. Neither depends on the order of registrations,
because more records can only close more registries. So the final state is computed notch by notch,
from the tag's address up.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from implicast.casting.spice.homes import rotation_of
from implicast.casting.spice.items import Key
from implicast.casting.spice.settings import SpiceSettings
from implicast.space.morton import BITS
from implicast.world.populations.curve import Codes

Chosen = Codes
"""Indices of records of one tag."""


class Lot(NamedTuple):
    """One peer's part of one registry at one notch: its records, or a closed part."""

    peer: int
    key: Key
    chosen: Chosen
    closed: bool


class TileOwners:
    """Owners of codes on an assembled surface, as arrays along the curve."""

    __slots__ = ("_lows", "_peers", "lows", "peers")

    def __init__(self, lows: Codes) -> None:
        """`lows`: by peer, the first code of its tile."""
        self.peers = np.argsort(lows)
        self.lows = lows[self.peers]
        self._lows, self._peers = self.lows.tolist(), self.peers.tolist()

    def of(self, codes: Codes) -> Codes:
        found: Codes = self.peers[np.searchsorted(self.lows, codes, side="right") - 1]
        return found

    def places_of(self, codes: Codes) -> Codes:
        """Positions of the owners along the curve; ascending for ascending codes."""
        return np.searchsorted(self.lows, codes, side="right") - 1

    def of_one(self, code: int) -> int:
        found: int = self._peers[bisect_right(self._lows, code) - 1]
        return found


def lots(
    settings: SpiceSettings, owners: TileOwners, tag: str, root: int, spots: Codes
) -> Iterator[Lot]:
    """Placement of the records of a tag with these spots around one of its roots."""
    rising = np.arange(len(spots))
    full = len(spots) > settings.storage_limit
    yield Lot(
        owners.of_one(root), (tag, root, 0), rising, full
    )  # at notch 0 the root is the home of every record
    if not full:
        return
    for notch in settings.notches()[1:]:
        if not len(rising):
            return
        key, last = (tag, root, notch), notch == settings.last_notch
        up = []
        for peer, chosen in _by_owner(
            owners.of(homes_of(root, notch, spots[rising], settings.dimensions)), rising
        ):
            full = len(chosen) > settings.storage_limit and not last
            yield Lot(peer, key, chosen, full)
            if full:
                up.append(chosen)
        rising = np.sort(np.concatenate(up)) if up else rising[:0]


def homes_of(root: int, notch: int, spots: Codes, dimensions: int) -> Codes:
    """`homes` for an array."""
    shift = notch * dimensions
    if not shift:
        return np.full(len(spots), root, np.int64)
    return (root >> shift << shift) | (spots ^ rotation_of(root)) >> (BITS - shift)


def _by_owner(peers: Codes, records: Chosen) -> list[tuple[int, Chosen]]:
    order = np.argsort(peers, kind="stable")
    found, sorted_records = peers[order], records[order]
    starts = [0, *(np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(found)]
    return [
        (int(found[start]), sorted_records[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]
