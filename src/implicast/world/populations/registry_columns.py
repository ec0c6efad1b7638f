"""The records of all peers of an assembled surface as columns, for networks of a million peers.

The lots are those of `placement.py`. The records of one tag around one root have the same order
along the curve at every notch, that of their turned spots. So the records of one owner are
adjacent, and no sorting by owner is needed. Lots are columns ordered by peer, and within a peer in
the order in which `preload` adds them; records are columns ordered by lot.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.casting.spice.homes import address_of, roots_of, rotation_of
from implicast.casting.spice.settings import SpiceSettings
from implicast.peer.contract import Name
from implicast.peer.wire import size
from implicast.space.kernels import digests_into
from implicast.space.morton import BITS
from implicast.world.populations import weights
from implicast.world.populations.curve import Codes
from implicast.world.populations.lazy_ring import TagHolders
from implicast.world.populations.placement import TileOwners

Numbers = npt.NDArray[np.int32]
Table = npt.NDArray[Any]
LOT = np.dtype(
    [
        ("peer", np.int32),
        ("tag", np.int32),
        ("root", np.int64),
        ("notch", np.int16),
        ("closed", np.bool_),
        ("count", np.int32),
        ("bytes", np.int64),
        ("first", np.int64),
    ]
)
"""One peer's part of a registry: the number of the tag; the number of records here, or that passed
up through here if it is closed; the bytes of the records here; and the index of the first.
"""
VERSION_BYTES = 9
"""Bytes of a first version: incarnations begin at 2^16, followed by twenty bits."""


class RegistryColumns:
    """By peer its lots; by lot its records: their homes, and their members in order of address."""

    __slots__ = ("_ends", "homes", "lots", "members")

    def __init__(self, peers: int, lots: Table, homes: Codes, members: Numbers) -> None:
        """Lots in the order in which they are added, and the records of the open ones."""
        stored = np.where(lots["closed"], 0, lots["count"]).astype(np.int64)
        lots["first"] = np.cumsum(stored) - stored
        self.lots = lots[np.argsort(lots["peer"], kind="stable")]
        self._ends = np.searchsorted(self.lots["peer"], np.arange(peers + 1)).tolist()
        self.homes, self.members = homes, members

    def of(self, peer: int) -> list[tuple[int, int, int, int, bool, int, int, int]]:
        """The lots of one peer."""
        some: list[tuple[int, int, int, int, bool, int, int, int]] = self.lots[
            self._ends[peer] : self._ends[peer + 1]
        ].tolist()
        return some


class RegistryPlacement:
    """Places the records of one tag after the other."""

    def __init__(
        self, settings: SpiceSettings, owners: TileOwners, names: Sequence[Name], entry_bytes: Codes
    ) -> None:
        """`entry_bytes`: by member, the bytes of one of its entries without the spot."""
        self._settings, self._owners, self._names, self._bytes = (
            settings,
            owners,
            names,
            entry_bytes,
        )
        self._letters = np.frombuffer(b"".join(names), np.uint8).reshape(len(names), -1)
        self._single: list[tuple[int, ...]] = []
        """Single lots found after the last group of lots."""
        self._lots: list[Table] = []
        self._homes: list[Codes] = [np.empty(0, np.int64)]
        self._members: list[Numbers] = [np.empty(0, np.int32)]

    def all(self, holders: TagHolders) -> RegistryColumns:
        """The columns after all of these are registered."""
        levels, settings = self._settings.levels or {}, self._settings
        for number, tag in enumerate(holders.tags):
            members = holders.peers_of(number)
            spots = self._spots(members, tag)
            sizes = self._bytes[members] + weights.of_numbers(spots)
            for root in roots_of(
                address_of(tag), min(levels.get(tag, 0), settings.deepest), settings.dimensions
            ):
                self._around(number, root, members, spots, sizes)
        self._collect()
        return RegistryColumns(
            len(self._names), *map(_drained, (self._lots, self._homes, self._members))
        )

    def _spots(self, members: Numbers, tag: str) -> Codes:
        """`spot_of` for each member. The compiled digest takes three seconds for a million peers,
        Python half a minute.
        """
        found: Codes = np.empty(len(members), np.int64)
        digests_into(self._letters, members, tag.encode(), found)
        return found

    def _around(self, tag: int, root: int, members: Numbers, spots: Codes, sizes: Codes) -> None:
        """Place the records of a tag around one of its roots (`placement.lots`)."""
        settings, limit, owner = self._settings, self._settings.storage_limit, self._owners.of_one
        full = len(members) > limit
        self._single.append(
            (owner(root), tag, root, 0, full, len(members), 0 if full else int(sizes.sum()), 0)
        )
        if not full:
            self._homes.append(np.full(len(members), root, np.int64))
            self._members.append(members)
            return
        turned = spots ^ rotation_of(root)
        rising = np.argsort(turned)
        turned = turned[rising]
        for notch in settings.notches()[1:]:
            shift = notch * settings.dimensions
            base, last = root >> shift << shift, notch == settings.last_notch
            alone = owner(base) == owner(base + (1 << shift) - 1)  # all records have the same owner
            if alone and len(rising) > limit and not last:
                self._single.append((owner(base), tag, root, notch, True, len(rising), 0, 0))
                continue
            homes = base | turned >> (BITS - shift)
            stays = self._divide((tag, root, notch), homes, rising, members, sizes)
            rising, turned = rising[~stays], turned[~stays]
            if not len(rising):
                return

    def _divide(
        self, key: tuple[int, int, int], homes: Codes, rising: Codes, members: Numbers, sizes: Codes
    ) -> npt.NDArray[np.bool_]:
        """Assign records, in order of their homes, to the owners of these; returns which records
        stay.
        """
        places = self._owners.places_of(homes)
        starts = np.flatnonzero(np.diff(places, prepend=-1))
        counts = np.diff(starts, append=len(places))
        full = (counts > self._settings.storage_limit) & (key[2] != self._settings.last_notch)
        open_counts = counts[~full]
        stays: npt.NDArray[np.bool_] = np.repeat(~full, counts)
        staying = rising[stays]
        lot = np.repeat(np.arange(len(open_counts)), open_counts)
        order = np.argsort(lot * len(members) + staying)  # within a lot by member
        self._homes.append(homes[stays][order])
        self._members.append(members[staying[order]])
        self._collect()
        lots = np.zeros(len(counts), LOT)
        lots["peer"], lots["count"], lots["closed"] = (
            self._owners.peers[places[starts]],
            counts,
            full,
        )
        lots["tag"], lots["root"], lots["notch"] = key
        if len(staying):
            lots["bytes"][~full] = np.add.reduceat(
                sizes[staying], np.cumsum(open_counts) - open_counts
            )
        self._lots.append(lots)
        return stays

    def _collect(self) -> None:
        self._lots.append(np.array(self._single, LOT))
        self._single.clear()


def entry_bytes(descriptions: Sequence[object]) -> Codes:
    """By member, the bytes of one of its entries without the spot."""
    description_bytes = np.fromiter(map(size, descriptions), np.int64, len(descriptions))
    members: Codes = weights.of_contacts(np.arange(len(descriptions)))
    return 1 + members + VERSION_BYTES + description_bytes + 1


def _drained(parts: list[Any]) -> Any:
    whole = np.concatenate(parts)
    parts.clear()
    return whole
