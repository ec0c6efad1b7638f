"""Memory of the stream's driver and size of its state over many batches of a lake that grows.

python bench/lab_stream.py [BATCHES]        100 by default; each reads one minute of 20 peers
"""

import sys
import tempfile
from pathlib import Path

import psutil

from implicast.lab.lake import Lake
from implicast.lab.session import session
from implicast.lab.storage import Location
from implicast.lab.stream.run import Wishes, start

PEERS, CASTS = 20, 50
MINUTE_US = 60_000_000


def pour(lake: Lake, minute: int) -> None:
    """One step: the rows of a minute."""
    begun_us, first = minute * MINUTE_US, minute * CASTS
    casts = range(first, first + CASTS)
    sends = [
        {
            "serial": cast * PEERS + peer,
            "cause": 0,
            "sent_us": begun_us + 5,
            "arrived_us": begun_us + 6,
            "sender": cast % PEERS,
            "receiver": peer,
            "kind": "Notify",
            "phase": "cast",
            "cast": cast,
            "depth": 1,
            "bytes": 90,
        }
        for cast in casts
        for peer in range(PEERS)
    ]
    lake.add(
        {
            "peers": [{"peer": peer, "role": "peer", "time_us": 0} for peer in range(PEERS)]
            if not minute
            else [],
            "casts": [
                {"cast": cast, "publisher": cast % PEERS, "time_us": begun_us, "target": "a"}
                for cast in casts
            ],
            "sends": sends,
            "notices": [
                {
                    "cause": row["serial"],
                    "time_us": row["arrived_us"] + row["receiver"],
                    "peer": row["receiver"],
                    "cast": row["cast"],
                    "depth": 1,
                    "altered": False,
                }
                for row in sends
            ],
        }
    )


def main(batches: int) -> None:
    with tempfile.TemporaryDirectory(prefix="implicast-bench-") as folder:
        lake, out = Location.of(folder) / "lake", Location.of(folder) / "out"
        filled = Lake(lake, "r", "dht")
        for minute in range(batches):
            pour(filled, minute)
        spark = session("local[2]", {"spark.sql.shuffle.partitions": "2"}, brief=True)

        def told(batch: int, totals: object) -> None:
            if batch % 10 == 9:
                size = Path(f"{out}/state/batch-{batch}.parquet").stat().st_size
                memory = psutil.Process().memory_info().rss / 1e6
                print(f"batch {batch:4}: driver {memory:.0f} MB, state {size:,} bytes", flush=True)

        wishes = Wishes(lake, out, delay_s=60.0, once=True, steps_max=1)
        start(spark, wishes, told).awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
