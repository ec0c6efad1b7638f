"""Processor time and memory of `lab measure` on one large journal: Spark, its driver and its
workers together.

    python bench/lab_memory.py [ROWS]        100,000,000 by default: half of them messages, half notifications

Memory is the sum over all processes of what each has in memory at the same moment, shared pages
counted for each.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "lab"))

LIMIT_GIB = 4.0


def watched(words: list[str]) -> tuple[int, float, float]:
    """Exit code, processor time, and the most memory in bytes."""
    began = psutil.Popen(words)
    spent: dict[int, float] = {}
    most = 0
    while began.poll() is None:
        held = 0
        for each in (began, *began.children(recursive=True)):
            try:
                held += each.memory_info().rss
                spent[each.pid] = sum(each.cpu_times()[:2])
            except psutil.Error:  # it has ended meanwhile
                continue
        most = max(most, held)
        time.sleep(0.2)
    return began.returncode, sum(spent.values()), most


def main(rows: int) -> None:
    from test_lab_scale import write_large_journal

    with tempfile.TemporaryDirectory(prefix="implicast-bench-") as folder:
        journal = Path(folder) / "run=large"
        write_large_journal(journal, peers=4096, casts=8192, messages=rows // 2)
        print(f"{rows:,} rows written", flush=True)
        words = [
            sys.executable,
            "-m",
            "implicast",
            "lab",
            "measure",
            str(journal),
            "--out",
            str(Path(folder) / "out"),
        ]
        code, spent_s, most = watched(words)
    print(f"{spent_s:.0f} s of processor time, {most / 2**30:.2f} GiB")
    sys.exit(code or most > LIMIT_GIB * 2**30)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000)
