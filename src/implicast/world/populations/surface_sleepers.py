"""Peers of a surface that are made when something happens to them: for networks of a million peers.

A peer is the very same engine as any other. As long as it only hears it has no place and no shelf; when it is walked
through it gets its title, its neighbours and its table from the columns of the tiling, and its registries from the
columns of the shelves. Records are looked through where they lie, and made when they are asked for one by one.
"""

from collections.abc import Mapping
from functools import partial
from itertools import chain, islice
from random import Random

import numpy as np

from implicast.casting.spice._records import Column, Lot, marks_of  # type: ignore[import-not-found, unused-ignore]
from implicast.casting.spice.homes import spot_of
from implicast.casting.spice.messages import Entry
from implicast.casting.spice.settings import Settings
from implicast.casting.spice.shelf import Shelf
from implicast.casting.spice.spice import Spice
from implicast.overlay.ice.messages import Title
from implicast.overlay.ice.surface import Surface
from implicast.overlay.ice.table import Drawn, SurfaceTable
from implicast.peer.contract import Address, Contact, Peer
from implicast.peer.name import name_of, next_incarnation, version_of
from implicast.peer.site import Site
from implicast.peer.wire import size
from implicast.space.digest import digest_bits
from implicast.space.kernels import sheet_of_row
from implicast.space.morton import BITS, Codes
from implicast.space.tract import container, intersect
from implicast.world.plan import Plan
from implicast.world.populations import weights
from implicast.world.populations.placement import Owners
from implicast.world.populations.population import Sleepers
from implicast.world.populations.shelves import Shelves, Spread, entry_bytes
from implicast.world.populations.sleepers import Holders
from implicast.world.populations.surface import Tiling, adjacency
from implicast.world.populations.surface_objections import OBJECTIONS_MAX
from implicast.world.populations.tile_objections import (
    cover_objections,
    shelf_objections,
    table_objections,
)


class SurfaceSleepers(Sleepers):
    """The members of a surface of which most have only heard, or nothing at all."""

    def __init__(self, plan: Plan, settings: Settings, tiles: Tiling) -> None:
        self._plan, self._settings, self._tiles = plan, settings, tiles
        names = [name_of(plan.network, address, 0) for address in range(plan.peers)]
        self._contacts = [Contact(name, address) for address, name in enumerate(names)]
        lows, bits = tiles.low.tolist(), tiles.bits.tolist()
        self._titles = [
            Title(low, each, 0, owner)
            for owner, (low, each) in enumerate(zip(lows, bits, strict=True))
        ]
        one, other = adjacency(tiles)
        self._around = other.astype(np.int32)
        self._ends: list[int] = np.searchsorted(one, np.arange(tiles.peers + 1)).tolist()
        holders = Holders(plan.descriptions)
        spread = Spread(settings, Owners(tiles.low), names, entry_bytes(plan.descriptions))
        self._tags, self._holders = holders.tags, holders.counts()
        self._shelves = spread.all(holders)
        self._column = self._laid_out(self._shelves)
        self._told = [partial(self._entries, tag) for tag in self._tags]
        self._stored: list[int] | None = None
        self._network, self._chance = plan.network, Random()

    def _laid_out(self, shelves: Shelves) -> Column:
        marks = np.frombuffer(marks_of(self._plan.descriptions), np.int64)
        rows = np.stack([shelves.homes, marks[shelves.members]], axis=1)
        return Column(rows, shelves.members, list(self._plan.descriptions), self._contacts)

    def make(self, address: int) -> Peer:
        member = Spice(self._site(address), self._settings)
        member.surface.rest_later(self._rest)
        member.shelf.fill_later(partial(self._fill, address))
        member.registrations.stand_quietly(self._plan.descriptions[address])
        return member

    def _site(self, address: int) -> Site:
        """`Plan.site` of a member: what all have in common is found once."""
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
        """The life of `Plan.site`, from a generator that is used again: to make one takes as long as to seed it."""
        self._chance.seed(digest_bits(64, self._plan.seed, "life", address, 0, 0, 0))
        return next_incarnation(0, self._chance)

    # --- what is made when it is needed

    def _rest(self, surface: Surface) -> None:
        """A place, as `settle` gives it."""
        address, tiles = surface.address, self._tiles
        assert isinstance(address, int), "addresses of the world are numbers"
        around = self._around[self._ends[address] : self._ends[address + 1]]
        others: list[Address] = around.tolist()
        latency_us = self._plan.latency_us
        paces = [max(1.0, float(latency_us(address, each))) for each in around.tolist()]
        sheet = sheet_of_row(tiles.boxes, address, around, paces)
        table = SurfaceTable(tiles.dimensions, others, None, sheet, partial(self._drawn, address))
        surface.rest_on(self._titles[address], partial(self._titles_around, address), table)

    def _drawn(self, address: int) -> Drawn:
        around = self._around[self._ends[address] : self._ends[address + 1]]
        paces = [max(1.0, float(self._plan.latency_us(address, each))) for each in around.tolist()]
        return (
            self._tiles.boxes[address : address + 1],
            self._tiles.boxes[around],
            np.array(paces, np.float64),
        )

    def _titles_around(self, address: int) -> list[Title]:
        return [
            self._titles[each]
            for each in self._around[self._ends[address] : self._ends[address + 1]].tolist()
        ]

    def _fill(self, address: int, shelf: Shelf) -> None:
        """Registries, as `enrol` puts them in."""
        dimensions, tags, column, entries = (
            self._settings.dimensions,
            self._tags,
            self._column,
            self._told,
        )
        title = self._titles[address]
        for _, number, root, notch, closed, count, _, first in self._shelves.of(address):
            key = (tags[number], root, notch)
            if not closed:
                shelf.registry(key).lie(Lot(column, first, first + count, entries[number]))
                continue
            shelf.close(key, intersect(container(root, notch, dimensions), (title.low, title.high)))
            if self._settings.rarest and not notch:
                shelf.registry(key).pass_by(count)

    def _entries(self, tag: str, lot: Lot) -> list[Entry]:
        """The records of a lot as their members told them."""
        plan, found = self._plan, []
        for address in self._shelves.members[lot.first : lot.past].tolist():
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

    # --- seen from outside

    def objections(self, awake: Mapping[int, Peer]) -> list[str]:
        """Of the columns; of those who are awake, that nothing has changed their ground since."""
        tiles, levels, settings = self._tiles, self._settings.levels or {}, self._settings
        one = np.repeat(np.arange(tiles.peers, dtype=np.int32), np.diff(self._ends))
        roots = [
            1 << min(levels.get(tag, 0), settings.deepest) * settings.dimensions
            for tag in self._tags
        ]
        found = chain(
            cover_objections(tiles),
            table_objections(tiles, one, self._around),
            shelf_objections(tiles, self._shelves, self._holders * np.array(roots, np.int64)),
            (
                f"{address} has changed its ground"
                for address, peer in awake.items()
                if isinstance(peer, Spice) and not peer.surface.rests
            ),
        )
        return list(islice(found, OBJECTIONS_MAX))

    # --- what each stores

    def stored_bytes(self, address: int) -> int:
        if self._stored is None:
            self._stored = (2 + self._weigh_titles() + self._weigh_shelves() + 2).tolist()
        return self._stored[address]

    def _weigh_titles(self) -> Codes:
        """Bytes of the titles around each."""
        ends = np.array(self._ends, np.int64)
        titles = (
            3
            + weights.of_numbers(self._tiles.low)
            + weights.of_numbers(np.arange(self._tiles.peers))
        )
        sums = np.concatenate([[0], np.cumsum(titles[self._around])])
        return weights.of_heads(np.diff(ends)) + np.diff(sums[ends])

    def _weigh_shelves(self) -> Codes:
        """Bytes of the registries of each."""
        lots, dimensions = self._shelves.lots, self._settings.dimensions
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
