"""Which addresses belong where on a ring, and who has which tag, in columns: for networks of a million peers.

A member of `dht` is made when something happens to it. As long as it only hears, it has no parts; when it is asked for
something else it stands up with its neighbours and fingers, found in the sorted ring, and with the lists of the tags
that are hashed to it, found in the sorted columns of tags.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from implicast.casting.designs import Design
from implicast.casting.dht.member import TAGS, Dht, packed_of
from implicast.casting.keeping.member import RingMember
from implicast.casting.keeping.messages import STAMP_BITS, Row
from implicast.language.target import Description
from implicast.overlay.links.refs import Ref
from implicast.peer.contract import Contact, Peer
from implicast.peer.name import name_of, next_life
from implicast.space.digest import stream
from implicast.space.ring import hashed
from implicast.world.plan import Plan
from implicast.world.populations.chord import true_fingers
from implicast.world.populations.population import Sleepers

Numbers = npt.NDArray[np.int64]


class Holders:
    """By tag, who has it, in order of address, and the so-manieth of its tags it is."""

    __slots__ = ("_ends", "_number", "_peer", "_rank", "tags")

    def __init__(self, descriptions: Sequence[Description]) -> None:
        self._number: dict[str, int] = {}
        count = sum(len(each.tags) for each in descriptions)
        tag = np.fromiter(self._numbered(descriptions), np.int32, count)
        peer = np.repeat(np.arange(len(descriptions), dtype=np.int32), [len(each.tags) for each in descriptions])
        order = np.argsort(tag, kind="stable")
        self.tags = list(self._number)
        self._peer = peer[order]
        starts = np.concatenate([[0], np.cumsum([len(each.tags) for each in descriptions])])
        self._rank = (order - starts[self._peer]).astype(np.int16)
        self._ends = np.searchsorted(tag[order], np.arange(len(self.tags) + 1))

    def _numbered(self, descriptions: Sequence[Description]) -> Iterator[int]:
        number = self._number
        for each in descriptions:
            for tag in each.tags:
                yield number.setdefault(tag, len(number))

    def of(self, tag: str) -> tuple[list[int], list[int]]:
        """Addresses, and which of its tags it is to each, from 0."""
        at = self._number[tag]
        some = slice(int(self._ends[at]), int(self._ends[at + 1]))
        return self._peer[some].tolist(), self._rank[some].tolist()


class RingSleepers(Sleepers):
    """The members of a `dht` of which most have only heard, or nothing at all."""

    def __init__(self, design: Design, plan: Plan) -> None:
        self._design, self._plan = design, plan
        names = [name_of(plan.network, address, 0) for address in range(plan.peers)]
        self._contacts = [Contact(name, address) for address, name in enumerate(names)]
        self._lives = [next_life(0, stream(plan.seed, "life", each, 0, 0, 0)) for each in range(plan.peers)]
        keys = np.array([hashed("peer", plan.network, name) for name in names], np.int64)
        order = np.lexsort((np.arange(plan.peers), keys))
        self._keys: list[int] = keys[order].tolist()
        self._refs = [Ref(key, address, 0) for key, address in zip(self._keys, order.tolist(), strict=True)]
        self._rank = np.empty(plan.peers, np.int64)
        self._rank[order] = np.arange(plan.peers)
        self._holders = Holders(plan.descriptions)
        self._tags: dict[int, list[str]] = {}
        for tag in self._holders.tags:
            self._tags.setdefault(bisect_left(self._keys, hashed(tag)) % plan.peers, []).append(tag)

    def make(self, address: int) -> Peer:
        member = self._plan.begin(self._design, address)
        assert isinstance(member, Dht), "lists of tags are what is kept here"
        member.furnish_later(self._furnish)
        member.stand_listed(self._plan.descriptions[address])
        return member

    def _furnish(self, member: RingMember) -> None:
        """Neighbours, fingers and lists, as `assemble` and `enrol` put them in."""
        assert isinstance(member, Dht), "lists of tags are what is kept here"
        at, refs, count = int(self._rank[member.address]), self._refs, len(self._refs)  # type: ignore[index]
        known = min(member.links.settings.lefts, count - 1)
        lefts = tuple(refs[at - step] for step in range(1, known + 1))
        member.links.stand(refs[at - 1], refs[(at + 1) % count], lefts)
        table = member.chord.table
        table.reset(member.links.me)
        table.set_neighbours(member.links.left, member.links.right)
        table.set_levels(true_fingers(member.chord, self._keys, refs))
        member.tenure.stand()
        member.layings.skip(len(self._plan.descriptions[member.contact.address].tags))  # type: ignore[index]
        for tag in self._tags.get(at, ()):
            member.share.take(self._rows(tag, member.naive))

    def _rows(self, tag: str, naive: bool) -> Iterator[Row]:
        """The list of a tag."""
        key, slot, descriptions = hashed(tag), (TAGS, "", tag), self._plan.descriptions
        for address, rank in zip(*self._holders.of(tag), strict=True):
            stamp = (self._lives[address] << STAMP_BITS) + 1 + rank
            yield Row(key, slot, self._contacts[address], 0, stamp, packed_of(descriptions[address], naive))
