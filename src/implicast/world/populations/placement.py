"""Where registrations come to lie: what all of them leave behind on an assembled surface, computed at once.

A record lies at its home at the lowest notch that is open there, and a registry is closed at a peer as soon as more
records than the limit would lie in it. Neither depends on the order in which registrations come: more of them can only
close more. So the state in which registering by messages ends is found notch by notch, from the tag's own address up.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from implicast.casting.spice.homes import turn_of
from implicast.casting.spice.items import Key
from implicast.casting.spice.settings import Settings
from implicast.space.morton import BITS, Codes

Chosen = Codes
"""Numbers of records of one tag."""


class Lot(NamedTuple):
    """What one peer has of one registry at one notch: records that it keeps, or a closed part."""

    peer: int
    key: Key
    chosen: Chosen
    closed: bool


class Owners:
    """Who owns a code on an assembled surface: arrays along the curve."""

    __slots__ = ("_lows", "_peers", "lows", "peers")

    def __init__(self, lows: Codes) -> None:
        """By peer, the first code of its tile."""
        self.peers = np.argsort(lows)
        self.lows = lows[self.peers]
        self._lows, self._peers = self.lows.tolist(), self.peers.tolist()

    def of(self, codes: Codes) -> Codes:
        found: Codes = self.peers[np.searchsorted(self.lows, codes, side="right") - 1]
        return found

    def places_of(self, codes: Codes) -> Codes:
        """The owners' places along the curve: of codes in order these rise."""
        return np.searchsorted(self.lows, codes, side="right") - 1

    def of_one(self, code: int) -> int:
        found: int = self._peers[bisect_right(self._lows, code) - 1]
        return found


def lots(settings: Settings, owners: Owners, tag: str, root: int, spots: Codes) -> Iterator[Lot]:
    """How the records of a tag with these spots lie around one of its roots."""
    rising = np.arange(len(spots))
    full = len(spots) > settings.storage_limit
    yield Lot(
        owners.of_one(root), (tag, root, 0), rising, full
    )  # at notch 0 the root itself is everybody's home
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
    return (root >> shift << shift) | (spots ^ turn_of(root)) >> (BITS - shift)


def _by_owner(peers: Codes, records: Chosen) -> list[tuple[int, Chosen]]:
    order = np.argsort(peers, kind="stable")
    found, sorted_records = peers[order], records[order]
    starts = [0, *(np.flatnonzero(found[1:] != found[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(found)]
    return [
        (int(found[start]), sorted_records[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]
