"""Ranges of values on a grid: numbers from low to high, both included, or a single string.

Numbers are whole grid steps. A string has no neighbours: its range begins and ends with it.
"""

from collections.abc import Sequence

Step = int | str
ValueRange = tuple[Step, Step]


def values(value_range: ValueRange) -> Sequence[Step]:
    low, high = value_range
    return range(low, high + 1) if isinstance(low, int) and isinstance(high, int) else (low,)


def in_pieces(value_range: ValueRange, most: int) -> list[ValueRange]:
    """Return a range as at most `most` consecutive ranges of about equal length."""
    low, high = value_range
    if isinstance(low, str) or isinstance(high, str) or low == high:
        return [value_range]
    length = -(-(high - low + 1) // most)
    return [(start, min(high, start + length - 1)) for start in range(low, high + 1, length)]


def overlap(one: ValueRange, other: ValueRange) -> ValueRange | None:
    """Return the values that both ranges contain."""
    (low, high), (start, end) = one, other
    if (
        isinstance(low, str)
        or isinstance(high, str)
        or isinstance(start, str)
        or isinstance(end, str)
    ):
        return one if one == other else None
    return (max(low, start), min(high, end)) if max(low, start) <= min(high, end) else None


def without(value_range: ValueRange, low: Step, high: Step) -> list[ValueRange]:
    """Return a range without the values low..high."""
    start, end = value_range
    if (
        isinstance(start, str)
        or isinstance(end, str)
        or isinstance(low, str)
        or isinstance(high, str)
    ):
        return [] if start == low else [value_range]
    parts = [(start, min(end, low - 1)), (max(start, high + 1), end)]
    return [(first, last) for first, last in parts if first <= last]
