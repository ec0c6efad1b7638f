"""The atlas: who owns what, as far as a peer knows; and which titles touch. One rule: for each code the best wins.

Titles are joined, never overwritten: `learn` is the least upper bound of two maps from codes to best titles, so it is
commutative, associative and idempotent, and neither loss nor repeats nor the order of news matter.
What is left of a prefix after another was taken out of it is again a few prefixes.
"""

from collections.abc import Callable, Iterable, Sequence

from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address, in_order
from implicast.peer.late import unmade
from implicast.space import prefix
from implicast.space.prefix import Span, touch
from implicast.space.tract import Tract, prefixes, subtract, union


def better(one: Title, other: Title) -> bool:
    """Larger epoch; at equal epochs the smaller owner."""
    return one.epoch > other.epoch or (
        one.epoch == other.epoch and in_order(one.owner) < in_order(other.owner)
    )


def overlap(one: Title, other: Title) -> bool:
    return one.low < other.high and other.low < one.high


def remainder(title: Title, without: Iterable[Title]) -> list[Title]:
    """What is left of a title when others are taken out of it."""
    rest = subtract((title.low, title.high), union((each.low, each.high) for each in without))
    return [Title(low, bits, title.epoch, title.owner) for low, bits in prefixes(rest)]


class Atlas:
    """Disjoint titles, by the first code of each."""

    __slots__ = ("_draw", "titles")

    def __init__(self, titles: Iterable[Title] = ()) -> None:
        self.titles: dict[int, Title] = {each.low: each for each in titles}

    def draw_later(self, titles: Callable[[], Iterable[Title]]) -> None:
        """Have these titles, which are asked for when they are needed."""
        self._draw, self.__class__ = titles, unmade(Atlas, ("titles",), Atlas.draw)
        del self.titles

    def draw(self) -> None:
        self.titles, self.__class__ = {each.low: each for each in self._draw()}, Atlas

    def learn(self, title: Title) -> bool:
        """Take in a title; False if it said nothing new."""
        met = [each for each in self.titles.values() if overlap(each, title)]
        rest = remainder(title, [each for each in met if not better(title, each)])
        if not rest:
            return False
        for each in met:
            if better(title, each):
                del self.titles[each.low]
                self.put(remainder(each, [title]))
        self.put(rest)
        return True

    def put(self, titles: Iterable[Title]) -> None:
        self.titles.update((each.low, each) for each in titles)

    def drop(self, titles: Iterable[Title]) -> None:
        for each in titles:
            del self.titles[each.low]

    def of(self, owner: Address) -> list[Title]:
        return [each for each in self.titles.values() if each.owner == owner]

    def has_exactly(self, owner: Address, titles: Sequence[Title]) -> bool:
        """Are these all the titles of an owner that we know?"""
        known = self.titles
        if any(known.get(each.low) != each for each in titles):
            return False
        return sum([each.owner == owner for each in known.values()]) == len(titles)

    def better_than(self, title: Title) -> list[Title]:
        """Titles that contradict this one and win."""
        if self.titles.get(title.low) == title:
            return []  # the very same, so nothing else overlaps it: the usual case
        met = [each for each in self.titles.values() if overlap(each, title)]
        return [each for each in met if better(each, title)]


def tract_of(titles: Iterable[Title]) -> Tract:
    return union((each.low, each.high) for each in titles)


def touches(one: Title, other: Title, dimensions: int) -> bool:
    """Do two titles share a face?"""
    return touch(one.low, one.bits, other.low, other.bits, dimensions)


def gap_beside(pieces: Iterable[Title], known: Iterable[Title], dimensions: int) -> Span | None:
    """A prefix (first code, bits) next to the pieces that no title covers, or None: the table has no hole."""
    spans = [(each.low, each.high) for each in known]
    return next(
        filter(
            None, (prefix.gap_beside(each.low, each.bits, spans, dimensions) for each in pieces)
        ),
        None,
    )
