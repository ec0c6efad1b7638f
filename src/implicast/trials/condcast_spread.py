"""A cast over fixed tables, without peers and time: which node sends which arcs to which node."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from implicast.casting.condcast.split import Match, NextHops, split
from implicast.overlay.chord_sharp import Table
from implicast.peer.contract import Address
from implicast.space.ring import Arc

Split = Callable[[Table, tuple[Arc, ...], Match], tuple[bool, NextHops]]


class SentArcs(NamedTuple):
    """One message of a cast; `hops` includes this message."""

    sender: Address
    receiver: Address
    arcs: tuple[Arc, ...]
    hops: int


@dataclass(slots=True)
class ArcSpread:
    """The messages and deliveries of one cast."""

    sent: list[SentArcs] = field(default_factory=list)
    delivered: list[Address] = field(default_factory=list)
    """In order of delivery; a node listed twice was notified twice."""


def spread(
    tables: Mapping[Address, Table],
    source: Address,
    arcs: tuple[Arc, ...],
    match: Match,
    by: Split = split,
) -> ArcSpread:
    """Carry a cast to its end. A node's own value is the one in its table."""
    result = ArcSpread()
    waiting = deque([(source, arcs, 0)])
    while waiting:
        address, arcs, hops = waiting.popleft()
        table = tables[address]
        here, onward = by(table, arcs, match)
        if here and table.own is not None and match(table.own):
            result.delivered.append(address)
        for node, pieces in onward:
            result.sent.append(SentArcs(address, node.address, pieces, hops + 1))
            waiting.append((node.address, pieces, hops + 1))
    return result
