"""Both tables of a place at once, for those who change often: what `table_of` and `every_class` give, 15 times faster.

One walk to each side finds how far the list and the wider every-class list of a level reach, and the one is sliced out
of the other. Of a table cut before only those lists are cut again that somebody who came or went belongs to: three of
ten in the mean. That two nodes share so many digits is one exclusive-or and one comparison. (`tests/laws` holds all
of it to the definitions.)
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping

from implicast.overlay.skip_graph.table import Level, Node, Table
from implicast.space.vector import Vectors

Both = tuple[Table[Node], Table[Node]]
"""The table of a place, and its every-class table."""
Ring = list[tuple[int, Node]]
"""All others of a ring clockwise from the owner on, each with the exclusive-or of its vector and the owner's."""
MOVED_MAX = 8
"""When more than so many have come or gone, all lists are cut again: to look whom each concerns would cost as much."""


def both_tables(
    owner: Node,
    known: Mapping[bytes, Node],
    k: int,
    vectors: Vectors,
    before: Both[Node] | None = None,
    moved: Collection[Node] = (),
) -> Both[Node]:
    """The owner's table and its every-class table if the nodes known, by key, were all there are.

    `moved` are those who came or went since the tables `before` were cut.
    """
    old = before[1].levels if before is not None and len(moved) <= MOVED_MAX else ()
    vector, limits = owner.vector, vectors.limits
    apart = [(node.vector ^ vector, node.key) for node in moved] if old else []
    whole: Ring[Node] | None = None
    narrow: list[Level[Node]] = []
    wide: list[Level[Node]] = []
    is_top = False
    while not is_top:
        number = len(wide)
        limit, near = limits[number], limits[number + 1]
        if before is not None and number < len(old) and not _concerns(old[number], apart, limit):
            lists, is_top = (before[0].levels[number], old[number]), number == len(old) - 1
        else:
            ring = _mended(old[number], owner, known, moved, limit, near) if number < len(old) else None
            if ring is not None:
                near = 1
            else:
                ring = _ring(owner, known, limit) if whole is None else [each for each in whole if each[0] < limit]
                whole = ring
            lists, is_top = _cut(owner, ring, near, number, k, vectors)
        narrow.append(lists[0])
        wide.append(lists[1])
    return Table(owner, narrow), Table(owner, wide)


def _mended(
    old: Level[Node], owner: Node, known: Mapping[bytes, Node], moved: Iterable[Node], limit: int, near: int
) -> Ring[Node] | None:
    """Those among whom a list cut before is cut again: who was listed and who came, in order.

    A newcomer can only make a list reach less far. One from which somebody has gone may reach beyond (None); but all of
    a ring are in a full list. Instead of the exclusive-or stands whether it is at least `near`, as the old list says.
    """
    keys, own, vector, me = old.keys, old.own, owner.vector, owner.key
    listed = [*zip(old.fresh, old.nodes, strict=True)]
    ring: Ring[Node] = [*listed[own + 1 :], *listed[:own]]
    for node in moved:
        key = node.key
        held = known.get(key)
        if key in keys:
            before = old.nodes[keys.index(key)]
            if not old.full and (held is None or held.vector != before.vector):
                return None
            ring = [each for each in ring if each[1].key != key]
        if held is not None and (differing := held.vector ^ vector) < limit and old.spans(key):
            insort(ring, (differing >= near, held), key=lambda each: (each[1].key < me, each[1].key))
    return ring


def _ring(owner: Node, known: Mapping[bytes, Node], limit: int) -> Ring[Node]:
    """Those known who belong to a ring: only they have to be sorted."""
    vector = owner.vector
    apart = {key: differing for key, node in known.items() if (differing := node.vector ^ vector) < limit}
    keys = sorted(apart)
    below = bisect_left(keys, owner.key)
    return [(apart[key], known[key]) for key in keys[below:] + keys[:below]]


def _concerns(level: Level[Node], moved: Iterable[tuple[int, bytes]], limit: int) -> bool:
    """Whether any of them is listed there, or would have to be."""
    for differing, key in moved:  # noqa: SIM110 - no generator for each list
        if differing < limit and level.spans(key):
            return True
    return False


def _cut(
    owner: Node, ring: Ring[Node], near: int, number: int, k: int, vectors: Vectors
) -> tuple[tuple[Level[Node], Level[Node]], bool]:
    """The two lists of one level, and whether it is the top one."""
    mine_right, all_right = _reaches(ring, near, k - 1, number, vectors)
    mine_left, all_left = _reaches(reversed(ring), near, k - 1, number, vectors)
    if all_left + all_right <= len(ring) and ring:
        wide = _level(owner, ring, near, (all_left, all_right))
        first, last = all_left - mine_left, all_left + mine_right + 1
        return (Level(wide.nodes[first:last], mine_left, False, wide.fresh[first:last]), wide), False
    me = owner.key
    left = sum([node.key < me for _, node in ring])
    wide = _level(owner, ring, near, (left, len(ring) - left), full=True)
    if wide.fresh.count(False) - 1 < 2 * (k - 1):  # the walks always meet at the top level
        return (wide, wide), True
    return (_level(owner, ring, near, (mine_left, mine_right)), wide), False


def _reaches(
    ring: Iterable[tuple[int, Node]], near: int, wanted: int, number: int, vectors: Vectors
) -> tuple[int, int]:
    """How far along a walk until enough of the own class were met, and until enough of every class were."""
    mine = found_mine = places = 0
    alpha = vectors.alpha
    others, missing = [0] * alpha, alpha - 1
    for differing, node in ring:
        places += 1
        if differing < near:
            mine += 1
            if mine == wanted:
                found_mine = places
                if not missing:
                    break
            continue
        digit = vectors.digit(node.vector, number) if alpha > 2 else 0
        others[digit] += 1
        if others[digit] == wanted:
            missing -= 1
            if not missing and found_mine:
                break
    return found_mine or places, places


def _level(owner: Node, ring: Ring[Node], near: int, reach: tuple[int, int], full: bool = False) -> Level[Node]:
    """The list that reaches so far to the left and to the right."""
    left, right = reach
    listed = [*ring[len(ring) - left :], (0, owner), *ring[:right]]
    return Level([node for _, node in listed], left, full, [differing >= near for differing, _ in listed])
