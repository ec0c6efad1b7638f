"""The journals of nodes below a place, read piece by piece and side by side.

The journal that is furthest behind is read next, so that messages and their arrivals are met
together, however much there is to read. A position belongs to a node and a segment and not to a
path: a second copy of a journal, on another disk, is not read again.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from implicast.lab.errors import TableError
from implicast.lab.storage import Location
from implicast.net.observation.journal import FOLDER, AnyRow, OpenedRow, decoded_rows

STEP_BYTES = 8 << 20
"""Bytes of journals that one step reads: about 150,000 rows, some 100 MB of memory."""
PIECE_BYTES = 1 << 18
"""Bytes that are read of one journal before others have their turn."""
ROW_BYTES = 2 << 20
"""More than any row has."""
IDLE_S = 10.0
"""A journal to which nothing was added for so long is not written any more: nodes write every
second.
"""


class NodeProgress(msgspec.Struct):
    """How far the journal of one node was read, and what it said of its node last."""

    name: bytes
    incarnation: int = -1
    peer: int = -1
    closed: bool = False
    last_us: int = 0
    read: dict[str, int] = {}
    """Bytes of each segment."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that is there."""

    node: str
    name: str
    place: Location
    size: int


class NodeJournals:
    """What is below a place now, beside what was read of it."""

    def __init__(self, source: Location) -> None:
        self.source = source
        self._owners: dict[str, tuple[str, OpenedRow]] = {}
        """Of each segment, by its URL: the node's name, and how it begins."""
        self._segments: list[Segment] = []
        self._written_s: dict[str, float] = {}

    def look(self) -> list[OpenedRow]:
        """List what is there; how each segment begins."""
        self._segments, self._written_s = [], {}
        found = []
        for place, size, written_s in self.source.sized():
            if place.name.endswith(".rows") and place.url.split("/")[-2] == FOLDER:
                owner = self._owner(place)
                if owner is not None:
                    node, opening = owner
                    found.append(opening)
                    self._segments.append(Segment(node, place.name, place, size))
                    self._written_s[node] = max(written_s, self._written_s.get(node, 0.0))
        return found

    def _owner(self, place: Location) -> tuple[str, OpenedRow] | None:
        if place.url not in self._owners:
            first = next(decoded_rows(place.read_from(0, ROW_BYTES)), None)
            if first is None:  # the node has just begun to write it
                return None
            if not isinstance(first[0], OpenedRow):
                raise TableError(f"{place} begins in the middle: it does not say whose it is")
            self._owners[place.url] = first[0].name.hex(), first[0]
        return self._owners[place.url]

    def rows(self, nodes: dict[str, NodeProgress]) -> Iterator[tuple[NodeProgress, AnyRow]]:
        """What is new, up to `STEP_BYTES`, with the progress of its node, which is updated."""
        budget = STEP_BYTES
        while budget > 0:
            unread = self._unread(nodes)
            if not unread:
                return
            segment = min(unread, key=lambda each: (_last_us(nodes, each.node), each.node))
            node = nodes.setdefault(
                segment.node, NodeProgress(bytes.fromhex(segment.node), read={})
            )
            before = node.read.get(segment.name, 0)
            yield from self._piece(segment, node)
            budget -= max(1, node.read.get(segment.name, 0) - before)

    def _piece(self, segment: Segment, node: NodeProgress) -> Iterator[tuple[NodeProgress, AnyRow]]:
        before = node.read.get(segment.name, 0)
        for size in (PIECE_BYTES, ROW_BYTES):
            data = segment.place.read_from(before, min(size, segment.size - before))
            for row, after in decoded_rows(data, before):
                node.read[segment.name] = after
                node.last_us = max(node.last_us, getattr(row, "time_us", 0))
                yield node, row
            if node.read.get(segment.name, 0) > before:
                return
        self._segments.remove(segment)  # half a row at its end: until the next look

    def _unread(self, nodes: dict[str, NodeProgress]) -> list[Segment]:
        """Of each node the first segment with something new."""
        first: dict[str, Segment] = {}
        for each in sorted(self._segments, key=lambda each: each.name):
            read = nodes[each.node].read if each.node in nodes else {}
            if each.size > read.get(each.name, 0):
                first.setdefault(each.node, each)
        return list(first.values())

    def frontier_us(self, nodes: dict[str, NodeProgress]) -> int:
        """Up to when the journals were read: those with something unread, else all."""
        unread = self._unread(nodes)
        if unread:
            return min(_last_us(nodes, each.node) for each in unread)
        return max((each.last_us for each in nodes.values()), default=0)

    def are_over(self, nodes: dict[str, NodeProgress]) -> bool:
        """Was everything read, and does no node write any more?"""
        written = any(self._is_written(name, node) for name, node in nodes.items())
        return not written and not self._unread(nodes)

    def _is_written(self, name: str, node: NodeProgress) -> bool:
        """May more come? Not when the node stopped in order, nor when nothing came for a while. A
        journal that another gatherer reads may grow.
        """
        if node.closed:
            return False
        return name not in self._written_s or time.time() - self._written_s[name] < IDLE_S


def _last_us(nodes: dict[str, NodeProgress], name: str) -> int:
    return nodes[name].last_us if name in nodes else 0
