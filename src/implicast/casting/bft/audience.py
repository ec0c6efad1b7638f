"""About how many a target selects, and what a cast to it costs: reckoned from the lists of one place. Pure.

A ring of level l holds every alpha^l-th place, drawn at random. So the share of a ring that lies in the range of a tag
is about the tag's share of all places; the smallest ring that is wholly listed is the one that can be counted.
Tags of one term are taken for independent.
"""

from implicast.casting.bft.keys import HOME, handles_of, within
from implicast.casting.bft.multicast import Arc, inside
from implicast.language.target import Target, Term
from implicast.overlay.skip_graph.table import Node, Table
from implicast.peer.fields import COUNT_MAX


def audience(table: Table[Node], target: Target, alpha: int, k: int, assured: bool) -> tuple[int, int]:
    """Members that a target selects, and messages that a cast to it takes."""
    everyone = max(1, places_in(table, within(HOME), alpha))
    members = sum(_selected(table, term, everyone, alpha) for term in target.terms)
    arcs = dict.fromkeys(handles_of(term)[0] for term in target.terms)
    messages = sum(k * places_in(table, arc, alpha) for arc in arcs) * (2 if assured else 1)
    return min(everyone, round(members)), min(COUNT_MAX, messages)


def places_in(table: Table[Node], arc: Arc, alpha: int) -> int:
    """Places in an arc: exactly if the lowest list shows both its ends, else by the whole ring of the top level."""
    for number, level in enumerate(table.levels):
        if level.full or (level.spans(arc.low) and level.spans(arc.high)):
            return sum(inside(level, arc)) * int(alpha**number)
    raise AssertionError("the list of the top level is full")


def _selected(table: Table[Node], term: Term, everyone: int, alpha: int) -> float:
    share = 1.0
    for arc in handles_of(term):
        share *= min(1.0, places_in(table, arc, alpha) / everyone)
    return everyone * share
