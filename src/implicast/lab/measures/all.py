"""All measures of some journals: measures, contract, costs, Lorenz curves, and change.

Small journals were measured where they were made (`small.py`); this is for large ones and for those in which things
changed. The messages are read once, in blocks (`large.py`); what comes of them is kept in Spark's memory until the
measures are done.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.journals import Journals
from implicast.lab.measures import cast, change, contract, large, network, peer
from implicast.lab.measures.fairness import histogram, lorenz
from implicast.lab.session import described

Said = Callable[[str], None]
Measured = dict[str, pa.Table]


def measured(journals: Journals, said: Said = lambda stage: None) -> Measured:
    """The tables `measures`, `contract`, `costs` and `lorenz` of these journals, and `change` when anything changed."""
    found: Measured = {}
    with _stage(journals.spark, "contract", said):
        gone = _gone(journals)
        verdicts = contract.verdicts(*_told(journals), gone, journals.changed())
        found["contract"] = arrow(verdicts, tables.RUN_CONTRACT)
    if gone is not None and journals.has("course"):
        with _stage(journals.spark, "change", said):
            found["change"] = arrow(_change(journals, gone), tables.RUN_CHANGE)
    with _kept(large.parts(journals.spark, journals.sources)) as parts:
        everybody = peer.population(journals.table("peers"))
        with _stage(journals.spark, "load of peers and links", said):
            found["costs"] = arrow(large.by_phase(parts, everybody), tables.RUN_COSTS)
        with _stage(journals.spark, "measures", said):
            found["measures"] = arrow(_facets(journals, parts, everybody), tables.RUN_MEASURES)
        with _stage(journals.spark, "Lorenz curves", said):
            found["lorenz"] = arrow(_curves(parts, everybody, journals.table("peers")), tables.RUN_LORENZ)
    return found


def arrow(rows: DataFrame, declared: pa.Schema) -> pa.Table:
    """The rows, in the declared columns and types, with the driver: few for each run."""
    wanted = tables.schema(declared)
    cast_to = [rows[each.name].cast(each.dataType).alias(each.name) for each in wanted]
    return rows.select(*cast_to).toArrow().cast(declared)


def _told(journals: Journals) -> tuple[DataFrame, DataFrame, DataFrame]:
    return journals.table("registrations"), journals.table("casts"), journals.table("notices")


def _gone(journals: Journals) -> DataFrame | None:
    if not journals.has("lives"):
        return None
    return contract.departures(journals.table("lives"), journals.table("deeds"), journals.undisturbed())


def _facets(journals: Journals, parts: DataFrame, everybody: DataFrame) -> DataFrame:
    table, out = journals.table, large.borne(parts, "out")
    made, carried = table("casts").where("not warm_up"), large.carried(parts)
    facets = [
        peer.facet(out, everybody, "OUT"),
        peer.facet(large.borne(parts, "in"), everybody, "IN"),
        peer.storage(table("peers")),
        peer.facet(carried, network.link_population(table("links"), everybody), "INK"),
        network.used(carried),
        network.between_routers(large.between(parts), table("links"), everybody),
        cast.hops(large.per_cast(parts)),
        cast.latency(table("notices"), made),
        peer.by_capacity(out, table("peers")),
    ]
    joined = reduce(lambda left, right: left.join(right, "run", "left"), facets, everybody.select("run"))
    return joined.fillna(0.0)


def _change(journals: Journals, gone: DataFrame) -> DataFrame:
    table = journals.table
    course = table("course")
    judged = change.verdicts(*_told(journals), gone, course, journals.changed())
    return change.change(
        judged,
        change.repairs(table("deeds"), table("health"), course),
        change.traffic(table("sends"), table("lives"), course),
        change.complaints(table("lives"), table("registrations")),
        change.returns(table("lives")),
        course,
    )


def _curves(parts: DataFrame, everybody: DataFrame, peers: DataFrame) -> DataFrame:
    stored = peers.select("run", F.col("storage_bytes").alias("load"))
    curves = [("TOUT", large.borne(parts, "out")), ("TIN", large.borne(parts, "in")), ("STOR", stored)]
    return reduce(DataFrame.unionByName, [lorenz(histogram(loads, everybody), name) for name, loads in curves])


@contextmanager
def _stage(spark: SparkSession, name: str, said: Said) -> Iterator[None]:
    """One step, told to people and to Spark's own pages."""
    said(name)
    with described(spark, f"implicast: {name}"):
        yield


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
