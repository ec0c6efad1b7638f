"""The laboratory: workloads, sweeps, groups, measures and reports, on Spark.

Data walks one way, and every stage is Parquet with a schema declared in `tables.py`:

    workload -> scenarios -> journals -> measures -> summary -> report

Only this room imports pyspark; `import implicast` works without it. `lab.measures(path)` returns
what a sweep measured.
"""

from importlib import import_module
from typing import Any

__all__ = ["measures"]


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: who reads a bibliography needs no Spark."""
    if name == "measures":
        return import_module("implicast.lab.measures")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
