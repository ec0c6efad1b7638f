"""The converged ring of links, and the invariants of assembled and grown rings."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Protocol, TypeVar

from implicast.overlay.links.links import Links
from implicast.overlay.links.refs import Ref
from implicast.overlay.links.state import IN, OUT
from implicast.world.populations.zave import zave_objections


def assemble_ring(nodes: Iterable[Links]) -> list[Links]:
    """Link all nodes into the converged ring, and return them in ring order."""
    ordered = sorted(nodes, key=lambda node: node.me.place)
    count = len(ordered)
    for index, node in enumerate(ordered):
        known = min(node.settings.lefts, count - 1)
        lefts = tuple(ordered[index - step].me for step in range(1, known + 1))
        node.restore(ordered[index - 1].me, ordered[(index + 1) % count].me, lefts)
    return ordered


class Linked(Protocol):
    """What the checks need of a node."""

    @property
    def state(self) -> str: ...

    @property
    def me(self) -> Ref: ...

    @property
    def right(self) -> Ref: ...


Node = TypeVar("Node", bound=Linked)
_KEY = attrgetter("me.key")


def members(nodes: Iterable[Node]) -> list[Node]:
    """The nodes on the ring, in its order."""
    inside = sorted([node for node in nodes if node.state == IN], key=_KEY)
    keys = list(map(_KEY, inside))
    if len(set(keys)) < len(keys):  # ties are broken by name only if there are any: half the cost
        inside.sort(key=lambda node: node.me.place)
    return inside


def opening(nodes: Sequence[Linked], inside: Sequence[Linked] | None = None) -> str | None:
    """The first place where the right pointers of the members do not form one cycle in key order;
    None if the ring is closed. `inside`: the members, if they are known already.
    """
    inside = members(nodes) if inside is None else list(inside)
    if all(
        node.right == after.me for node, after in zip(inside, inside[1:] + inside[:1], strict=True)
    ):
        return None  # the usual case: a fifth of the cost of finding the place
    here = {node.me: node for node in nodes if node.state != OUT}
    cycle = [inside[0].me]
    while (step := here[cycle[-1]].right) != cycle[0]:
        if step not in here:
            return f"{_name(cycle[-1])} has on its right {_name(step)}, which is not there"
        cycle.append(step)
        if len(cycle) > len(here):
            return f"the right pointers from {_name(cycle[0])} do not come back to it"
    if sum(low.place >= high.place for low, high in pairwise([*cycle, cycle[0]])) != 1:
        return "the right pointers are not in clockwise order: " + " ".join(map(_name, cycle))
    on_cycle = set(cycle)
    missing = next((node.me for node in inside if node.me not in on_cycle), None)
    return f"{_name(missing)} is a member off the ring" if missing else None


def ring_objections(nodes: Sequence[Links]) -> list[str]:
    """Violations of a ring at rest: not closed, neighbours that disagree, pending operations."""
    inside = members(nodes)
    open_at = opening(nodes, inside)
    if open_at is not None:
        return [f"the ring is open: {open_at}"]
    return pair_objections(nodes, inside) + zave_objections(inside)


def pair_objections(nodes: Sequence[Links], inside: Sequence[Links]) -> list[str]:
    """Violations of a closed ring at rest: neighbours that disagree, pending operations."""
    wrong = [
        f"{_name(node.me)} is still {node.state}" for node in nodes if node.state not in (IN, OUT)
    ]
    for index, node in enumerate(inside):
        right = inside[(index + 1) % len(inside)]
        if (right.left, right.lnum) != (node.me, node.rnum) or not node.is_confirmed:
            wrong.append(f"{_name(right.me)} does not know {_name(node.me)} as its left neighbour")
        if node.is_pending:
            wrong.append(f"{_name(node.me)} has an operation pending")
    return wrong


def list_objections(nodes: Sequence[Links]) -> list[str]:
    """Lists of left nodes that are not exact. They become exact after `lefts` rounds of
    stabilisation.
    """
    inside = members(nodes)
    wrong = []
    for index, node in enumerate(inside):
        known = min(node.settings.lefts, len(inside) - 1)
        if node.lefts != tuple(inside[index - step].me for step in range(1, known + 1)):
            wrong.append(f"{_name(node.me)} lists other left nodes than there are")
    return wrong


def _name(ref: Ref) -> str:
    return f"{ref.address} (key {ref.key}, incarnation {ref.incarnation})"
