"""Workloads at any size: registrations and casts as Parquet tables that a world can read.

Drawn ones (`zipf`, `extreme`, `groups`) come from the very functions a world draws with
(`implicast.workload`), each task drawing its ranges of peers and casts; every draw is a function of
seed and key, so neither ranges nor partitions change anything. Corpus ones are in `corpus/`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.session import cores
from implicast.lab.storage import Location
from implicast.language.parameters import Setting
from implicast.workload.workload import Workload, workload

RANGE = 1 << 14
"""Peers or casts drawn at once by a task."""

Drawn = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A drawn workload by name: small enough to travel to every task, which makes it anew."""

    name: str
    seed: int
    peers: int
    casts: int
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def make(self) -> Workload:
        """The workload; raises a `WorkloadError` for whatever is wrong with it."""
        return workload(self.name, self.seed, self.peers, self.casts, **self.settings)

    def described(self) -> dict[str, object]:
        named = {"workload": self.name, "seed": self.seed, "peers": self.peers, "casts": self.casts}
        return named | {"settings": dict(self.settings)}


def registrations(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """(peer, tags): what every peer registers, tags distinct and sorted."""
    drawn = _ranges(spark, recipe.peers).mapInArrow(
        _registrations(recipe), tables.schema(tables.WORKLOAD["registrations"])
    )
    return drawn.select("peer", F.array_sort(F.array_distinct("tags")).alias("tags"))


def casts(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """(cast, publisher, target)."""
    return _ranges(spark, recipe.casts).mapInArrow(
        _casts(recipe), tables.schema(tables.WORKLOAD["casts"])
    )


def write(spark: SparkSession, recipe: Recipe, out: Location) -> None:
    """Both tables and the recipe into a directory that a world can be given as its workload."""
    recipe.make()  # whatever is wrong is said before any work starts
    tables.write(
        registrations(spark, recipe), out / "registrations", tables.WORKLOAD["registrations"]
    )
    tables.write(casts(spark, recipe), out / "casts", tables.WORKLOAD["casts"])
    note(out, recipe.described())


def note(out: Location, described: Mapping[str, object]) -> None:
    """How a workload was made, beside its tables."""
    text = json.dumps(dict(described), indent=2, sort_keys=True, default=str) + "\n"
    (out / "workload.json").write(text.encode())


def _ranges(spark: SparkSession, count: int) -> DataFrame:
    """(first, last): ranges of numbers that cover 0 to count - 1."""
    pieces = -(-count // RANGE)
    starts = spark.range(0, pieces, 1, numPartitions=max(1, min(pieces, 4 * cores(spark))))
    return starts.select(
        (F.col("id") * RANGE).alias("first"),
        F.least((F.col("id") + 1) * RANGE, F.lit(count)).alias("last"),
    )


def _registrations(recipe: Recipe) -> Drawn:
    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = recipe.make()
        for first, last in _pieces(batches):
            columns = made.descriptions(first, last)
            distinct, codes = np.unique(columns.tag, return_inverse=True)
            # A name is made once per range and distinct tag, not once per row.
            names = pa.array(made.tag_names(distinct), pa.string()).take(pa.array(codes))
            offsets = np.searchsorted(columns.peer, np.arange(first, last + 1)).astype(np.int32)
            tags = pa.ListArray.from_arrays(pa.array(offsets), names)
            peers = pa.array(np.arange(first, last, dtype=np.int32))
            yield pa.record_batch([peers, tags], schema=tables.WORKLOAD["registrations"])

    return draw


def _casts(recipe: Recipe) -> Drawn:
    def draw(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = recipe.make()
        for first, last in _pieces(batches):
            numbers = pa.array(np.arange(first, last, dtype=np.int32))
            publishers = pa.array(made.publishers(first, last).astype(np.int32))
            targets = pa.array([str(target) for target in made.targeted(first, last)], pa.string())
            yield pa.record_batch([numbers, publishers, targets], schema=tables.WORKLOAD["casts"])

    return draw


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int]]:
    for batch in batches:
        yield from zip(batch["first"].to_pylist(), batch["last"].to_pylist(), strict=True)
