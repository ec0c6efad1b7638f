"""Subscriptions kept at one place, and those that an event matches found without trying all of
them.

A term with tags is filed under the two of its tags that the fewest filed terms name: first under the
rarest, and there under the second. An event looks under each pair of its tags, and what it finds
matches, unless the term has further constraints, which are then tried.

A term without tags is filed under a single value if it has one, else under its narrowest range. A
range is filed under the one or two blocks of 2^i grid values that it touches, 2^i being the first
not below its width. So an event looks into one drawer per value, and per block size that its
attributes occur with, and tries only what it finds there.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from implicast.language.bounds import Word
from implicast.language.target import Description, Predicate, Scalar, Target, Term

Key = TypeVar("Key", bound=Hashable)

Drawer = tuple[str, int, Scalar | None]
"""Attribute, logarithm of the block size (-1 for single values, OPEN for open ends), value or
block.
"""
OPEN = 1 << 16
TagFiles = dict[Word, dict[Word, dict[Key, None]]]
"""Keys by the rarest tag of a term and the second; that is `ALONE` if there is none."""
Filed = tuple[bool, Word, Word]
"""Where a term is filed, the whole or the partial, and under which tags."""
ALONE = ""


class StandingTargets(Generic[Key]):
    """Targets by key, found by what they select."""

    __slots__ = ("_drawers", "_filed", "_levels", "_named", "_partial", "_targets", "_whole")

    def __init__(self) -> None:
        self._targets: dict[Key, Target] = {}
        self._whole: TagFiles[Key] = {}
        """Keys of terms that are a pair of tags and nothing more."""
        self._partial: TagFiles[Key] = {}
        """Keys of terms that constrain more than their pair."""
        self._filed: dict[Key, list[Filed]] = {}
        self._named: dict[Word, int] = {}
        """By tag, how many filed terms name it."""
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
        places = (self._file(key, term) for term in target.terms if term.has)
        self._filed[key] = list(dict.fromkeys(places))
        for drawer in self._filed_under(target):
            self._drawers.setdefault(drawer, {})[key] = None
            levels = self._levels.setdefault(drawer[0], {})
            levels[drawer[1]] = levels.get(drawer[1], 0) + 1

    def remove(self, key: Key) -> None:
        target = self._targets.pop(key, None)
        if target is not None:
            self._unfile(key, target)
        for drawer in self._filed_under(target) if target is not None else ():
            del self._drawers[drawer][key]
            if not self._drawers[drawer]:
                del self._drawers[drawer]
            levels = self._levels[drawer[0]]
            levels[drawer[1]] -= 1
            if not levels[drawer[1]]:
                del levels[drawer[1]]

    def _file(self, key: Key, term: Term) -> Filed:
        for tag in term.has:
            self._named[tag] = self._named.get(tag, 0) + 1
        rarest = sorted(term.has, key=lambda tag: (self._named[tag], tag))
        first, second = rarest[0], rarest[1] if len(rarest) > 1 else ALONE
        whole = len(rarest) <= 2 and not term.lacks and not term.where
        filed_under = self._whole if whole else self._partial
        filed_under.setdefault(first, {}).setdefault(second, {})[key] = None
        return whole, first, second

    def _unfile(self, key: Key, target: Target) -> None:
        for whole, first, second in self._filed.pop(key):
            filed_under = self._whole if whole else self._partial
            drawers = filed_under[first]
            drawers[second].pop(key)
            if not drawers[second]:
                del drawers[second]
            if not drawers:
                del filed_under[first]
        for term in target.terms:
            for tag in term.has:
                self._named[tag] -= 1
                if not self._named[tag]:
                    del self._named[tag]

    def matching(self, description: Description) -> list[Key]:
        """The keys whose targets select the description, in an order that is the same in every
        process.
        """
        found: dict[Key, None] = {}
        tags = description.tags
        held = (ALONE, *tags)
        for first in tags:
            drawers = self._whole.get(first)
            if drawers is not None:
                for second in held:
                    if second in drawers:
                        found.update(drawers[second])  # no loop: an event may match hundreds
        for drawer in _under(self._partial, tags):
            self._try(drawer, description, found)
        for place in self._looked_into(description):
            self._try(self._drawers.get(place, {}), description, found)
        return list(found)

    def _try(
        self, drawer: dict[Key, None], description: Description, found: dict[Key, None]
    ) -> None:
        for key in drawer:
            if key not in found and self._targets[key].selects(description):
                found[key] = None

    def _looked_into(self, description: Description) -> Iterator[Drawer]:
        for each in description.values:
            for level in sorted(self._levels.get(each.attribute, ())):
                yield each.attribute, level, _block(each.value, level)

    def _filed_under(self, target: Target) -> list[Drawer]:
        bare = (term for term in target.terms if not term.has)
        return sorted({drawer for term in bare for drawer in _drawers_of(term)}, key=repr)


def _under(filed_under: TagFiles[Key], tags: tuple[Word, ...]) -> Iterator[dict[Key, None]]:
    """What is filed under each pair of these tags, and under each alone."""
    if not filed_under:
        return
    held = (ALONE, *tags)
    for first in tags:
        drawers = filed_under.get(first)
        if drawers is not None:
            for second in held:
                drawer = drawers.get(second)
                if drawer is not None:
                    yield drawer


def _drawers_of(term: Term) -> list[Drawer]:
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
