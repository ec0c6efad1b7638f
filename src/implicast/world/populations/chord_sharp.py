"""The converged Chord# ring, and its invariants."""

from collections.abc import Iterable, Iterator, Sequence

from implicast.overlay.chord_sharp.chord_sharp import ChordSharp
from implicast.overlay.chord_sharp.messages import FingerValue
from implicast.overlay.chord_sharp.table import Table, TableState, combine
from implicast.overlay.links.refs import Ref
from implicast.world.populations.links import assemble_ring, members, ring_objections


def assemble(nodes: Iterable[ChordSharp]) -> list[ChordSharp]:
    """Link all nodes and set the converged tables with the present values of their listeners."""
    by_place = {node.links.me: node for node in nodes}
    assert len({ref.key for ref in by_place}) == len(by_place), "keys on a Chord# ring are distinct"
    ring = [by_place[links.me] for links in assemble_ring(node.links for node in by_place.values())]
    if ring:
        refs, values = [node.links.me for node in ring], [node.listener.value() for node in ring]
        for node, state in zip(ring, settled_states(refs, values), strict=True):
            node.restore(state)
    return ring


def objections(nodes: Sequence[ChordSharp]) -> list[str]:
    """Violations of a ring at rest: the ring itself, then fingers that are not 2^level places
    ahead.
    """
    wrong = ring_objections([node.links for node in nodes])
    if wrong:
        return wrong
    refs = [links.me for links in members([node.links for node in nodes])]
    ahead = [
        refs[1 << level :] + refs[: 1 << level] for level in range((len(refs) - 1).bit_length())
    ]
    due = dict(zip(refs, zip(*ahead, strict=True) if ahead else [()], strict=True))
    for node in nodes:
        if due.get(node.links.me, (*node.table.nodes,)) != (*node.table.nodes,):
            wrong.append(
                f"{node.address} has {len(node.table)} fingers "
                "that are not those 1, 2, 4, ... places ahead"
            )
    return wrong


def stale(nodes: Sequence[ChordSharp]) -> int:
    """Number of table entries that differ from the present values of the nodes in their range."""
    ring = sorted(
        (node for node in nodes if node.links.state == "in"), key=lambda node: node.links.me.place
    )
    due = settled_states([node.links.me for node in ring], [node.listener.value() for node in ring])
    pairs = ((node.table.state(), exact) for node, exact in zip(ring, due, strict=True))
    return sum(
        mine != right
        for state, exact in pairs
        for mine, right in zip(zip(*state, strict=True), zip(*exact, strict=True), strict=False)
    )


def settled_tables(
    refs: Sequence[Ref], values: Sequence[FingerValue | None], stale_us: int = 0, now_us: int = 0
) -> list[Table]:
    """The converged tables of nodes in ring order."""
    tables = [Table(ref, value, stale_us) for ref, value in zip(refs, values, strict=True)]
    for table, state in zip(tables, settled_states(refs, values), strict=True):
        table.restore(table.me, table.own, state, now_us)
    return tables


def settled_states(
    refs: Sequence[Ref], values: Sequence[FingerValue | None]
) -> Iterator[TableState]:
    """The contents of the converged tables of nodes in ring order: formulas (5) to (7), by
    doubling.
    """
    count, step, sums = len(refs), 1, list(values)
    levels: list[tuple[int, list[FingerValue | None]]] = []
    while step < count:
        levels.append((step, sums))
        sums = [combine(sums[index], sums[(index + step) % count]) for index in range(count)]
        step *= 2
    for index in range(count):
        ahead = [
            ((index + step) % count, (index + 2 * step) % count, held) for step, held in levels
        ]
        yield TableState(
            [refs[at] for at, _, _ in ahead],
            [None if held[at] is None else refs[end].key for at, end, held in ahead],
            [held[at] for at, _, held in ahead],
        )
