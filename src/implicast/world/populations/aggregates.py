"""Invariants of the aggregates of a Chord# ring.

Besides those of ring and fingers there is one: no aggregate in use may lack the value of a node in
its range. All tables are checked at once: the values of 1, 2, 4, ... consecutive nodes are combined
in advance, and any arc is covered by two such spans that may overlap, because combining is
idempotent.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from implicast.language.aggregate import DescriptionAggregate, Span, hulls
from implicast.overlay.chord_sharp.chord_sharp import ChordSharp
from implicast.overlay.chord_sharp.messages import FingerValue
from implicast.overlay.chord_sharp.table import combine
from implicast.space.ring import Arc, Key
from implicast.world.populations.chord_sharp import objections
from implicast.world.populations.links import members

Known = Callable[[ChordSharp], bool]
"""Whether all nodes have to know the value of this node."""
Drawn = tuple[int, tuple[Span, ...]]
"""A description aggregate as (filter bits as an integer, spans)."""


def sound_objections(nodes: Sequence[ChordSharp], is_known: Known) -> list[str]:
    """Violations of a ring at rest: the ring, the fingers, then aggregates that lack a value."""
    return objections(nodes) or too_small(nodes, is_known)


def too_small(nodes: Sequence[ChordSharp], is_known: Known) -> list[str]:
    """Aggregates in use that lack a value of their range."""
    by_links = {node.links.me: node for node in nodes}
    ring = [by_links[links.me] for links in members([node.links for node in nodes])]
    if not ring:
        return []
    spans = _Spans(ring, is_known)
    wrong = []
    for node in ring:
        table = node.table
        table.expire(node.host.now_us)
        for level, value in enumerate(table.values):
            arc = table.range(level)
            if arc is None or value is None:
                continue
            due = spans.sum(arc)
            if due is not None and not _holds(value, due):
                wrong.append(
                    f"the aggregate of level {level} at {node.address} lacks the value of a node"
                )
    return wrong


class _Spans:
    """Combined values of arcs; those of 2^i nodes are computed in advance."""

    def __init__(self, ring: Sequence[ChordSharp], is_known: Known) -> None:
        self.keys: list[Key] = [node.links.me.key for node in ring]
        values = [node.listener.value() if is_known(node) else None for node in ring]
        all_aggregates = all(
            value is None or isinstance(value, DescriptionAggregate) for value in values
        )
        # Filters are combined as integers, which takes a third of the time of the whole check.
        self.doubled: list[list[Any]] = [
            [_drawn(value) for value in values] if all_aggregates else list(values)
        ]
        self.both = _either if all_aggregates else _both
        count, step = len(ring), 1
        while 2 * step <= count:
            last = self.doubled[-1]
            self.doubled.append(
                [self.both(last[at], last[(at + step) % count]) for at in range(count)]
            )
            step *= 2

    def sum(self, arc: Arc) -> Any:
        """The combined value of the known nodes in an arc, as `Drawn` for description aggregates;
        None if there are none.
        """
        count = len(self.keys)
        first = bisect_left(self.keys, arc.start)
        last = bisect_left(self.keys, arc.end)
        wraps = not arc.start < arc.end  # type: ignore[operator]
        inside = count - first + last if wraps else last - first
        if not inside:
            return None
        inside = min(inside, count)
        level = inside.bit_length() - 1
        ready, first = self.doubled[level], first % count
        return self.both(ready[first], ready[(first + inside - (1 << level)) % count])


def _holds(value: FingerValue, due: Any) -> bool:
    """Whether combining the expected value with a value leaves the latter unchanged."""
    if isinstance(due, tuple):
        bits, spans = due
        held = isinstance(value, DescriptionAggregate) and not bits & ~int.from_bytes(value.bits)
        return held and hulls(value.spans, spans) == value.spans  # type: ignore[union-attr]
    return due.alike(value) and combine(value, due) == value


def _drawn(value: FingerValue | None) -> Drawn | None:
    return (
        (int.from_bytes(value.bits), value.spans)
        if isinstance(value, DescriptionAggregate)
        else None
    )


def _either(one: Drawn | None, other: Drawn | None) -> Drawn | None:
    return (
        other
        if one is None
        else one
        if other is None
        else (one[0] | other[0], hulls(one[1], other[1]))
    )


def _both(one: FingerValue | None, other: FingerValue | None) -> FingerValue | None:
    """Combine two values; None is neutral."""
    return other if one is None else one if other is None else combine(one, other)
