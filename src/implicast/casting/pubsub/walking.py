"""How a request goes through a range where order is kept: by right neighbours, or by fingers.

Small-domain remedy: with fewer values than nodes the walk would pass over nodes without any value; when more than half
of log2 N of them are to be expected between two values, fingers are the shorter way. Section 4.3.
"""

from collections.abc import Sequence
from math import log2

from implicast.casting.pubsub.placing import Hashing, Span
from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links import Ref


def walks(walk: str, hashing: Hashing, span: Span, nodes: float) -> bool:
    """Whether a request goes through a range by right neighbours. `walk`: always so, never, or `auto`."""
    if walk != "auto" or len(span) == 1:
        return walk != "fingers"
    return hashing.gap(span.attribute, nodes) <= log2(max(2.0, nodes)) / 2


def nodes_estimate(table: FingerTable, lefts: Sequence[Ref]) -> float:
    """How many nodes the ring has, judging by how densely the neighbourhood is settled."""
    if table.right == table.me:
        return 1.0
    others = [ref for ref in lefts if ref.address != table.me.address]
    reach = table.right_distance + max((-table.far(ref) & table.mask for ref in others), default=0)
    return (1 + len(others)) * (1 << table.bits) / max(1, reach)
