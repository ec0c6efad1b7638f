"""Inverted index over descriptions: resolves targets by set algebra over posting lists, not by
scanning.

Used wherever many descriptions are stored: by the server, by brokers and rendezvous peers, and by
oracles. A term costs about the length of the shortest posting list among its tags, an answer its
own length. Answers are sorted, so that iteration is the same in every process. `bench/index.py`
compares it with scanning.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Generic, TypeVar

from implicast.language.target import Description, Predicate, Scalar, Target, Term

Key = TypeVar("Key", int, str, bytes, tuple[str, int], int | tuple[str, int])
"""Holder of a description: an address, or any other number or name. Keys of one index compare with
each other.
"""


class Index(Generic[Key]):
    """Descriptions by key, and keys by tag and by value."""

    __slots__ = ("_descriptions", "_tags", "_values")

    def __init__(self) -> None:
        self._descriptions: dict[Key, Description] = {}
        self._tags: dict[str, set[Key]] = {}
        self._values: dict[str, _Column[Key]] = {}

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
        for tag in description.tags:
            posting = self._tags.get(tag)
            if posting is None:
                posting = self._tags[tag] = set()
            posting.add(key)
        for value in description.values:
            self._values.setdefault(value.attribute, _Column()).add(value.value, key)

    def remove(self, key: Key) -> Description | None:
        """Forget this key; what it was described as, or None if it was not known."""
        description = self._descriptions.pop(key, None)
        if description is None:
            return None
        for tag in dict.fromkeys(description.tags):  # a stranger may say a tag twice
            posting = self._tags[tag]
            posting.discard(key)
            if not posting:
                del self._tags[tag]
        for value in dict.fromkeys(description.values):
            self._values[value.attribute].discard(value.value, key)
        return description

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
        if len(target.terms) == 1:
            return self.select_term(target.terms[0])
        return sorted(set().union(*(self._selected(term) for term in target.terms)))

    def select_term(self, term: Term) -> list[Key]:
        """The keys that one term selects, sorted."""
        return sorted(self._selected(term))

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
        return sorted(found)

    def _selected(self, term: Term) -> "set[Key] | frozenset[Key]":
        """Not to be changed: it may be a posting list itself."""
        found = self._holders(term)
        for tag in term.lacks:
            if found and tag in self._tags:
                found = found - self._tags[tag]
        predicates = term.where if term.has else term.where[1:]
        if not predicates:
            return found
        return {key for key in found if all(self._admits(each, key) for each in predicates)}

    def _holders(self, term: Term) -> "set[Key] | frozenset[Key]":
        """Those who hold all wanted tags; without any, those whom the first predicate admits."""
        if not term.has:
            return self._admitted(term.where[0]) if term.where else set(self._descriptions)
        empty: set[Key] = set()
        # From the shortest posting list up: an intersection costs as much as its smaller side.
        postings = sorted((self._tags.get(tag, empty) for tag in term.has), key=len)
        return reduce(set.intersection, postings)

    def _admitted(self, predicate: Predicate) -> set[Key]:
        column = self._values.get(predicate.attribute)
        return set() if column is None else column.admitted(predicate)

    def _admits(self, predicate: Predicate, key: Key) -> bool:
        value = self._descriptions[key].value(predicate.attribute)
        return value is not None and predicate.admits(value)


class _Column(Generic[Key]):
    """One attribute's values: who has each, and the numbers among them in order."""

    __slots__ = ("numbers", "postings")

    def __init__(self) -> None:
        self.postings: dict[Scalar, set[Key]] = {}
        self.numbers: list[int] = []

    def add(self, value: Scalar, key: Key) -> None:
        if value not in self.postings:
            self.postings[value] = set()
            if isinstance(value, int):
                insort(self.numbers, value)
        self.postings[value].add(key)

    def discard(self, value: Scalar, key: Key) -> None:
        posting = self.postings[value]
        posting.discard(key)
        if not posting:
            del self.postings[value]
            if isinstance(value, int):
                del self.numbers[bisect_left(self.numbers, value)]

    def admitted(self, predicate: Predicate) -> set[Key]:
        if isinstance(predicate.low, str):
            return set(self.postings.get(predicate.low, ()))
        assert not isinstance(predicate.high, str), "a range has two ends of one kind"
        first = 0 if predicate.low is None else bisect_left(self.numbers, predicate.low)
        last = (
            len(self.numbers)
            if predicate.high is None
            else bisect_right(self.numbers, predicate.high)
        )
        return set().union(*(self.postings[value] for value in self.numbers[first:last]))
