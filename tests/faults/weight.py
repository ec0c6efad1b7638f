"""How much memory peers hold: everything that can be reached from them, the world and what is shared left out."""

import gc
import sys
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

OUTSIDE = (
    "implicast.world",
    "implicast.workload",
    "implicast.casting.designs",
    "networkx",
    "random",
    "functools",
)
"""Rooms whose objects are not a peer's own: the world, its network, the plan."""
SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)


def weight(peers: Iterable[Any]) -> int:
    """Bytes of all objects reachable from these peers, each counted once."""
    found: set[int] = set()
    waiting, total = list(peers), 0
    while waiting:
        each = waiting.pop()
        if (
            id(each) in found
            or isinstance(each, SHARED)
            or type(each).__module__.startswith(OUTSIDE)
        ):
            continue
        found.add(id(each))
        total += sys.getsizeof(each)
        waiting += gc.get_referents(each)
    return total
