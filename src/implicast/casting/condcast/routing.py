"""Where a cast goes from this node now, by its present table."""

from implicast.casting.condcast.messages import Query
from implicast.casting.condcast.split import Match, split, split_alone, split_around
from implicast.casting.coverage import Split
from implicast.language.aggregate import TargetQuery
from implicast.overlay.chord_sharp import ChordSharp
from implicast.space.ring import Arc


class ArcRouter:
    """Chooses the form of the condcast procedure that the present table allows."""

    __slots__ = ("_position", "_ring")

    def __init__(self, ring: ChordSharp) -> None:
        self._ring, self._position = ring, ring.links.position

    def split(self, arcs: tuple[Arc, ...], query: Query) -> Split[Arc]:
        """Divide arcs among this node and the closest fingers before them."""
        match: Match = query.matcher() if isinstance(query, TargetQuery) else query.match
        ring, table, position = self._ring, self._ring.table, self._position
        if not table.nodes and not position.is_alone:
            here, onward, stuck = split_alone(table, arcs, position.right)
            return Split(arcs if here else (), onward, stuck)
        table.expire(self._ring.host.now_us)
        if ring.any_lost():
            here, onward, stuck = split_around(table, arcs, match, ring.is_lost)
            return Split(arcs if here else (), onward, stuck)
        here, onward = split(table, arcs, match)
        return Split(arcs if here else (), onward)
