"""All measures of some runs, from their journals to tables: measures, contract, costs, Lorenz curves, and change.

What peers and links bore is written as Parquet between the passes, so that no plan grows long and nothing is computed
twice; it goes away when the measures are done.
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
from implicast.lab.measures import cast, change, contract, costs, network, peer
from implicast.lab.measures.fairness import histogram, lorenz

_BEARINGS = pa.schema(
    [("run", pa.string()), ("peer", pa.int32())]
    + [(f"{kind}{suffix}", pa.int64()) for kind in ("out", "in", "up", "down") for suffix in ("", "_peak")]
)
_LINKS = pa.schema([("run", pa.string()), ("link", pa.int32()), ("load", pa.int64()), ("peak", pa.int64())])

Said = Callable[[str], None]


def measure(journals: Journals, out: Path, said: Said = lambda stage: None) -> None:
    """Write the tables `measures`, `contract`, `costs` and `lorenz` of these journals into a directory.

    And `change`, when anything changed in any of them.
    """
    scratch = out / ".between"
    out.mkdir(parents=True, exist_ok=True)
    try:
        _measure(journals, out, scratch, said)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _measure(journals: Journals, out: Path, scratch: Path, said: Said) -> None:
    spark, table = journals.spark, journals.table
    said("contract")
    gone = None
    if journals.has("lives"):
        gone = contract.departures(table("lives"), table("deeds"), journals.undisturbed())
    verdicts = contract.verdicts(table("registrations"), table("casts"), table("notices"), gone, journals.changed())
    tables.write(verdicts, out / "contract", tables.RUN_CONTRACT)
    if gone is not None and journals.has("course"):
        said("change")
        _change(journals, out, gone)
    said("costs of phases")
    everybody = peer.population(table("peers"))
    tables.write(costs.by_phase(table("sends"), everybody), out / "costs", tables.RUN_COSTS)
    said("load of peers")
    measured = table("casts").where("not warm_up")  # what is sent for the others names no cast
    pairs = peer.pair_loads(peer.load_matrix(table("sends"), table("notices")), measured)
    tables.write(peer.bearings(pairs), scratch / "peers", _BEARINGS)
    borne = tables.read(spark, scratch / "peers", _BEARINGS)
    said("load of links")
    crossed = network.crossings(network.routed(table("sends"), table("peers")), table("paths"))
    tables.write(network.link_totals(crossed, borne), scratch / "links", _LINKS)
    carried = tables.read(spark, scratch / "links", _LINKS)
    said("measures")
    facets = [
        peer.facet(peer.of_kind(borne, "out"), everybody, "OUT"),
        peer.facet(peer.of_kind(borne, "in"), everybody, "IN"),
        peer.storage(table("peers")),
        peer.facet(carried, network.link_population(table("links"), everybody), "INK"),
        cast.hops(cast.per_cast(table("sends"), table("notices"), measured)),
        cast.latency(table("notices"), measured),
        peer.by_capacity(peer.of_kind(borne, "out"), table("peers")),
    ]
    joined = reduce(lambda left, right: left.join(right, "run", "left"), facets, everybody.select("run"))
    tables.write(joined.fillna(0.0), out / "measures", tables.RUN_MEASURES)
    said("Lorenz curves")
    tables.write(_curves(borne, everybody, table("peers")), out / "lorenz", tables.RUN_LORENZ)


def _change(journals: Journals, out: Path, gone: DataFrame) -> None:
    table = journals.table
    course = table("course")
    changed = journals.changed()
    judged = change.verdicts(table("registrations"), table("casts"), table("notices"), gone, course, changed)
    found = change.change(
        judged,
        change.repairs(table("deeds"), table("health"), course),
        change.traffic(table("sends"), table("lives"), course),
        change.complaints(table("lives"), table("registrations")),
        change.returns(table("lives")),
        course,
    )
    tables.write(found, out / "change", tables.RUN_CHANGE)


def _curves(borne: DataFrame, everybody: DataFrame, peers: DataFrame) -> DataFrame:
    stored = peers.select("run", F.col("storage_bytes").alias("load"))
    curves = [("TOUT", peer.of_kind(borne, "out")), ("TIN", peer.of_kind(borne, "in")), ("STOR", stored)]
    return reduce(DataFrame.unionByName, [lorenz(histogram(loads, everybody), name) for name, loads in curves])
