"""Attributes made at their first use, without cost to objects that have all of theirs.

In a class with `__getattr__` CPython does not cache attribute lookups: each takes 45 ns instead of
4 ns, and a peer makes thousands of them for each message. Therefore `__getattr__` is in a subclass
with the same slots. An object is of that subclass only until its missing attributes are made.
"""

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def unmade(kind: type, names: tuple[str, ...], make: Callable[[Any], None]) -> Any:
    """Subclass of `kind` for objects that lack these attributes. At the first use of one of them
    `make` is called, which sets all of them and changes the object's class to `kind`.
    """

    def find(self: Any, name: str) -> Any:
        if name not in names:
            raise AttributeError(name)
        make(self)
        return getattr(self, name)

    return piecemeal(kind, find)


@cache
def piecemeal(kind: type, find: Callable[[Any, str], Any]) -> Any:
    """Subclass of `kind` for objects of which some attributes may never be needed. `find` makes one
    attribute, or raises AttributeError.
    """
    return type(
        kind.__name__,
        (kind,),
        {"__slots__": (), "__getattr__": find, "__module__": kind.__module__},
    )
