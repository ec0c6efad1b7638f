"""Chord's converged state, and its invariants."""

from bisect import bisect_left
from collections.abc import Sequence

from implicast.overlay.chord.chord import Chord
from implicast.overlay.chord.table import FingerTable
from implicast.overlay.links.refs import Ref
from implicast.world.populations.links import assemble_ring, members, opening, pair_objections
from implicast.world.populations.zave import zave_objections


def assemble_chord(nodes: Sequence[Chord]) -> None:
    """Set ring and fingers to their converged state."""
    by_ring = {node.ring: node for node in nodes}
    ordered = assemble_ring(by_ring)
    refs = [ring.me for ring in ordered]
    keys = [ref.key for ref in refs]
    for ring in ordered:
        node = by_ring[ring]
        node.restore(true_fingers(ring.me, ring.right, node.table.bits, keys, refs))


def true_fingers(
    me: Ref, right: Ref, bits: int, keys: Sequence[int], refs: Sequence[Ref]
) -> dict[int, Ref]:
    """finger[i] = successor(self + 2^i), for the levels that the right neighbour does not cover."""
    mask, found = (1 << bits) - 1, {}
    covered = bits if right == me else ((right.key - me.key) & mask).bit_length()
    for level in range(covered, bits):
        ref = refs[bisect_left(keys, (me.key + (1 << level)) & mask) % len(refs)]
        if ref.address != me.address:
            found[level] = ref
    return found


Sound = dict[FingerTable, list[int]]
"""Tables found without a finger before its start, with their list of distances, which is replaced
when fingers change.
"""


def chord_objections(
    nodes: Sequence[Chord], exact: bool = True, sound: Sound | None = None
) -> list[str]:
    """Violations of a Chord ring at rest: the ring, then the fingers.

    Exact fingers are the successors of their starts. After simultaneous changes they may differ
    until refreshed, but none may lie before its start. `sound` caches results for repeated checks.
    """
    sound = {} if sound is None else sound
    rings = [node.ring for node in nodes]
    among = members(rings)
    open_at = opening(rings, among)
    if open_at is not None:
        return [f"the ring is open: {open_at}"]
    wrong = pair_objections(rings, among) + zave_objections(among)
    by_address = {node.address: node for node in nodes}
    inside = [by_address[ring.address] for ring in among]
    keys, refs = [node.table.own for node in inside], [node.ring.me for node in inside]
    for node in inside:
        table = node.table
        if table.right != node.ring.right:
            wrong.append(f"{node.address} routes by another right neighbour than its ring's")
        if exact and table.levels != true_fingers(
            node.ring.me, node.ring.right, table.bits, keys, refs
        ):
            wrong.append(f"{node.address} has fingers that are not the successors of their starts")
        if sound.get(table) is not table.distances:
            if _is_early(table):
                wrong.append(f"{node.address} has a finger before its start")
            else:
                sound[table] = table.distances
    return wrong


def _is_early(table: FingerTable) -> bool:
    """Whether a finger lies before its start. Called for every table at every check, so it avoids a
    call for each finger.
    """
    own, mask = table.own, table.mask
    return True in [(ref.key - own) & mask < 1 << level for level, ref in table.levels.items()]
