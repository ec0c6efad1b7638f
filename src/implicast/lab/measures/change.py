"""The facet of change: who was reached during and after it, how long repair took, what upkeep and
storms cost.

`world/change.py` defines and computes the same for one run in memory; this is for many, from the
journals' tables, with other code, and tests hold the two equal. The tables `course`, `scripted_events`,
`incarnations` and `health` are there only for runs in which something changed.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from implicast.lab import tables
from implicast.lab.measures import contract
from implicast.world.change import ANNOUNCED, REST_US

_S = 1_000_000
_MINUTE_US = 60 * _S
WRONG = ("repeated", "uninvited", "invented", "altered", "misreported")
"""Violations that are not allowed at any time."""


def verdicts(
    registrations: DataFrame,
    casts: DataFrame,
    notices: DataFrame,
    gone: DataFrame,
    course: DataFrame,
    changed: Sequence[str],
) -> DataFrame:
    """(run, during_expected, ..., after_expected, ...): the contract over the casts made during
    change, and later.
    """
    timed = casts.join(F.broadcast(course.select("run", "from_us", "calm_us")), "run")
    made = F.col("time_us")
    periods = {
        "during": (made >= F.col("from_us")) & (made < F.col("calm_us")),
        "after": made >= F.col("calm_us"),
    }
    found = course.select("run")
    for name, within in periods.items():
        chosen = timed.where(within).select(casts.columns)
        told = _told(notices, casts, chosen)
        judged = contract.verdicts(registrations, chosen, told, gone, changed)
        found = found.join(
            judged.select(
                "run", *(F.col(each).alias(f"{name}_{each}") for each in tables.CONTRACT)
            ),
            "run",
            "left",
        )
    return found.fillna(0)


def _told(notices: DataFrame, casts: DataFrame, chosen: DataFrame) -> DataFrame:
    """The notices of the chosen casts, and those of casts that no peer made: they count in every
    period.
    """
    known = casts.select("run", "cast")
    mine = notices.join(F.broadcast(chosen.select("run", "cast")), ["run", "cast"], "left_semi")
    return mine.unionByName(notices.join(F.broadcast(known), ["run", "cast"], "left_anti"))


def repairs(scripted_events: DataFrame, health: DataFrame, course: DataFrame) -> DataFrame:
    """(run, repair_s_median, repair_s_max, sudden, settle_s_max, unrepaired, calm_s, allowed_s).

    From the end of each scripted event to the first check without a violation, or to the end of the run
    when none did: of events without a word, how many there were, and apart from them of joins and
    leaves. Where there were only those, the repairs are theirs. `calm_s` likewise from the end of
    the last event, and infinite if no check did.
    """
    clean = health.where("wrong = 0").select(
        "run", F.col("time_us").alias("at_us"), F.col("time_us").alias("clean_us")
    )
    told_or_not = F.when(F.col("kind").isin(*ANNOUNCED), "told").otherwise("sudden")
    ends = scripted_events.select("run", F.col("to_us").alias("at_us"), told_or_not.alias("of"))
    last = course.select("run", F.col("over_us").alias("at_us"), F.lit("last").alias("of"))
    moments = ends.unionByName(last).unionByName(clean, allowMissingColumns=True)
    onwards = (
        Window.partitionBy("run")
        .orderBy("at_us")
        .rangeBetween(Window.currentRow, Window.unboundedFollowing)
    )
    waited = moments.select(
        "run", "of", "at_us", F.min("clean_us").over(onwards).alias("clean_us")
    ).join(F.broadcast(course.select("run", "end_us")), "run")
    sudden, told, never = F.col("of") == "sudden", F.col("of") == "told", F.col("clean_us").isNull()
    wait_us = F.coalesce("clean_us", "end_us") - F.col("at_us")
    after, settling = F.when(sudden, wait_us), F.when(told, wait_us)
    calm = F.when(F.col("of") == "last", F.col("clean_us") - F.col("at_us"))
    found = waited.groupBy("run").agg(
        (F.coalesce(F.percentile(after, 0.5), F.percentile(settling, 0.5)) / _S).alias(
            "repair_s_median"
        ),
        (F.coalesce(F.max(after), F.max(settling)) / _S).alias("repair_s_max"),
        F.count_if(sudden).alias("sudden"),
        (F.max(settling) / _S).alias("settle_s_max"),
        F.count_if((sudden | told) & never).alias("unrepaired"),
        F.coalesce(F.max(calm) / _S, F.lit(float("inf"))).alias("calm_s"),
    )
    allowed = ((F.col("calm_us") - F.col("over_us")) / _S).alias("allowed_s")
    times = ["repair_s_median", "repair_s_max", "settle_s_max"]
    return course.select("run", allowed).join(found, "run", "left").fillna(0.0, times)


def traffic(sends: DataFrame, incarnations: DataFrame, course: DataFrame) -> DataFrame:
    """(run, upkeep_per_peer_minute, upkeep_at_rest, storm): from the first event, or from the calm,
    to the end.

    At rest: null where rest was too short to tell.
    """
    period = F.broadcast(course.select("run", "from_us", "calm_us", "end_us"))
    since = sends.select("run", "sent_us", "phase").join(period, "run").where("sent_us >= from_us")
    second = F.floor((F.col("sent_us") - F.col("from_us")) / _S)
    upkeep = (F.col("phase") == "upkeep") & (F.col("sent_us") < F.col("end_us"))
    counted = since.groupBy("run", second.alias("second")).agg(
        F.count("*").alias("sent"),
        F.count_if(upkeep).alias("upkeep"),
        F.count_if(upkeep & (F.col("sent_us") >= F.col("calm_us"))).alias("rest"),
    )
    seconds = F.greatest(F.lit(1), F.ceil((F.col("end_us") - F.col("from_us")) / _S))
    within = counted.join(period, "run").withColumn(
        "within", F.when(F.col("second") < seconds, F.col("sent"))
    )
    summed = within.groupBy("run").agg(
        F.sum("upkeep").alias("upkeep"),
        F.sum("rest").alias("rest"),
        F.max("within").alias("busiest"),
        F.sum("within").alias("all"),
        F.first(seconds).alias("seconds"),
    )
    everyone = (
        course.select("run", (F.col("end_us") - F.col("calm_us")).alias("rest_us"))
        .join(_minutes(incarnations, course), "run", "left")
        .join(summed, "run", "left")
    )
    return everyone.select(
        "run",
        _ratio(F.col("upkeep"), F.col("minutes")).alias("upkeep_per_peer_minute"),
        F.when(F.col("rest_us") >= REST_US, _ratio(F.col("rest"), F.col("minutes_at_rest"))).alias(
            "upkeep_at_rest"
        ),
        _ratio(F.col("busiest") * F.col("seconds"), F.col("all")).alias("storm"),
    )


def _minutes(incarnations: DataFrame, course: DataFrame) -> DataFrame:
    """(run, minutes, minutes_at_rest): how long peers were there, together."""
    named = course.select("run", F.col("from_us").alias("begin_us"), "calm_us", "end_us")
    timed = incarnations.join(F.broadcast(named), "run")

    def there(since: str) -> Column:
        ended_us = F.least(F.coalesce("to_us", "end_us"), "end_us")
        return F.sum(F.greatest(F.lit(0), ended_us - F.greatest("from_us", since))) / _MINUTE_US

    return timed.groupBy("run").agg(
        there("begin_us").alias("minutes"), there("calm_us").alias("minutes_at_rest")
    )


def returns(incarnations: DataFrame) -> DataFrame:
    """(run, returns, return_s_max): members that came back, and the longest time until one was
    registered.
    """
    came = incarnations.where("returned").groupBy("run")
    waited_s = F.max(F.col("back_us") - F.col("from_us")) / _S
    return came.agg(
        F.count("*").alias("returns"), F.coalesce(waited_s, F.lit(0.0)).alias("return_s_max")
    )


def complaints(incarnations: DataFrame, registrations: DataFrame) -> DataFrame:
    """(run, complaints): of peers that live, how many never joined, never left, or never were
    registered completely.
    """
    newest = registrations.groupBy("run", "peer").agg(
        F.max_by(F.struct("completed_us", "withdrawn"), "version").alias("newest")
    )
    here = incarnations.where("end = 'stayed'").join(newest, ["run", "peer"], "left")
    leaving = F.col("leaving_us").isNotNull()
    open_ = F.col("newest").isNotNull() & F.col("newest.completed_us").isNull() & ~leaving
    wrong = [F.col("joined_us").isNull(), leaving, open_]
    return here.groupBy("run").agg(
        F.sum(sum((each.cast("bigint") for each in wrong), F.lit(0))).alias("complaints")
    )


def change(
    judged: DataFrame,
    repaired: DataFrame,
    moved: DataFrame,
    complained: DataFrame,
    returned: DataFrame,
    course: DataFrame,
) -> DataFrame:
    """Everything of change, a row for each run in which anything changed; `tables.RUN_CHANGE` has
    the columns.
    """
    joined = course.select("run")
    for facet in (judged, repaired, moved, complained, returned):
        joined = joined.join(facet, "run", "left")
    joined = joined.fillna(0, ["complaints", "returns", "return_s_max"])
    told = {name: F.col(f"during_{name}") for name in tables.CONTRACT}
    later = {name: F.col(f"after_{name}") for name in tables.CONTRACT}
    ever: Column = sum((told[name] for name in WRONG), F.lit(0))
    clean_after = sum((later[name] for name in tables.BROKEN), F.lit(0)) == 0
    repaired_in_time = (F.col("unrepaired") == 0) & (F.col("calm_s") <= F.col("allowed_s"))
    return joined.select(
        "*",
        _reached(told).alias("delivery_ratio"),
        _reached(later).alias("delivery_ratio_after"),
        ever.alias("wrong"),
        told["late"].alias("late"),
        _ratio(told["late"].cast("double"), told["notified"]).alias("late_share"),
        ((ever == 0) & clean_after & (F.col("complaints") == 0) & repaired_in_time).alias("kept"),
    )


def _reached(verdict: dict[str, Column]) -> Column:
    return F.when(verdict["expected"] > 0, 1 - verdict["missing"] / verdict["expected"]).otherwise(
        1.0
    )


def _ratio(part: Column, whole: Column) -> Column:
    """Zero where there is nothing."""
    return F.when(F.coalesce(whole, F.lit(0)) > 0, F.coalesce(part, F.lit(0)) / whole).otherwise(
        0.0
    )
