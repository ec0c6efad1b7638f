"""Processor time of `lab measure` for three small journals in which peers come, go and crash, and
of the part of it that measures change.

    python bench/lab_change.py [ROWS]        10,700 messages and notices in all by default

The session and its workers are started and have measured the journals once before. The second
figure leaves Spark out: it is the time that one task spends for all measures of the three journals.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab"))


def processor_s() -> float:
    """Processor time of this process and all below it."""
    everyone = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in everyone if each.is_running())


def main(rows: int) -> None:
    from random_journal import random_journal

    from implicast.lab.journals import JournalSource
    from implicast.lab.measure import measure
    from implicast.lab.measures import small
    from implicast.lab.session import session
    from implicast.lab.storage import Location

    with tempfile.TemporaryDirectory(prefix="implicast-bench-") as folder:
        places = [Path(folder) / f"run=r{seed}" for seed in (1, 2, 4)]
        for place, seed in zip(places, (1, 2, 4), strict=True):
            random_journal(place, seed, peers=60, casts=40, sends=rows // 3 - 253)
        sources = [JournalSource(each.name, Location.of(each)) for each in places]
        names = ("sends", "notices")
        there = sum(each.opened(name).metadata.num_rows for each in sources for name in names)
        spark = session("local[2]", brief=True)
        measure(spark, sources)
        began = processor_s()
        found = measure(spark, sources)
        spent = processor_s() - began
        spark.stop()
        began = time.process_time()
        for each in sources:
            small.measured(each.read, each.changed())
        alone = time.process_time() - began
    assert len(found["change"]) == 3, "in every one of them something changes"
    print(f"{there:,} rows in three journals: {spent:.2f} s of processor time, Spark included")
    print(f"all measures of them, in one task: {alone:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_700)
