"""What each phase costs: messages and bytes of joining, registering, withdrawing, leaving, upkeep and casting.

The thesis left these to theory (section 4.1); the journal has them.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def by_phase(sends: DataFrame, everybody: DataFrame) -> DataFrame:
    """(run, phase, messages, bytes, messages_per_peer, bytes_per_peer)."""
    counted = sends.groupBy("run", "phase").agg(F.count("*").alias("messages"), F.sum("bytes").alias("bytes"))
    return counted.join(everybody, "run").select(
        "run", "phase", "messages", "bytes",
        (F.col("messages") / F.col("population")).alias("messages_per_peer"),
        (F.col("bytes") / F.col("population")).alias("bytes_per_peer"),
    )  # fmt: skip
