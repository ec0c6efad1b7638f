"""Subscriptions kept at one place, and those that an event matches found without trying all of
them.

Every term is filed under one of its constraints: a tag or a single value if it has one, else its
narrowest range. A range is filed under the one or two blocks of 2^i grid values that it touches,
2^i being the first not below its width. So an event looks into one drawer per tag, per value, and
per block size that its attributes occur with, and tries only what it finds there.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from implicast.language.target import Description, Predicate, Scalar, Target, Term

Key = TypeVar("Key", bound=Hashable)

Drawer = tuple[str, int, Scalar | None]
"""Attribute ("" for tags), logarithm of the block size (-1 for single values, OPEN for open ends),
value or block.
"""
OPEN = 1 << 16


class StandingTargets(Generic[Key]):
    """Targets by key, found by what they select."""

    __slots__ = ("_drawers", "_levels", "_targets")

    def __init__(self) -> None:
        self._targets: dict[Key, Target] = {}
        self._drawers: dict[Drawer, dict[Key, None]] = {}
        self._levels: dict[str, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._targets)

    def items(self) -> Iterator[tuple[Key, Target]]:
        return iter(self._targets.items())

    def put(self, key: Key, target: Target) -> None:
        """Keep this target, in the place of any earlier one of this key."""
        self.remove(key)
        self._targets[key] = target
        for drawer in self._filed_under(target):
            self._drawers.setdefault(drawer, {})[key] = None
            levels = self._levels.setdefault(drawer[0], {})
            levels[drawer[1]] = levels.get(drawer[1], 0) + 1

    def remove(self, key: Key) -> None:
        target = self._targets.pop(key, None)
        for drawer in self._filed_under(target) if target is not None else ():
            del self._drawers[drawer][key]
            if not self._drawers[drawer]:
                del self._drawers[drawer]
            levels = self._levels[drawer[0]]
            levels[drawer[1]] -= 1
            if not levels[drawer[1]]:
                del levels[drawer[1]]

    def matching(self, description: Description) -> list[Key]:
        """The keys whose targets select the description, in the order in which they are filed."""
        found: dict[Key, None] = {}
        for drawer in self._looked_into(description):
            for key in self._drawers.get(drawer, ()):
                if key not in found and self._targets[key].selects(description):
                    found[key] = None
        return list(found)

    def _looked_into(self, description: Description) -> Iterator[Drawer]:
        for tag in description.tags:
            yield "", -1, tag
        for each in description.values:
            for level in sorted(self._levels.get(each.attribute, ())):
                yield each.attribute, level, _block(each.value, level)

    def _filed_under(self, target: Target) -> list[Drawer]:
        return sorted({drawer for term in target.terms for drawer in _drawers_of(term)}, key=repr)


def _drawers_of(term: Term) -> list[Drawer]:
    if term.has:
        return [("", -1, term.has[0])]
    assert term.where, "a term has a tag or a predicate"
    narrowest = min(term.where, key=_width)
    low, high = narrowest.low, narrowest.high
    if low is None or high is None:
        return [(narrowest.attribute, OPEN, None)]
    if isinstance(low, str) or isinstance(high, str) or low == high:
        return [(narrowest.attribute, -1, low)]
    level = (high - low).bit_length()
    return [
        (narrowest.attribute, level, block) for block in range(low >> level, (high >> level) + 1)
    ]


def _width(predicate: Predicate) -> float:
    if isinstance(predicate.low, int) and isinstance(predicate.high, int):
        return predicate.high - predicate.low
    return 0 if isinstance(predicate.low, str) else float("inf")


def _block(value: Scalar, level: int) -> Scalar | None:
    if level == OPEN:
        return None
    return value if level < 0 or isinstance(value, str) else value >> level
