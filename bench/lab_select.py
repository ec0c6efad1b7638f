"""Rates of resolving targets and of matching events, beside Roaring bitmaps alone and a plain
dictionary, in one run with equal results.

    python bench/lab_select.py [DESCRIPTIONS] [STANDING]     100,000 and 20,000 by default
"""

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

from pyroaring import BitMap

from implicast.language.index import Index
from implicast.language.standing import StandingTargets
from implicast.language.target import Description, Target
from implicast.workload.workload import workload

EVENTS = 4_000
QUERIES = 4_000


def rate(work: Callable[[Any], Any], given: list[Any]) -> tuple[float, list[Any]]:
    """(a second of processor time, results); the better of two rounds."""
    best = float("inf")
    for _ in range(2):
        began = process_time()
        found = [work(each) for each in given]
        best = min(best, process_time() - began)
    return len(given) / best, found


def bitmaps(descriptions: list[Description]) -> dict[str, BitMap]:
    found: dict[str, list[int]] = {}
    for number, each in enumerate(descriptions):
        for tag in each.tags:
            found.setdefault(tag, []).append(number)
    return {tag: BitMap(numbers) for tag, numbers in found.items()}


def selects(count: int) -> None:
    drawn = workload("zipf", seed=1, peers=count, casts=QUERIES)
    descriptions, targets = drawn.described(), drawn.targeted()
    index: Index[int] = Index()
    for number, each in enumerate(descriptions):
        index.add(number, each)
    held, none = bitmaps(descriptions), BitMap()

    def alone(target: Target) -> Any:
        first, *others = [held.get(tag, none) for tag in target.terms[0].has]
        for each in others:
            first = first & each
        return first.to_array()

    alone_rate, expected = rate(alone, targets)
    places_rate, places = rate(index.select_places, targets)
    count_rate, counts = rate(index.count_selected, targets)
    keys_rate, keys = rate(index.select, targets)
    assert [list(map(index.key, each)) for each in places] == [list(each) for each in expected]
    assert keys == [list(each) for each in expected]
    assert counts == [len(each) for each in expected]
    print(f"{count:,} descriptions of 18 tags, targets of 2 tags, groups of {mean(expected):.0f}")
    print(f"  select as arrays  {places_rate:10,.0f} a second; bitmaps alone {alone_rate:,.0f}")
    print(f"  counts            {count_rate:10,.0f} a second")
    print(f"  select as keys    {keys_rate:10,.0f} a second")


def standing(count: int) -> None:
    targets = workload("zipf", seed=1, peers=2, casts=count).targeted()
    events = workload("zipf", seed=1, peers=EVENTS, casts=1).described()
    filed: StandingTargets[int] = StandingTargets()
    plain: dict[str, list[tuple[int, frozenset[str]]]] = {}
    for number, each in enumerate(targets):
        filed.put(number, each)
        tags = each.terms[0].has
        plain.setdefault(tags[0], []).append((number, frozenset(tags)))

    def by_dictionary(event: Description) -> list[int]:
        tags = frozenset(event.tags)
        return [key for tag in event.tags for key, has in plain.get(tag, ()) if has <= tags]

    plain_rate, expected = rate(by_dictionary, events)
    filed_rate, found = rate(filed.matching, events)
    assert [sorted(each) for each in found] == [sorted(each) for each in expected]
    print(f"{count:,} standing targets of 2 tags, events of 18 tags, {mean(found):.0f} matches")
    print(
        f"  matching          {filed_rate:10,.0f} events a second; a dictionary {plain_rate:,.0f}"
    )


def mean(groups: list[Any]) -> float:
    return sum(map(len, groups)) / len(groups)


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    selects(given[0] if given else 100_000)
    standing(given[1] if len(given) > 1 else 20_000)
