"""The lists of a skip graph by the paper's definition: brute force, without the code that is judged by it."""

from collections.abc import Iterable, Sequence

from implicast.overlay.skip_graph.table import Level, LevelTable, Node
from implicast.space.vector import Vectors
from implicast.world.populations.skip_graph import OBJECTIONS_MAX, compare

EFFORT = 1_000_000
"""The definition costs O(n) per place: all places are examined up to a thousand, an even sample beyond."""


def rule(owner: Node, everyone: Sequence[Node], k: int, vectors: Vectors) -> list[list[bytes]]:
    """The keys of the owner's lists, level by level, clockwise; full lists begin at the smallest key. Brute force."""
    lists: list[list[bytes]] = []
    ring = sorted(everyone, key=lambda node: node.key)
    while True:
        digits = len(lists) + 1
        mine = vectors.prefix(owner.vector, min(digits, vectors.length))
        near = [
            node
            for node in ring
            if vectors.prefix(node.vector, min(digits, vectors.length)) == mine
        ]
        if len(near) - 1 < 2 * (k - 1) or digits > vectors.length:
            lists.append([node.key for node in ring])
            return lists
        at = [node.key for node in ring].index(owner.key)
        to_left = _passed(
            (ring[at - step] for step in range(1, len(ring))), digits, mine, k, vectors
        )
        to_right = _passed(
            (ring[(at + step) % len(ring)] for step in range(1, len(ring))),
            digits,
            mine,
            k,
            vectors,
        )
        lists.append([*reversed(to_left), owner.key, *to_right])
        ring = near


def _passed(path: Iterable[Node], digits: int, mine: int, k: int, vectors: Vectors) -> list[bytes]:
    met, passed = 0, []
    for node in path:
        passed.append(node.key)
        met += vectors.prefix(node.vector, digits) == mine
        if met == k - 1:
            break
    return passed


def objections(
    tables: Sequence[LevelTable[Node]], k: int, vectors: Vectors, names: Sequence[str] = ()
) -> list[str]:
    """Sentences about lists that differ from the rule over the owners of all tables."""
    everyone = [table.owner for table in tables]
    found: list[str] = []
    for index in range(0, len(tables), max(1, len(tables) ** 2 // EFFORT)):
        table = tables[index]
        wanted = rule(table.owner, everyone, k, vectors)
        held = [[node.key for node in level.nodes] for level in table.levels]
        name = names[index] if names else table.owner.key.hex()
        found += [f"{name}: {flaw}" for flaw in compare(wanted, held)]
        if len(found) >= OBJECTIONS_MAX:
            break
    return found[:OBJECTIONS_MAX]


def walk_left(near: Sequence[bool], own: int, wanted: int) -> int:
    """How many places to the left of `own` (circular) until `wanted` marked nodes have been met."""
    return _walk(near, own, wanted, -1)


def walk_right(near: Sequence[bool], own: int, wanted: int) -> int:
    return _walk(near, own, wanted, 1)


def _walk(near: Sequence[bool], own: int, wanted: int, step: int) -> int:
    met = places = 0
    while met < wanted and places < len(near) - 1:
        places += 1
        met += near[(own + step * places) % len(near)]
    return places


def table_of(owner: Node, known: Iterable[Node], k: int, vectors: Vectors) -> LevelTable[Node]:
    """The owner's table if the nodes it knows were all there are. The rule as the paper has it, ring by ring."""
    others = {node.key: node for node in known}
    others[owner.key] = owner
    ring = [others[key] for key in sorted(others)]
    levels: list[Level[Node]] = []
    while True:
        number = len(levels)
        near = [vectors.common(owner.vector, node.vector) > number for node in ring]
        own = next(index for index, node in enumerate(ring) if node.key == owner.key)
        levels.append(cut(ring, near, own, k))
        if levels[-1].full:
            return LevelTable(owner, levels)
        ring = [node for node, is_near in zip(ring, near, strict=True) if is_near]


def cut(ring: Sequence[Node], near: Sequence[bool], own: int, k: int) -> Level[Node]:
    """The list that the rule cuts out of a ring; `near` marks those who share one more digit, the owner among them."""
    if sum(near) - 1 < 2 * (k - 1):
        return Level(ring, own, True, [not each for each in near])
    left, right = walk_left(near, own, k - 1), walk_right(near, own, k - 1)
    picked = [(own + place) % len(ring) for place in range(-left, right + 1)]
    return Level(
        [ring[index] for index in picked], left, False, [not near[index] for index in picked]
    )


def every_class(owner: Node, known: Iterable[Node], k: int, vectors: Vectors) -> LevelTable[Node]:
    """The wider lists: at each level, to each side, until every digit class, not only the own one, has k-1 members.

    These are the ones a newcomer must tell: lists are not symmetric, how far v's reaches depends on v's digits, not on
    the newcomer's (ring upkeep, D.1). Every-class lists are symmetric: there are fewer than k-1 of some class between
    me and you, or there are not. So who keeps its own knows whom to tell when it leaves.
    """
    nodes = {node.key: node for node in known}
    nodes[owner.key] = owner
    ring = [nodes[key] for key in sorted(nodes)]
    levels: list[Level[Node]] = []
    while True:
        number = len(levels)
        own = next(index for index, node in enumerate(ring) if node.key == owner.key)
        levels.append(_wide(ring, own, number, k, vectors))
        near = [node for node in ring if vectors.common(owner.vector, node.vector) > number]
        if len(near) - 1 < 2 * (k - 1):
            return LevelTable(owner, levels)
        ring = near


def _wide(ring: Sequence[Node], own: int, number: int, k: int, vectors: Vectors) -> Level[Node]:
    classes = [vectors.digit(node.vector, number) for node in ring]
    marks = [[each == digit for each in classes] for digit in range(vectors.alpha)]
    left = max(walk_left(marked, own, k - 1) for marked in marks)
    right = max(walk_right(marked, own, k - 1) for marked in marks)
    fresh = [each != classes[own] for each in classes]
    if (
        left + right + 1 > len(ring) or len(ring) == 1
    ):  # walks that just meet may leave somebody between unknown
        return Level(ring, own, True, fresh)
    picked = [(own + place) % len(ring) for place in range(-left, right + 1)]
    return Level([ring[index] for index in picked], left, False, [fresh[index] for index in picked])
