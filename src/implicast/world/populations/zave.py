"""Zave's inductive invariant of a ring with neighbour lists, checked on every ring world.

P. Zave, "Reasoning about identifier spaces: how to make Chord correct" (2017): a ring stays one
ordered ring through joins, leaves and failures if two conditions always hold. Chord lists nodes
clockwise; the rings here list them counter-clockwise, so the conditions are mirrored.

    one live left          every member lists a live member on its left
    sufficient principals  more than `lefts` members are principals. A principal lies between no two
                           consecutive nodes of any member's extended list, which begins with the
                           member itself

The conditions hold while no member loses all listed nodes at once. They say nothing of rings of few
members, where one join already passes most of them over, nor of rings without upkeep, whose lists no
member refreshes: those are checked for the first condition only.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from implicast.overlay.links.links import Links
from implicast.overlay.links.state import IN


def zave_objections(inside: Sequence[Links]) -> list[str]:
    """Violations of the invariant among the members of a ring, which are in ring order."""
    if len(inside) < 2:
        return []
    live = {node.me for node in inside}
    wrong = [
        f"{node.address} lists no live node on its left"
        for node in inside
        if node.state == IN and live.isdisjoint(node.lefts)
    ]
    needed = 1 + max(node.settings.lefts for node in inside)
    upkept = all(node.detector is not None for node in inside)
    if wrong or not upkept or len(inside) < 2 * needed:
        return wrong
    count = principals(inside)
    if count < needed:
        wrong.append(f"{count} of {len(inside)} members are principals; {needed} are needed")
    return wrong


def principals(inside: Sequence[Links]) -> int:
    """Number of members that no extended list passes over."""
    places = [node.me.place for node in inside]
    passed = [0] * (len(inside) + 1)
    for node in inside:
        listed = [node.me.place, *(ref.place for ref in node.lefts)]
        for after, before in pairwise(listed):
            first, last = bisect_right(places, before), bisect_left(places, after)
            if before < after:
                passed[first] += 1
                passed[last] -= 1
            elif before > after:  # the pair spans the end of the key space
                passed[first] += 1
                passed[len(inside)] -= 1
                passed[0] += 1
                passed[last] -= 1
    over = found = 0
    for each in passed[:-1]:
        over += each
        found += not over
    return found
