"""Attributes that are made when they are first looked for, at no cost to objects that have all of theirs.

Where a class has `__getattr__` the interpreter remembers of none of its attributes where they lie: every look at one
takes ten times as long (45 ns instead of 4), and a peer has thousands of looks for each message. So `__getattr__` is in
a class apart, with the same slots, and an object is of it only as long as something of it has not been made.
"""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def unmade(kind: type, names: tuple[str, ...], make: Callable[[Any], None]) -> Any:
    """The class of objects to which these attributes are missing; `make` sets all of them, and the class `kind`."""

    def find(self: Any, name: str) -> Any:
        if name not in names:
            raise AttributeError(name)
        make(self)
        return getattr(self, name)

    return piecemeal(kind, find)


@cache
def piecemeal(kind: type, find: Callable[[Any, str], Any]) -> Any:
    """The class of objects of which some attributes may never be needed; `find` makes one, or raises its name."""
    return type(
        kind.__name__,
        (kind,),
        {"__slots__": (), "__getattr__": find, "__module__": kind.__module__},
    )
