"""What can be wrong with the aggregates of a Chord# ring, seen from outside.

Beyond ring and fingers one thing must hold: no aggregate that is in use may lack somebody. It is looked at for all
tables at once: values of any stretch of the ring are put together from stretches of 1, 2, 4, ... nodes, and two of them
that overlap cover any stretch, for putting together twice changes nothing.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from implicast.language.portrait import Portrait, Span, hulls
from implicast.overlay.chord_sharp.chord_sharp import ChordSharp
from implicast.overlay.chord_sharp.messages import Freight
from implicast.overlay.chord_sharp.table import combine
from implicast.space.ring import Arc, Key
from implicast.world.populations.chord_sharp import objections
from implicast.world.populations.links import members

Known = Callable[[ChordSharp], bool]
"""Whether all have to know the value of this node."""
Drawn = tuple[int, tuple[Span, ...]]
"""A portrait as a number and its spans."""


def sound_objections(nodes: Sequence[ChordSharp], is_known: Known) -> list[str]:
    """What is wrong with a ring at rest: the ring, the fingers, then aggregates that lack somebody."""
    return objections(nodes) or too_small(nodes, is_known)


def too_small(nodes: Sequence[ChordSharp], is_known: Known) -> list[str]:
    """Aggregates in use that lack a value which they should have."""
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
                    f"what {node.address} knows of the arc of level {level} lacks somebody in it"
                )
    return wrong


class _Spans:
    """Values of stretches of the ring, those of 2^i nodes made ready."""

    def __init__(self, ring: Sequence[ChordSharp], is_known: Known) -> None:
        self.keys: list[Key] = [node.links.me.key for node in ring]
        values = [node.passenger.value() if is_known(node) else None for node in ring]
        portraits = all(value is None or isinstance(value, Portrait) for value in values)
        # Filters are put together as numbers: a third of the time for the whole look.
        self.doubled: list[list[Any]] = [
            [_drawn(value) for value in values] if portraits else list(values)
        ]
        self.both = _either if portraits else _both
        count, step = len(ring), 1
        while 2 * step <= count:
            last = self.doubled[-1]
            self.doubled.append(
                [self.both(last[at], last[(at + step) % count]) for at in range(count)]
            )
            step *= 2

    def sum(self, arc: Arc) -> Any:
        """What the known nodes in an arc hold, as a value or as what is drawn of portraits; None: there are none."""
        count = len(self.keys)
        first = bisect_left(self.keys, arc.start)
        last = bisect_left(self.keys, arc.end)
        inside = last - first if arc.start < arc.end else count - first + last  # type: ignore[operator]
        if not inside:
            return None
        inside = min(inside, count)
        level = inside.bit_length() - 1
        ready, first = self.doubled[level], first % count
        return self.both(ready[first], ready[(first + inside - (1 << level)) % count])


def _holds(value: Freight, due: Any) -> bool:
    """Whether what is due adds nothing to a value."""
    if isinstance(due, tuple):
        bits, spans = due
        held = isinstance(value, Portrait) and not bits & ~int.from_bytes(value.bits)
        return held and hulls(value.spans, spans) == value.spans  # type: ignore[union-attr]
    return due.alike(value) and combine(value, due) == value


def _drawn(value: Freight | None) -> Drawn | None:
    return (int.from_bytes(value.bits), value.spans) if isinstance(value, Portrait) else None


def _either(one: Drawn | None, other: Drawn | None) -> Drawn | None:
    return (
        other
        if one is None
        else one
        if other is None
        else (one[0] | other[0], hulls(one[1], other[1]))
    )


def _both(one: Freight | None, other: Freight | None) -> Freight | None:
    """Of two, the unknown left out."""
    return other if one is None else one if other is None else combine(one, other)
