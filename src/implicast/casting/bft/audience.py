"""About how many a target selects, and what a cast to it costs: reckoned from the lists of one member's places. Pure.

A ring of level l holds every alpha^l-th place, drawn at random. So the share of a ring that lies in the range of a tag
is about the tag's share of all places; the lowest ring whose list shows the whole range is the one that is counted. The
places of one member are in different rings: their mean is taken. Tags of one term are taken for independent.
"""

from collections.abc import Sequence

from implicast.casting.bft.keys import HOME, handles_of, within
from implicast.casting.bft.multicast import Arc, inside
from implicast.language.target import Target, Term
from implicast.overlay.skip_graph.table import LevelTable, Node
from implicast.peer.fields import COUNT_MAX


def audience(tables: Sequence[LevelTable[Node]], target: Target, alpha: int, k: int, assured: bool) -> tuple[int, int]:
    """Members that a target selects, and messages that a cast to it takes."""
    everyone = max(1.0, places_in(tables, within(HOME), alpha))
    members = sum(_selected(tables, term, everyone, alpha) for term in target.terms)
    arcs = dict.fromkeys(handles_of(term)[0] for term in target.terms)
    messages = sum(k * places_in(tables, arc, alpha) for arc in arcs) * (2 if assured else 1)
    return round(min(everyone, members)), min(COUNT_MAX, round(messages))


def places_in(tables: Sequence[LevelTable[Node]], arc: Arc, alpha: int) -> float:
    """Places in an arc, by the mean of what several places see."""
    return sum(_seen_in(table, arc, alpha) for table in tables) / len(tables)


def _seen_in(table: LevelTable[Node], arc: Arc, alpha: int) -> int:
    """Exactly if the lowest list shows both ends of the arc, else by the rings above it; the top one is shown whole."""
    for number, level in enumerate(table.levels):
        if level.full or (level.spans(arc.low) and level.spans(arc.high)):
            return sum(inside(level, arc)) * int(alpha**number)
    raise AssertionError("the list of the top level is full")


def _selected(tables: Sequence[LevelTable[Node]], term: Term, everyone: float, alpha: int) -> float:
    share = 1.0
    for arc in handles_of(term):
        share *= min(1.0, places_in(tables, arc, alpha) / everyone)
    return everyone * share
