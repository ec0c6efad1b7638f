"""Lazy peers of a condcast ring, for networks of a million peers.

A member is the same engine as any other. While it only forwards or receives casts without receipts
it has no place, fingers or aggregates: `_lanes.Lane` reads from columns where they would lead. The
columns are the keys along the ring, the holders of each tag and, by node and active target, the
lowest level whose aggregate lets the target pass. The aggregate of 2^i nodes has a bit if the next
node with the bit is less than 2^i places ahead, so no filter is built. Any other input makes the
member's parts; its aggregates are computed when they are read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from implicast.casting.condcast.condcast import Condcast
from implicast.casting.condcast.messages import ForwardCast, Query
from implicast.casting.condcast.place import key_of
from implicast.casting.condcast.settings import CondcastSettings, settings_of
from implicast.language.aggregate import DescriptionAggregate, TargetQuery
from implicast.language.bloom import positions
from implicast.overlay.chord_sharp.messages import FingerValue
from implicast.overlay.chord_sharp.table import TableState
from implicast.overlay.links.refs import Ref
from implicast.overlay.links.state import IN
from implicast.peer.contract import Address, CastId, Peer, handles
from implicast.peer.memory import Recent
from implicast.peer.name import name_of, next_incarnation
from implicast.peer.site import Site
from implicast.peer.wire import size
from implicast.space.digest import digest_bits
from implicast.space.ring import Arc, Key
from implicast.world._lanes import Lane, widen  # type: ignore[import-not-found, unused-ignore]
from implicast.world.plan import Plan
from implicast.world.populations import weights
from implicast.world.populations.lazy_ring import Numbers, TagHolders
from implicast.world.populations.population import LazyPeers
from implicast.world.populations.surface_objections import OBJECTIONS_MAX

Levels = npt.NDArray[np.uint8]
NEVER = 255
"""No level lets the target pass."""
TOGETHER = 64
"""Bits of filters handled at once."""
COLUMNS_BYTES_MAX = 1 << 28
"""Memory for the columns of active targets: 256 targets at a million peers. A column that was
dropped is computed again.
"""


class LazyValues(list[FingerValue | None]):
    """The aggregates of a settled table, computed when one is first read."""

    __slots__ = ("_sums_ahead",)

    def __init__(self, sums_ahead: Callable[[], list[FingerValue | None]]) -> None:
        super().__init__()
        self._sums_ahead: Callable[[], list[FingerValue | None]] | None = sums_ahead

    def _fill(self) -> None:
        if self._sums_ahead is not None:
            values, self._sums_ahead = self._sums_ahead(), None
            self.extend(values)

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def __iter__(self) -> Iterator[FingerValue | None]:
        self._fill()
        return super().__iter__()

    def __getitem__(self, at: Any) -> Any:
        self._fill()
        return super().__getitem__(at)

    def __setitem__(self, at: Any, value: Any) -> None:
        self._fill()
        super().__setitem__(at, value)

    def __delitem__(self, at: Any) -> None:
        self._fill()
        super().__delitem__(at)

    def append(self, value: FingerValue | None) -> None:
        self._fill()
        super().append(value)


LAZY_PARTS = frozenset({"flows", "forwarder", "links", "ring", "visibility"})
"""Parts that a member lacks while it only forwards or receives casts."""


class LazySharpPeer(Condcast):
    """A member that makes its parts when they are needed. `Lane` forwards casts without receipts by
    the columns; the member's own forwarder is the specification and handles all other cases.
    """

    __slots__ = ("_lane",)

    def __init__(self, site: Site, settings: CondcastSettings, lane: Lane) -> None:
        self._lane = lane
        super().__init__(site, 0, settings)

    def make_parts(self, key: int, neighbours: tuple[Ref, ...] = ()) -> None:
        """Deferred: `awake` makes the parts."""

    def awake(self, key: int) -> None:
        super().make_parts(key)

    def __getattr__(self, name: str) -> Any:
        """Make the parts on first access."""
        if name not in LAZY_PARTS:
            raise AttributeError(name)
        self._lane.furnish(self)
        return getattr(self, name)

    def condcast(self, arc: Arc, query: Query, payload: bytes, expiry_us: int = 0) -> CastId:
        cast = self.next_cast()
        sealed = self.seal(cast, query, payload, expiry_us)
        if not self._lane.forward(self, ForwardCast(cast, 0, (arc,), query, sealed)):
            self.forwarder.cast(cast, arc, query, sealed)
        return cast

    @handles(ForwardCast)
    def on_forward_cast(self, sender: Address, carry: ForwardCast) -> None:
        if not self._lane.forward(self, carry):
            self.forwarder.on_forward_cast(sender, carry)


class Filters:
    """By bit of the filters, its holders along the ring."""

    def __init__(self, holders: TagHolders, count: int, bits: int, hashes: int) -> None:
        """`holders`: by rank on the ring."""
        self._holders, self._count, self.bits, self.hashes = holders, count, bits, hashes
        self._positions = np.array(
            [positions(tag, bits, hashes) for tag in holders.tags], np.int64
        ).reshape(-1, hashes)
        order = np.argsort(self._positions, axis=None, kind="stable")
        self._tags = (order // hashes).tolist()
        self._ends = np.searchsorted(self._positions.ravel()[order], np.arange(bits + 1)).tolist()

    def levels(self, query: object) -> Levels | None:
        """By rank, the lowest level whose aggregate lets a query pass. None if the query has
        predicates or is for other filters.
        """
        if not isinstance(query, TargetQuery) or (query.bits, query.hashes) != (
            self.bits,
            self.hashes,
        ):
            return None
        if any(term.where for term in query.target.terms):
            return None
        least = np.full(self._count, NEVER, np.uint8)
        for term in query.target.terms:
            np.minimum(least, self._levels_of(term.has), out=least)
        return least

    def _levels_of(self, tags: Sequence[str]) -> Levels:
        wanted = sorted({each for tag in tags for each in positions(tag, self.bits, self.hashes)})
        found = np.zeros(self._count, np.uint8)
        for first in range(0, len(wanted), TOGETHER):
            having = [self._having(each) for each in wanted[first : first + TOGETHER]]
            if not all(map(len, having)):
                return np.full(self._count, NEVER, np.uint8)
            marks = np.zeros(self._count, np.uint64)
            for bit, ranks in enumerate(having):
                marks[ranks] |= np.uint64(1 << bit)
            widen(marks, np.array([ranks.min() for ranks in having], np.int64), found)
        return found

    def _having(self, position: int) -> npt.NDArray[np.int32]:
        """Ranks of the nodes whose filters have a bit; may contain repeats."""
        tags = self._tags[self._ends[position] : self._ends[position + 1]]
        return np.concatenate([np.empty(0, np.int32), *map(self._holders.peers_of, tags)])

    def summed(self, first: int, span: int) -> DescriptionAggregate:
        """The aggregate of `span` nodes from a rank on."""
        inside = ((np.arange(self._count) - first) % self._count < span).astype(np.int64)
        field = np.zeros(self.bits, np.bool_)
        field[self._positions[self._holders.sums(inside) > 0].ravel()] = True
        return DescriptionAggregate(np.packbits(field, bitorder="little").tobytes())


class LazySharpPeers(LazyPeers):
    """The lazy peers of a condcast ring."""

    def __init__(
        self, plan: Plan, common: tuple[str, ...], distinct: Callable[[Sequence[int]], list[int]]
    ) -> None:
        """`common`: the landmarks, if keys depend on tags; `distinct`: resolves equal keys."""
        self._plan, self._network, self._common = plan, plan.network, common
        self._settings, self._chance = settings_of(plan.parameters, plan.resting), Random()
        keys = [
            key_of(self._network, name_of(self._network, address, 0), each, common)
            for address, each in enumerate(plan.descriptions)
        ]
        by_address = np.array(distinct(keys), np.int64)
        order = np.argsort(by_address)
        self._address, self.keys = order.astype(np.int32), by_address[order]
        self._rank = np.empty(plan.peers, np.int32)
        self._rank[order] = np.arange(plan.peers, dtype=np.int32)
        holders = TagHolders([plan.descriptions[each] for each in order.tolist()])
        self._filters = Filters(holders, plan.peers, self._settings.bits, self._settings.hashes)
        self._columns: Recent[object, Levels] = Recent(max(1, COLUMNS_BYTES_MAX // plan.peers))
        self._steps = [1 << level for level in range((plan.peers - 1).bit_length())]
        self._lane = Lane(self._rank, self._address, self.keys, self._levels_for, self._furnish)
        self._furnished: list[LazySharpPeer] = []
        self._stored: list[int] | None = None

    def make(self, address: int) -> Peer:
        member = LazySharpPeer(self._site(address), self._settings, self._lane)
        member.describe(self._plan.descriptions[address])
        return member

    def _site(self, address: int) -> Site:
        """`Plan.site` of a member, with the common parts computed once and one random generator
        reused.
        """
        plan, chance = self._plan, self._chance
        chance.seed(digest_bits(64, plan.seed, "life", address, 0, 0, 0))
        return Site(
            name_of(self._network, address, 0),
            next_incarnation(0, chance),
            address,
            plan.host(address),
            plan.parameters,
            self._network,
            plan.roles,
            self._common,
            None,
            plan.resting,
        )

    def _levels_for(self, query: object) -> Levels | None:
        """The levels of a query, cached while its target is active."""
        known = self._columns.get(query)
        if known is None:
            known = self._filters.levels(query)
            if known is None:
                return None
        self._columns.put(query, known)
        return known

    # --- parts made on demand

    def _furnish(self, member: LazySharpPeer) -> None:
        """Set neighbours, fingers and visibility as `assemble` and registering do."""
        at, count = int(self._rank[member.address]), len(self.keys)  # type: ignore[index]
        member.awake(int(self.keys[at]))
        known = min(member.links.settings.lefts, count - 1)
        lefts = tuple(self._ref(at - step) for step in range(1, known + 1))
        member.links.restore(self._ref(at - 1), self._ref(at + 1), lefts)
        ends: list[Key | None] = [self._ref(at + 2 * step).key for step in self._steps]
        values = LazyValues(lambda: self._aggregates(at))
        member.ring.restore(TableState(self._fingers(at), ends, values))
        member.restore(member.own)
        self._furnished.append(member)

    def _ref(self, rank: int) -> Ref:
        rank %= len(self.keys)
        return Ref(int(self.keys[rank]), int(self._address[rank]))

    def _fingers(self, at: int) -> list[Ref]:
        return [self._ref(at + step) for step in self._steps]

    def _aggregates(self, at: int) -> list[FingerValue | None]:
        return [self._filters.summed(at + step, step) for step in self._steps]

    # --- checks

    def objections(self, awake: Mapping[int, Peer]) -> list[str]:
        """Check the columns; and that materialised parts are still in their initial state."""
        rising = np.flatnonzero(self.keys[1:] <= self.keys[:-1])
        wrong = [
            f"after rank {each} keys do not rise"
            for each in islice(rising.tolist(), OBJECTIONS_MAX)
        ]
        if not np.array_equal(np.sort(self._address), np.arange(len(self.keys))):
            wrong.append("some are on the ring twice, and some are not")
        for member in self._furnished:
            links, at = member.links, int(self._rank[member.address])  # type: ignore[index]
            due = IN, self._ref(at), self._ref(at - 1), self._ref(at + 1)
            if (links.state, links.me, links.left, links.right) != due:
                wrong.append(f"{member.address} has changed its place")
            if member.ring.table.nodes != self._fingers(at):
                wrong.append(
                    f"{member.address} has fingers that are not those 1, 2, 4, ... places ahead"
                )
        return wrong[:OBJECTIONS_MAX]

    # --- storage

    def stored_bytes(self, address: int) -> int:
        if self._stored is None:
            self._stored = self._weigh()[self._rank].tolist()
        return self._stored[address]

    def _weigh(self) -> Numbers:
        """By rank, bytes of the table with its aggregates and of the neighbours
        (`Condcast.holdings`).
        """
        count, settings = len(self.keys), self._settings
        keys = weights.of_numbers(self.keys)
        refs = 2 + keys + weights.of_numbers(self._address.astype(np.int64))
        known = min(settings.links.lefts, count - 1)
        aggregate = size(DescriptionAggregate(bytes(settings.bits // 8)))
        heads = (
            1
            + 3 * int(weights.of_heads(np.array(len(self._steps))))
            + int(weights.of_heads(np.array(known)))
        )
        total = np.full(count, heads + len(self._steps) * aggregate, np.int64) + np.roll(refs, 1)
        for step in self._steps:
            total += np.roll(refs, -step) + np.roll(keys, -2 * step)
        for step in range(1, known + 1):
            total += np.roll(refs, step)
        return total
