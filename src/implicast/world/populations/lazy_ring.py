"""Lazy peers of a `dht` ring, for networks of a million peers.

A member is materialised on its first input: it gets its neighbours and fingers from the sorted
ring, and the lists of the tags hashed to it from the sorted columns of tags.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from implicast.casting.designs import Design
from implicast.casting.dht.member import TAGS, Dht, packed_of
from implicast.casting.replicated_lists.entries import STAMP_BITS, ListEntry
from implicast.casting.replicated_lists.member import RingMemberState
from implicast.casting.replicated_lists.own_table import OwnEntriesState
from implicast.language.target import Description
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Contact
from implicast.peer.name import name_of, next_incarnation
from implicast.peer.wire import size
from implicast.space.digest import stream
from implicast.space.ring import hashed
from implicast.world.plan import Plan
from implicast.world.populations import weights
from implicast.world.populations.chord import true_fingers
from implicast.world.populations.population import LazyPeers

Numbers = npt.NDArray[np.int64]


class _Numbered(dict[str, int]):
    """Numbers tags in order of first use."""

    def __missing__(self, tag: str) -> int:
        number = self[tag] = len(self)
        return number


class TagHolders:
    """By tag, its holders in order of address, and the position of the tag among each holder's
    tags.
    """

    __slots__ = ("_ends", "_number", "_peer", "_rank", "tags")

    def __init__(self, descriptions: Sequence[Description]) -> None:
        self._number = _Numbered()
        counts = [len(each.tags) for each in descriptions]
        every = chain.from_iterable(each.tags for each in descriptions)
        tag = np.fromiter(map(self._number.__getitem__, every), np.int32, sum(counts))
        peer = np.repeat(np.arange(len(descriptions), dtype=np.int32), counts)
        order = np.argsort(tag, kind="stable")
        self.tags = list(self._number)
        self._peer = peer[order]
        starts = np.concatenate([[0], np.cumsum(counts)])
        self._rank = (order - starts[self._peer]).astype(np.int16)
        self._ends = np.searchsorted(tag[order], np.arange(len(self.tags) + 1))

    def of(self, tag: str) -> tuple[list[int], list[int]]:
        """Addresses of the holders, and the position of the tag among the tags of each, from 0."""
        at = self._number[tag]
        some = slice(int(self._ends[at]), int(self._ends[at + 1]))
        return self._peer[some].tolist(), self._rank[some].tolist()

    def peers_of(self, number: int) -> npt.NDArray[np.int32]:
        """Holders of the tag with this number, in order of address."""
        return self._peer[self._ends[number] : self._ends[number + 1]]

    def sums(self, by_peer: Numbers) -> Numbers:
        """By tag, in the order of `tags`: the sum of a column over its holders."""
        totals = np.concatenate([[0], np.cumsum(by_peer[self._peer])])
        return np.diff(totals[self._ends])

    def counts(self) -> Numbers:
        """By tag, the number of its holders."""
        return np.diff(self._ends)


def _fingers(keys: Numbers, refs: Numbers, bits: int) -> tuple[Numbers, Numbers]:
    """By rank: the number of distinct fingers (`true_fingers` and the right neighbour) and their
    bytes.
    """
    count, mask = len(keys), (1 << bits) - 1
    every = np.arange(count)
    last = (every + 1) % count
    right_far = (keys[last] - keys) & mask
    fingers = (last != every).astype(np.int64)
    entries = refs[last] * fingers
    for level in range(bits if count > 1 else 0):
        found = np.searchsorted(keys, (keys + (1 << level)) & mask) % count
        new = (1 << level > right_far) & (found != every) & (found != last)
        fingers += new
        entries += refs[found] * new
        last = np.where(new, found, last)
    return fingers, entries


class LazyRingPeers(LazyPeers):
    """The lazy peers of a `dht`."""

    def __init__(self, design: Design, plan: Plan) -> None:
        self._design, self._plan = design, plan
        names = [name_of(plan.network, address, 0) for address in range(plan.peers)]
        self._contacts = [Contact(name, address) for address, name in enumerate(names)]
        self._incarnations = [
            next_incarnation(0, stream(plan.seed, "life", each, 0, 0, 0))
            for each in range(plan.peers)
        ]
        keys = np.array([hashed("peer", plan.network, name) for name in names], np.int64)
        order = np.lexsort((np.arange(plan.peers), keys))
        self._keys: list[int] = keys[order].tolist()
        self._refs = [
            Ref(key, address, 0) for key, address in zip(self._keys, order.tolist(), strict=True)
        ]
        self._rank = np.empty(plan.peers, np.int64)
        self._rank[order] = np.arange(plan.peers)
        self._holders = TagHolders(plan.descriptions)
        self._tags: dict[int, list[str]] = {}
        for tag in self._holders.tags:
            self._tags.setdefault(self._holder(hashed(tag)), []).append(tag)
        self._packed = [packed_of(each, design.name == "dht-naive") for each in plan.descriptions]
        self._stored: list[int] | None = None

    def make(self, address: int) -> Dht:
        """Set neighbours, fingers and lists as `assemble` and `preload` do."""
        member = self._plan.new_member(self._design, address)
        assert isinstance(member, Dht), "only a dht has lists of tags"
        refs, count, at = self._refs, len(self._refs), int(self._rank[address])
        known = min(member.links.settings.lefts, count - 1)
        lefts = tuple(refs[at - step] for step in range(1, known + 1))
        member.links.restore(refs[at - 1], refs[(at + 1) % count], lefts)
        links, bits = member.links, member.chord.table.bits
        member.chord.restore(true_fingers(links.me, links.right, bits, self._keys, refs))
        description = self._plan.descriptions[address]
        holders = tuple(refs[self._holder(hashed(tag))].address for tag in description.tags)
        stored = chain.from_iterable(map(self._rows, self._tags.get(at, ())))
        own = OwnEntriesState(description, holders=holders)
        member.restore(RingMemberState(own, stored, serves=True))
        return member

    def _holder(self, key: int) -> int:
        """Rank of the node that owns a key."""
        return bisect_left(self._keys, key) % len(self._keys)

    def stored_bytes(self, address: int) -> int:
        if self._stored is None:
            by_rank = self._weigh_neighbours(self.make(0)) + self._weigh_lists()
            self._stored = by_rank[self._rank].tolist()
        return self._stored[address]

    def _weigh_neighbours(self, member: Dht) -> Numbers:
        """By rank on the ring, bytes of references to other nodes (`RingMember.holdings`)."""
        keys, count, table = np.array(self._keys, np.int64), len(self._keys), member.chord.table
        order = np.argsort(self._rank)
        refs = 2 + weights.of_numbers(keys) + weights.of_numbers(order)
        known = min(member.links.settings.lefts, count - 1)
        lefts = sum(
            (np.roll(refs, step) for step in range(1, known + 1)), np.zeros(count, np.int64)
        )
        fingers, entries = _fingers(keys, refs, table.bits)
        weighed: Numbers = (
            3 + np.roll(refs, 1) + np.roll(refs, -1) + lefts + weights.of_heads(fingers) + entries
        )
        return weighed

    def _weigh_lists(self) -> Numbers:
        """By rank on the ring, bytes of the stored lists."""
        count, tags = len(self._keys), self._holders.tags
        packed = np.fromiter(map(len, self._packed), np.int64, count)
        stamps = weights.of_numbers(np.array(self._incarnations, np.int64) << STAMP_BITS)
        by_peer = 2 + weights.of_contacts(np.arange(count)) + stamps + weights.of_bytes(packed)
        slots = np.array([size((TAGS, "", tag)) + size(hashed(tag)) for tag in tags], np.int64)
        lists = self._holders.sums(by_peer) + self._holders.counts() * slots
        at = np.array([self._holder(hashed(tag)) for tag in tags], np.int64)
        rows = np.bincount(at, self._holders.counts(), count).astype(np.int64)
        return weights.of_heads(rows) + np.bincount(at, lists, count).astype(np.int64)

    def _rows(self, tag: str) -> Iterator[ListEntry]:
        """The entries of a tag's list."""
        key, slot = hashed(tag), (TAGS, "", tag)
        for address, rank in zip(*self._holders.of(tag), strict=True):
            stamp = (self._incarnations[address] << STAMP_BITS) + 1 + rank
            yield ListEntry(key, slot, self._contacts[address], 0, stamp, self._packed[address])
