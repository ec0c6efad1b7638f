"""Lazy peers of an ICE surface with SPICE, for networks of a million peers.

A peer is the same engine as any other. While it only receives notices it has no extent and no
registries. When a traversal reaches it, it gets its claim, neighbours and table from the columns of
the tiling, and its registries from the columns of records. Records are matched in the columns and
made as objects only when they are read one by one.
"""

from collections.abc import Mapping
from functools import partial
from itertools import chain, islice
from random import Random

import numpy as np

from implicast.casting.spice._records import (  # type: ignore[import-not-found, unused-ignore]
    RecordColumn,
    RecordSlice,
    marks_of,
)
from implicast.casting.spice.homes import spot_of
from implicast.casting.spice.items import Entry
from implicast.casting.spice.registrations import RegisteredState
from implicast.casting.spice.registries import RegistryState
from implicast.casting.spice.settings import SpiceSettings
from implicast.casting.spice.spice import Spice, SpiceState
from implicast.overlay.ice.messages import OwnershipClaim
from implicast.overlay.ice.state import FixedState
from implicast.overlay.ice.table import SurfaceTable
from implicast.peer.contract import Address, Contact, Peer
from implicast.peer.name import name_of, next_incarnation, version_of
from implicast.peer.site import Site
from implicast.peer.wire import size
from implicast.space.digest import digest_bits
from implicast.space.kernels import sheet_around
from implicast.space.morton import BITS
from implicast.world.plan import Plan
from implicast.world.populations import weights
from implicast.world.populations.curve import Codes
from implicast.world.populations.lazy_ring import TagHolders
from implicast.world.populations.placement import TileOwners
from implicast.world.populations.population import LazyPeers
from implicast.world.populations.registry_columns import (
    RegistryColumns,
    RegistryPlacement,
    entry_bytes,
)
from implicast.world.populations.surface import Tiling, adjacency
from implicast.world.populations.surface_objections import OBJECTIONS_MAX
from implicast.world.populations.tile_objections import (
    cover_objections,
    registry_objections,
    table_objections,
)


class LazySurfacePeers(LazyPeers):
    """The lazy peers of a surface."""

    def __init__(self, plan: Plan, settings: SpiceSettings, tiles: Tiling) -> None:
        self._plan, self._settings, self._tiles = plan, settings, tiles
        names = [name_of(plan.network, address, 0) for address in range(plan.peers)]
        self._contacts = [Contact(name, address) for address, name in enumerate(names)]
        lows, bits = tiles.low.tolist(), tiles.bits.tolist()
        self._claims = [
            OwnershipClaim(low, each, 0, owner)
            for owner, (low, each) in enumerate(zip(lows, bits, strict=True))
        ]
        one, other = adjacency(tiles)
        self._around = other.astype(np.int32)
        self._ends: list[int] = np.searchsorted(one, np.arange(tiles.peers + 1)).tolist()
        holders = TagHolders(plan.descriptions)
        spread = RegistryPlacement(
            settings, TileOwners(tiles.low), names, entry_bytes(plan.descriptions)
        )
        self._tags, self._holders = holders.tags, holders.counts()
        self._registry_columns = spread.all(holders)
        self._column = self._record_column(self._registry_columns)
        self._entry_makers = [partial(self._entries, tag) for tag in self._tags]
        self._stored: list[int] | None = None
        self._network, self._chance = plan.network, Random()

    def _record_column(self, registry_columns: RegistryColumns) -> RecordColumn:
        marks = np.frombuffer(marks_of(self._plan.descriptions), np.int64)
        rows = np.stack([registry_columns.homes, marks[registry_columns.members]], axis=1)
        return RecordColumn(
            rows, registry_columns.members, list(self._plan.descriptions), self._contacts
        )

    def make(self, address: int) -> Peer:
        member = Spice(self._site(address), self._settings)
        claim, around = self._claims[address], partial(self._claims_around, address)
        member.surface.restore_fixed(FixedState(0, [claim], around, partial(self._table, address)))
        member.restore(self._state(address, member.incarnation))
        return member

    def _site(self, address: int) -> Site:
        """`Plan.site` of a member, with the common parts computed once."""
        plan, name = self._plan, self._contacts[address].name
        return Site(
            name,
            self._incarnation(address),
            address,
            plan.host(address),
            plan.parameters,
            self._network,
            plan.roles,
            self._settings.levels,
            None,
            plan.resting,
        )

    def _incarnation(self, address: int) -> int:
        """The incarnation of `Plan.site`. The random generator is reused, because making one takes
        as long as seeding it.
        """
        self._chance.seed(digest_bits(64, self._plan.seed, "life", address, 0, 0, 0))
        return next_incarnation(0, self._chance)

    # --- parts made on demand

    def _table(self, address: int) -> SurfaceTable:
        """The routing table that `settle` gives."""
        tiles = self._tiles
        around = self._around[self._ends[address] : self._ends[address + 1]]
        others: list[Address] = around.tolist()
        latency_us = self._plan.latency_us
        paces = [max(1.0, float(latency_us(address, each))) for each in around.tolist()]
        sheet = sheet_around(tiles.boxes, address, around, paces)
        return SurfaceTable(tiles.dimensions, others, 1, sheet, True)

    def _claims_around(self, address: int) -> list[OwnershipClaim]:
        return [
            self._claims[each]
            for each in self._around[self._ends[address] : self._ends[address + 1]].tolist()
        ]

    def _state(self, address: int, incarnation: int) -> SpiceState:
        """The state that registrations leave behind, as `preload` computes it."""
        tags, column, entries = self._tags, self._column, self._entry_makers
        stored = [
            RegistryState(
                (tags[number], root, notch),
                closed,
                size,
                None if closed else RecordSlice(column, first, first + size, entries[number]),
            )
            for _, number, root, notch, closed, size, _, first in self._registry_columns.of(address)
        ]
        description = self._plan.descriptions[address]
        registered = RegisteredState(version_of(incarnation, 1), description, None, {})
        return SpiceState(registered, tuple(stored))

    def _entries(self, tag: str, lot: RecordSlice) -> list[Entry]:
        """The records of a lot as entries."""
        plan, found = self._plan, []
        for address in self._registry_columns.members[lot.first : lot.past].tolist():
            member, description = self._contacts[address], plan.descriptions[address]
            found.append(
                Entry(
                    member,
                    version_of(self._incarnation(address), 1),
                    spot_of(member.name, tag),
                    description,
                )
            )
        return found

    # --- checks

    def objections(self, awake: Mapping[int, Peer]) -> list[str]:
        """Check the columns. No peer of a surface on which nothing changes alters its extent."""
        tiles, levels, settings = self._tiles, self._settings.levels or {}, self._settings
        one = np.repeat(np.arange(tiles.peers, dtype=np.int32), np.diff(self._ends))
        roots = [
            1 << min(levels.get(tag, 0), settings.deepest) * settings.dimensions
            for tag in self._tags
        ]
        found = chain(
            cover_objections(tiles),
            table_objections(tiles, one, self._around),
            registry_objections(
                tiles, self._registry_columns, self._holders * np.array(roots, np.int64)
            ),
        )
        return list(islice(found, OBJECTIONS_MAX))

    # --- storage

    def stored_bytes(self, address: int) -> int:
        if self._stored is None:
            self._stored = (2 + self._weigh_claims() + self._weigh_registries() + 2).tolist()
        return self._stored[address]

    def _weigh_claims(self) -> Codes:
        """By peer, bytes of the neighbours' claims."""
        ends = np.array(self._ends, np.int64)
        claims = (
            3
            + weights.of_numbers(self._tiles.low)
            + weights.of_numbers(np.arange(self._tiles.peers))
        )
        sums = np.concatenate([[0], np.cumsum(claims[self._around])])
        return weights.of_heads(np.diff(ends)) + np.diff(sums[ends])

    def _weigh_registries(self) -> Codes:
        """By peer, bytes of its registries."""
        lots, dimensions = self._registry_columns.lots, self._settings.dimensions
        tags = np.array([size(tag) for tag in self._tags], np.int64)
        low, bits = self._tiles.low[lots["peer"]], self._tiles.bits[lots["peer"]]
        shift = lots["notch"].astype(np.int64) * dimensions
        start = np.maximum(low, lots["root"] >> shift << shift)
        stop = start + (np.int64(1) << np.minimum(shift, BITS - bits))
        closed = np.where(lots["closed"], weights.of_numbers(start) + weights.of_numbers(stop), 0)
        records = weights.of_heads(np.where(lots["closed"], 0, lots["count"])) + lots["bytes"]
        each = 1 + tags[lots["tag"]] + weights.of_numbers(lots["root"]) + 1 + 1 + closed + records
        count = np.bincount(lots["peer"], minlength=self._tiles.peers)
        return weights.of_heads(count) + np.bincount(lots["peer"], each, self._tiles.peers).astype(
            np.int64
        )
