"""What an honest place says when it is asked who is near a claimant. Pure."""

from bisect import bisect_left
from collections.abc import Mapping
from operator import attrgetter

from implicast.overlay.skip_graph.messages import EVERY
from implicast.overlay.skip_graph.table import Level, Table
from implicast.peer.identity import Certificate
from implicast.space.vector import Vectors

_by_key = attrgetter("key")


def answer(
    table: Table[Certificate], vectors: Vectors, k: int, about: Certificate, level: int
) -> tuple[Certificate, ...]:
    """What an honest witness says: its lists of the levels they have in common, its k nearest to the claimant.

    Of one level alone if that is what was asked for.
    """
    levels = range(min(vectors.common(table.owner.vector, about.vector) + 1, len(table.levels)))
    if level != EVERY:  # who looks beyond the end of one list wants to know of nothing else
        levels = levels[level : level + 1] if level in levels else levels[-1:]
        return _but(about, table.named(levels.start, levels.stop))
    listed = table.named(0, levels.stop)
    if levels.stop == len(table.levels) or _is_well_inside(table.levels[0], about.key, k):
        return _but(about, listed)
    everyone = table.everyone
    at = bisect_left(everyone, about.key, key=_by_key)
    near = [everyone[(at + step) % len(everyone)] for step in range(-k, k + 1)]
    beyond = {node.key: node for node in near if node.key not in listed}
    return _but(about, listed | beyond if beyond else listed)


def _is_well_inside(lowest: Level[Certificate], key: bytes, k: int) -> bool:
    """Whether the k nearest to a key on each side are in the lowest list: nobody known stands between those."""
    if lowest.full:
        return True
    at = lowest.position(key)
    return k <= at < len(lowest.nodes) - k


def _but(about: Certificate, named: Mapping[bytes, Certificate]) -> tuple[Certificate, ...]:
    """All but the one who asks."""
    if about.key not in named:
        return tuple(named.values())
    return tuple([node for key, node in named.items() if key != about.key])
