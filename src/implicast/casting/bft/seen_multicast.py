"""A multicast that a member has seen: which own places have it, and to which parents it reports."""

from dataclasses import dataclass, field

from implicast.casting.bft.messages import Source
from implicast.casting.bft.multicast import KeyRange
from implicast.casting.bft.step_delivery import CoverageNode
from implicast.peer.contract import Address

Arrival = tuple[Address, int, bytes]
"""How a multicast arrived: sender, level, key of the forwarding place."""


@dataclass(slots=True)
class SeenMulticast:
    """A multicast seen here: its source part, the own places that have yet to accept it (`open`),
    and the coverage to report to each parent.
    """

    source: Source
    key_range: KeyRange
    open: list[bytes]
    coverages: dict[Arrival, CoverageNode] = field(default_factory=dict)
