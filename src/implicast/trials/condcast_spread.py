"""A cast over standing tables, without peers and time: who sends what to whom. For trials of the procedure."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from implicast.casting.condcast.split import Match, Onward, split
from implicast.overlay.chord_sharp import Table
from implicast.peer.contract import Address
from implicast.space.ring import Arc

Split = Callable[[Table, tuple[Arc, ...], Match], tuple[bool, Onward]]


class Sent(NamedTuple):
    """One message of a cast; `hops` counts it as well."""

    sender: Address
    receiver: Address
    arcs: tuple[Arc, ...]
    hops: int


@dataclass(slots=True)
class Spread:
    """All that came of one cast."""

    sent: list[Sent] = field(default_factory=list)
    delivered: list[Address] = field(default_factory=list)
    """In the order of delivery; somebody who is in it twice was told twice."""


def spread(
    tables: Mapping[Address, Table],
    source: Address,
    arcs: tuple[Arc, ...],
    match: Match,
    by: Split = split,
) -> Spread:
    """Carry a cast to its end. A node's own value is the one in its table."""
    result = Spread()
    waiting = deque([(source, arcs, 0)])
    while waiting:
        address, arcs, hops = waiting.popleft()
        table = tables[address]
        here, onward = by(table, arcs, match)
        if here and table.own is not None and match(table.own):
            result.delivered.append(address)
        for node, pieces in onward:
            result.sent.append(Sent(address, node.address, pieces, hops + 1))
            waiting.append((node.address, pieces, hops + 1))
    return result
