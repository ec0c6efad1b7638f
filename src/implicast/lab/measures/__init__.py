"""Measures of journals: what a piece of one bore (`blocks.py`), what that comes to (`facets.py`),
whether the contract was kept (`contract.py`), what change did (`change.py`).

Definitions follow chapter 4 of the thesis; `docs/reference/measures.md` lists them. `all.py` puts
them together.

The room can be called, too: `lab.measures(path)` returns the tables of a folder (`lab/results.py`).
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """A module that can be called: the name is the one that people look for."""

    def __call__(self, path: Any, spark: Any = None, pandas: bool = False) -> Any:
        from implicast.lab.results import measures

        return measures(path, spark, pandas)


sys.modules[__name__].__class__ = _Room
