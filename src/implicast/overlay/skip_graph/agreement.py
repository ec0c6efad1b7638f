"""Whether two lists of neighbours say the same, and who is the neighbour to be asked. Pure.

That nobody is missing anywhere once all agree is a law in `tests/laws`: with whom to compare is chosen so that it holds
also where several places of one peer stand in a row.
"""

from implicast.overlay.skip_graph.lists import Lists
from implicast.overlay.skip_graph.messages import ListSpan
from implicast.overlay.skip_graph.table import Level
from implicast.peer.contract import Address
from implicast.peer.identity import Certificate


def beside(level: Level[Certificate]) -> list[Certificate]:
    """Who stands next to the owner of a list, on either side."""
    nodes, own = level.nodes, level.own
    sides = [own - 1, own + 1]
    return [nodes[at % len(nodes)] for at in sides if (level.full or 0 <= at < len(nodes)) and at % len(nodes) != own]


def neighbour(level: Level[Certificate], me: Address, is_left: bool) -> Certificate | None:
    """The next on one side of a list that is not of the same peer; of our own places we know without a word. In a list
    that is not the whole ring nobody stands beyond its end."""
    nodes, own, step = level.nodes, level.own, -1 if is_left else 1
    size = len(nodes)
    for places in range(1, size if level.full else own + 1 if is_left else size - own):
        node = nodes[(own + step * places) % size]
        if node.address != me:
            return node
    return None


def agrees(lists: Lists, span: ListSpan) -> bool:
    """Whether another's list is plainly the same as ours where both reach; three in four are.

    They overlap from where one begins within the other to where one ends within the other, and name the same between.
    """
    levels = lists.wide.levels
    if not 0 <= span.level < len(levels):
        return False
    level, theirs = levels[span.level], span.keys
    mine = level.keys
    if level.full or span.full:
        return level.full and span.full and len(mine) == len(theirs) and set(mine) == set(theirs)
    if not theirs:
        return False
    begin, end = mine[0] if mine[0] in theirs else theirs[0], mine[-1] if mine[-1] in theirs else theirs[-1]
    if begin not in mine or end not in mine:
        return False
    if (theirs[0] != begin and level.spans(theirs[0])) or (theirs[-1] != end and level.spans(theirs[-1])):
        return False  # they meet at the far side of the ring too
    common = mine[mine.index(begin) : mine.index(end) + 1]
    return bool(common) and common == theirs[theirs.index(begin) : theirs.index(end) + 1]


def contrast(lists: Lists, span: ListSpan) -> tuple[list[Certificate], list[bytes]]:
    """Whom another's list lacks, and whom it has too many by ours, where both reach."""
    levels, limit, vector = lists.wide.levels, lists.vectors.limits[span.level], lists.owner.vector
    level = levels[min(span.level, len(levels) - 1)]
    mine = {node.key: node for node in level.nodes if vector ^ node.vector < limit}
    theirs = {*span.keys, span.owner.key}
    lacking = [node for key, node in mine.items() if key not in theirs and covers(span, key)]
    unknown = [key for key in span.keys if key not in mine and key != span.owner.key and level.spans(key)]
    return lacking, unknown


def covers(span: ListSpan, key: bytes) -> bool:
    """Whether a list that reaches so far would have to name this key."""
    if span.full or not span.keys:
        return True
    first, last = span.keys[0], span.keys[-1]
    return first <= key <= last if first <= last else key >= first or key <= last
