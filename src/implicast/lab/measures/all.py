"""All measures of some runs, from their journals to four tables: measures, contract, costs, Lorenz curves.

The load matrix of peers and the totals of links are written as Parquet between the passes, so that no plan grows long
and nothing is computed twice; they go away when the measures are done.
"""

import shutil
from collections.abc import Callable
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.journals import Journals
from implicast.lab.measures import cast, contract, costs, network, peer
from implicast.lab.measures.fairness import histogram, lorenz

STAGES = ("contract", "costs", "measures", "lorenz")
"""The tables that are written, in this order."""

_MATRIX = pa.schema(
    [("run", pa.string()), ("cast", pa.int32()), ("peer", pa.int32()), *((name, pa.int64()) for name in peer.COUNTS)]
)
_TOTALS = pa.schema([("run", pa.string()), ("bearer", pa.int32()), ("load", pa.int64()), ("peak", pa.int64())])

Said = Callable[[str], None]


def measure(journals: Journals, out: Path, said: Said = lambda stage: None) -> None:
    """Write the tables `measures`, `contract`, `costs` and `lorenz` of these journals into a directory."""
    scratch = out / ".between"
    out.mkdir(parents=True, exist_ok=True)
    try:
        _measure(journals, out, scratch, said)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _measure(journals: Journals, out: Path, scratch: Path, said: Said) -> None:
    spark, table = journals.spark, journals.table
    said("contract")
    gone = contract.departures(table("lives"), table("registrations")) if journals.has("lives") else None
    verdicts = contract.verdicts(table("registrations"), table("casts"), table("notices"), gone)
    tables.write(verdicts, out / "contract", tables.RUN_CONTRACT)
    said("costs of phases")
    everybody = peer.population(table("peers"))
    tables.write(costs.by_phase(table("sends"), everybody), out / "costs", tables.RUN_COSTS)
    said("load matrix")
    tables.write(peer.load_matrix(table("sends"), table("notices")), scratch / "matrix", _MATRIX)
    matrix = tables.read(spark, scratch / "matrix", _MATRIX)
    out_totals = _cut(peer.totals(peer.outgoing(matrix, table("casts"))), scratch / "out", journals)
    in_totals = _cut(peer.totals(peer.incoming(matrix)), scratch / "in", journals)
    said("links")
    link_totals = _cut(_links(journals, matrix), scratch / "links", journals)
    said("measures")
    facets = [
        peer.facet(out_totals, everybody, "OUT"),
        peer.facet(in_totals, everybody, "IN"),
        peer.storage(table("peers")),
        peer.facet(link_totals, network.link_population(table("links"), everybody), "INK"),
        cast.hops(cast.per_cast(matrix, table("notices"), table("casts"))),
        cast.latency(table("notices"), table("casts")),
        peer.by_capacity(out_totals.withColumnRenamed("bearer", "peer"), table("peers")),
    ]
    joined = reduce(lambda left, right: left.join(right, "run", "left"), facets, everybody.select("run"))
    tables.write(joined.fillna(0.0), out / "measures", tables.RUN_MEASURES)
    said("Lorenz curves")
    tables.write(_curves(out_totals, in_totals, everybody, table("peers")), out / "lorenz", tables.RUN_LORENZ)


def _cut(summed: DataFrame, path: Path, journals: Journals) -> DataFrame:
    """Written and read again: what follows starts from here."""
    bearer = next(name for name in summed.columns if name in ("peer", "link"))
    tables.write(summed.withColumnRenamed(bearer, "bearer"), path, _TOTALS)
    return tables.read(journals.spark, path, _TOTALS)


def _links(journals: Journals, matrix: DataFrame) -> DataFrame:
    table = journals.table
    crossed = network.crossings(network.routed(table("sends"), table("peers")), table("paths"))
    return network.link_totals(crossed, network.access(matrix))


def _curves(out_totals: DataFrame, in_totals: DataFrame, everybody: DataFrame, peers: DataFrame) -> DataFrame:
    stored = peers.select("run", F.col("storage_bytes").alias("load"))
    curves = [("TOUT", out_totals), ("TIN", in_totals), ("STOR", stored)]
    return reduce(
        DataFrame.unionByName, [lorenz(histogram(loads, everybody), name) for name, loads in curves]
    )
