"""Both tables of a place at once, for those who change often: what `table_of` and `every_class` give, 15 times faster.

Keys are sorted and prefixes compared once per node instead of once per level, and one walk to each side finds how far
the list and the wider every-class list of a level reach (`tests/laws` holds it to the definitions).
"""

from collections.abc import Mapping, Sequence

from implicast.overlay.skip_graph.table import Level, Node, Table
from implicast.space.vector import ALPHA_MAX, Vectors

Both = tuple[Table[Node], Table[Node]]
"""The table of a place, and its every-class table."""


def both_tables(
    owner: Node,
    known: Mapping[bytes, Node],
    k: int,
    vectors: Vectors,
    before: Both[Node] | None = None,
    changed: int = 0,
) -> Both[Node]:
    """The owner's table and its every-class table if the nodes known, by key, were all there are.

    Of whoever came or went since `before` was cut, nobody shares more than `changed` digits with the owner: rings above
    that level are as they were, and so are their lists. Two levels of nine are cut in the mean: a quarter of the price.
    """
    ring, left = _around(owner, known)
    bits, width, vector = vectors.length * vectors.width, vectors.width, owner.vector
    shared = [(bits - (vector ^ node.vector).bit_length()) // width for node in ring]
    narrow: list[Level[Node]] = []
    wide: list[Level[Node]] = []
    while True:
        number, size = len(narrow), len(ring)
        if before is not None and changed < number < len(before[1].levels):
            lists = (*narrow, *before[0].levels[number:]), (*wide, *before[1].levels[number:])
            return Table(owner, lists[0]), Table(owner, lists[1])
        kept = [index for index, digits in enumerate(shared) if digits > number]
        fresh = [digits <= number for digits in shared]
        classes = fresh if vectors.alpha == 2 else _classes(ring, fresh, number, vectors)
        mine_right, all_right = _reaches(classes, k - 1, vectors.alpha)
        mine_left, all_left = _reaches(classes[::-1], k - 1, vectors.alpha)
        top, whole = len(kept) < 2 * (k - 1), all_left + all_right > size or not size
        reach = (left, size - left) if whole else (all_left, all_right)
        wide.append(_level(owner, ring, fresh, reach, whole))
        if top:
            narrow.append(wide[-1] if whole else _level(owner, ring, fresh, (left, size - left), full=True))
            return Table(owner, narrow), Table(owner, wide)
        narrow.append(_level(owner, ring, fresh, (mine_left, mine_right)))
        left = sum([index >= size - left for index in kept])
        ring, shared = [ring[index] for index in kept], [shared[index] for index in kept]


def _around(owner: Node, known: Mapping[bytes, Node]) -> tuple[list[Node], int]:
    """All others clockwise from the owner on, and how many of them, the last, have keys below its own."""
    keys = sorted(known)
    right = [known[key] for key in keys if key > owner.key]
    left = [known[key] for key in keys if key < owner.key]
    return right + left, len(left)


def _classes(ring: Sequence[Node], fresh: Sequence[bool], number: int, vectors: Vectors) -> list[int]:
    """The digit class of each at a level; 0 stands for the owner's own."""
    digit = vectors.digit
    return [1 + digit(node.vector, number) if other else 0 for node, other in zip(ring, fresh, strict=True)]


def _reaches(classes: Sequence[int], wanted: int, alpha: int) -> tuple[int, int]:
    """How far along a walk until enough of the own class were met, and until enough of every class were."""
    missing = [wanted] * (1 + ALPHA_MAX)
    open_, found_mine = alpha, 0
    for places, each in enumerate(classes, 1):
        missing[each] -= 1
        if not missing[each]:
            if not each:
                found_mine = places
            open_ -= 1
            if not open_:
                return found_mine, places
    return found_mine or len(classes), len(classes)


def _level(
    owner: Node, ring: list[Node], fresh: list[bool], reach: tuple[int, int], full: bool = False
) -> Level[Node]:
    """The list that reaches so far to the left and to the right; `ring` and `fresh` begin to the right of the owner."""
    left, right = reach
    first = len(ring) - left
    return Level([*ring[first:], owner, *ring[:right]], left, full, [*fresh[first:], False, *fresh[:right]])
