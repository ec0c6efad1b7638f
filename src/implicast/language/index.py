"""Inverted index over descriptions: resolves targets by set algebra over posting lists, not by
scanning.

Used wherever many descriptions are stored: by the server and by brokers. Every key has a place, and
a posting list is a Roaring bitmap of places: sets of a hundred thousand places are combined in
microseconds. An answer as an array of places, or a count, costs no more than that; an answer as keys
costs its own length besides. Answers are sorted, so that iteration is the same in every process.
`bench/index.py` compares it with scanning, `bench/lab_select.py` with bitmaps alone.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from pyroaring import BitMap

from implicast.language.target import Description, Predicate, Scalar, Target, Term

Key = TypeVar("Key", int, str, bytes, tuple[str, int], int | tuple[str, int])
"""Holder of a description: an address, or any other number or name. Keys of one index compare with
each other.
"""


class Index(Generic[Key]):
    """Descriptions by key, and keys by tag and by value."""

    __slots__ = ("_all", "_descriptions", "_free", "_keys", "_places", "_tags", "_values")

    def __init__(self) -> None:
        self._descriptions: dict[Key, Description] = {}
        self._places: dict[Key, int] = {}
        self._keys: list[Key] = []
        """By place. A place that is free keeps the key it had last."""
        self._free: list[int] = []
        self._all = BitMap()
        self._tags: dict[str, BitMap] = {}
        self._values: dict[str, _Column] = {}

    def __len__(self) -> int:
        return len(self._descriptions)

    def __contains__(self, key: Key) -> bool:
        return key in self._descriptions

    def __iter__(self) -> Iterator[Key]:
        """All keys, sorted."""
        return iter(sorted(self._descriptions))

    def description(self, key: Key) -> Description | None:
        return self._descriptions.get(key)

    def add(self, key: Key, description: Description) -> None:
        """Keep this description, in the place of any earlier one of this key."""
        self.remove(key)
        self._descriptions[key] = description
        place = self._place_for(key)
        for tag in description.tags:
            posting = self._tags.get(tag)
            if posting is None:
                posting = self._tags[tag] = BitMap()
            posting.add(place)
        for value in description.values:
            self._values.setdefault(value.attribute, _Column()).add(value.value, place)

    def _place_for(self, key: Key) -> int:
        if self._free:
            place = self._free.pop()
            self._keys[place] = key
        else:
            place = len(self._keys)
            self._keys.append(key)
        self._places[key] = place
        self._all.add(place)
        return place

    def remove(self, key: Key) -> Description | None:
        """Forget this key; what it was described as, or None if it was not known."""
        description = self._descriptions.pop(key, None)
        if description is None:
            return None
        place = self._places.pop(key)
        for tag in dict.fromkeys(description.tags):  # a stranger may say a tag twice
            posting = self._tags[tag]
            posting.discard(place)
            if not posting:
                del self._tags[tag]
        for value in dict.fromkeys(description.values):
            self._values[value.attribute].discard(value.value, place)
        self._all.discard(place)
        self._free.append(place)
        return description

    def key(self, place: int) -> Key:
        """The key at a place of an array of `select_places`."""
        return self._keys[place]

    def tags(self) -> list[str]:
        """All tags in the index, sorted."""
        return sorted(self._tags)

    def held(self) -> tuple[str, ...]:
        """All tags in the order of insertion, which takes a tenth of the time of sorting them."""
        return tuple(self._tags)

    def count(self, tag: str) -> int:
        """How many hold this tag."""
        return len(self._tags.get(tag, ()))

    def rarest(self, tags: Iterable[str]) -> str:
        """The tag that the fewest hold; the first in order among equals."""
        return min(tags, key=lambda tag: (self.count(tag), tag))

    def select(self, target: Target) -> list[Key]:
        """The keys that the target selects, sorted."""
        return self._sorted_keys(self._selected_by_any(target))

    def select_places(self, target: Target) -> "array[int]":
        """The places of the keys that the target selects, ascending. A place stands for its key
        until the key is removed.
        """
        found: array[int] = self._selected_by_any(target).to_array()
        return found

    def count_selected(self, target: Target) -> int:
        """How many keys the target selects."""
        return len(self._selected_by_any(target))

    def select_term(self, term: Term) -> list[Key]:
        """The keys that one term selects, sorted."""
        return self._sorted_keys(self._selected(term))

    def select_least(self, target: Target, term: Term) -> list[Key]:
        """The keys for which `term` is the least of the target's terms that select them, sorted.

        Over all terms of a target these lists are disjoint and together are `select(target)`.
        Therefore several peers can each serve one term, and no member is notified twice.
        """
        found = self._selected(term)
        for earlier in target.terms[: target.terms.index(term)]:
            if not found:
                break
            found = found - self._selected(earlier)
        return self._sorted_keys(found)

    def _sorted_keys(self, places: BitMap) -> list[Key]:
        keys = self._keys
        return sorted([keys[place] for place in places])

    def _selected_by_any(self, target: Target) -> BitMap:
        """Not to be changed."""
        if len(target.terms) == 1:
            return self._selected(target.terms[0])
        return BitMap.union(BitMap(), *(self._selected(term) for term in target.terms))

    def _selected(self, term: Term) -> BitMap:
        """Not to be changed: it may be a posting list itself."""
        found = self._holders(term)
        for tag in term.lacks:
            if found and tag in self._tags:
                found = found - self._tags[tag]
        predicates = term.where if term.has else term.where[1:]
        if not found or not predicates:
            return found
        return BitMap(
            [place for place in found if all(self._admits(each, place) for each in predicates)]
        )

    def _holders(self, term: Term) -> BitMap:
        """Places of keys that hold all wanted tags; without any, of those that the first predicate
        admits.
        """
        if not term.has:
            return self._admitted(term.where[0]) if term.where else self._all
        tags = self._tags
        try:
            found = tags[term.has[0]]
            for tag in term.has[1:]:
                found = found & tags[tag]
        except KeyError:
            return _NO_PLACES
        return found

    def _admitted(self, predicate: Predicate) -> BitMap:
        column = self._values.get(predicate.attribute)
        return _NO_PLACES if column is None else column.admitted(predicate)

    def _admits(self, predicate: Predicate, place: int) -> bool:
        value = self._descriptions[self._keys[place]].value(predicate.attribute)
        return value is not None and predicate.admits(value)


_NO_PLACES = BitMap()


class _Column:
    """One attribute's values: the places of each, and the numbers among them in order."""

    __slots__ = ("numbers", "postings")

    def __init__(self) -> None:
        self.postings: dict[Scalar, BitMap] = {}
        self.numbers: list[int] = []

    def add(self, value: Scalar, place: int) -> None:
        if value not in self.postings:
            self.postings[value] = BitMap()
            if isinstance(value, int):
                insort(self.numbers, value)
        self.postings[value].add(place)

    def discard(self, value: Scalar, place: int) -> None:
        posting = self.postings[value]
        posting.discard(place)
        if not posting:
            del self.postings[value]
            if isinstance(value, int):
                del self.numbers[bisect_left(self.numbers, value)]

    def admitted(self, predicate: Predicate) -> BitMap:
        """Not to be changed."""
        if isinstance(predicate.low, str):
            return self.postings.get(predicate.low, _NO_PLACES)
        assert not isinstance(predicate.high, str), "a range has two ends of one kind"
        first = 0 if predicate.low is None else bisect_left(self.numbers, predicate.low)
        last = (
            len(self.numbers)
            if predicate.high is None
            else bisect_right(self.numbers, predicate.high)
        )
        return BitMap.union(BitMap(), *(self.postings[value] for value in self.numbers[first:last]))
