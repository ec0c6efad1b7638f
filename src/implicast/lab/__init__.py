"""The laboratory: workloads, sweeps, groups, measures and reports, on Spark.

Data walks one way, and every stage is Parquet with a schema declared in `tables.py`:

    workload -> scenarios -> journals -> measures -> summary -> report

Only this room imports pyspark; `import implicast` works without it. `lab.measures(path)` returns what a sweep measured.
"""

from implicast.lab import measures

__all__ = ["measures"]
