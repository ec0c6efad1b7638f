"""Where a cast goes from this node now, by its present table."""

from implicast.casting.condcast.messages import Query
from implicast.casting.condcast.split import Match, NextHops, split, split_alone, split_around
from implicast.language.aggregate import TargetQuery
from implicast.overlay.chord_sharp import ChordSharp
from implicast.space.ring import Arc


class ArcRouter:
    """Chooses the form of the condcast procedure that the present table allows."""

    __slots__ = ("_position", "_ring")

    def __init__(self, ring: ChordSharp) -> None:
        self._ring, self._position = ring, ring.links.position

    def split(self, arcs: tuple[Arc, ...], query: Query) -> tuple[bool, NextHops, tuple[Arc, ...]]:
        """Whether this node is in the arcs, the next hops, and the arcs that cannot be reached."""
        match: Match = query.matcher() if isinstance(query, TargetQuery) else query.match
        ring, table, position = self._ring, self._ring.table, self._position
        if not table.nodes and not position.is_alone:
            return split_alone(table, arcs, position.right)
        table.expire(self._ring.host.now_us)
        if ring.any_lost():
            return split_around(table, arcs, match, ring.is_lost)
        return *split(table, arcs, match), ()
