"""Runs every design on this machine, one after the other, as a network of processes, makes casts,
checks them and prints a table.

    python -m implicast.net.commands.demo [NODES] [CASTS] [DESIGN ...]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from implicast.casting.designs import DESIGN_MODULES

COLUMNS = (
    "design",
    "nodes",
    "casts",
    "due",
    "delivered",
    "wrong",
    "twice",
    "receipts_exact",
    "p50_ms",
    "p99_ms",
    "messages",
    "seconds_to_ready",
    "cpu_s",
)


def main(arguments: list[str]) -> int:
    nodes, casts = (int(each) for each in (arguments + ["50", "200"][len(arguments[:2]) :])[:2])
    designs = arguments[2:] or list(DESIGN_MODULES)
    print("  ".join(f"{each:>14}" for each in COLUMNS), flush=True)
    failed = 0
    for design in designs:
        row = run(design, nodes, casts)
        failed += row is None or bool(row["due"] - row["delivered"] or row["wrong"] or row["twice"])
        print(
            "  ".join(f"{(row or {'design': design}).get(each, '-')!s:>14}" for each in COLUMNS),
            flush=True,
        )
    return 1 if failed else 0


def run(design: str, nodes: int, casts: int) -> dict[str, Any] | None:
    """Start a network, run its casts and stop it. Returns the result row; None if the network did
    not start.
    """
    with tempfile.TemporaryDirectory(prefix="implicast-live-") as directory:
        command = [
            sys.executable,
            "-m",
            "implicast",
            "local",
            str(nodes),
            "--design",
            design,
            "--casts",
            str(casts),
            "--json",
            "--dir",
            str(Path(directory) / "net"),
        ]
        went = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        row: dict[str, Any] = json.loads(went.stdout)
    except ValueError:
        print(went.stderr.strip().splitlines()[-1:] or f"{design} did not start", file=sys.stderr)
        return None
    return {**row, "p50_ms": row["latency_ms"]["p50"], "p99_ms": row["latency_ms"]["p99"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
