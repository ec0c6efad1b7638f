"""Implicast beside NATS, Mosquitto, Redis, Zenoh and Serf: the same people, the same casts, one
machine, one run.

    python bench/live/run.py [--peers 50] [--casts 100] [--seed 1] [--home out/rivals] [--arm NAME ...] [--json FILE]

Everything runs in a network namespace of its own (`unshare -n`), so that every byte on its loopback
belongs to the arm that is being measured. What is not installed is skipped with a message;
`bench/live/install.sh DIR` fetches it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]
INSIDE = "IMPLICAST_COMPARE_INSIDE"

from arms import ours, rival, serf  # noqa: E402
from counting import gini  # noqa: E402
from rivals import RIVALS, make_importable  # noqa: E402
from task import Result, task  # noqa: E402

from implicast.peer.errors import ImplicastError  # noqa: E402

OURS = (
    ("centralised", True),
    ("centralised", False),
    ("dht", False),
    ("spice-unloaded", False),
    ("condcast", False),
    ("broker", False),
)


def main() -> int:
    asked = argparse.ArgumentParser(description="Implicast beside others.")
    asked.add_argument("--peers", type=int, default=50)
    asked.add_argument("--casts", type=int, default=100)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--home", type=Path, default=Path("out/rivals"))
    asked.add_argument("--arm", action="append", help="only these, by the beginning of their names")
    asked.add_argument("--json", type=Path, help="write all figures here")
    given = asked.parse_args()
    if INSIDE not in os.environ:
        return _inside()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    home = given.home.resolve()
    make_importable(home)
    wanted = task(given.peers, given.casts, given.seed)
    arms = {made.name: partial(rival, made) for made in (kind() for kind in RIVALS)} | {
        "Serf": serf
    }
    arms |= {
        f"implicast {name}{' plain' if plain else ''}": partial(ours, name, plain)
        for name, plain in OURS
    }
    found: list[Result] = []
    print(HEAD, flush=True)
    for name, arm in arms.items():
        if given.arm and not any(name.lower().startswith(each.lower()) for each in given.arm):
            continue
        result = _run(name, partial(arm, home, wanted))
        if result is not None:
            found.append(result)
            print(row(result, given.casts), flush=True)
    print(
        f"\n{given.peers} members, {given.casts} casts, {given.peers // 10} killed, seed {given.seed}; Linux "
        f"{platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    )
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in found], indent=1))
    return 0


def _inside() -> int:
    """The same in a namespace of its own."""
    words = ["unshare", "-n", sys.executable, *sys.argv]
    try:
        return subprocess.run(words, env={**os.environ, INSIDE: "1"}, check=False).returncode
    except FileNotFoundError:
        print(
            "compare: `unshare` (util-linux) and the right to make a network namespace are needed",
            file=sys.stderr,
        )
        return 1


def _run(name: str, arm: "partial[Result]") -> Result | None:
    try:
        return arm()
    except (ModuleNotFoundError, OSError, TimeoutError, ImplicastError) as missing:
        print(f"{name}: skipped: {missing}", file=sys.stderr, flush=True)
        time.sleep(1.0)
        return None


COLUMNS = (
    "system",
    "version",
    "delivered",
    "wrong",
    "copies to non-members, a cast",
    "bytes a cast",
    "idle bytes/s",
    "p50 / p99 ms",
    "delivered, 10 % killed",
    "Gini of bytes",
    "",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * 8}---|"


def row(result: Result, casts: int) -> str:
    wait = result.latency_ms
    p50, p99 = (
        wait[min(len(wait) - 1, int(share * len(wait)))] if wait else 0 for share in (0.5, 0.99)
    )
    after = f"{result.delivered_after} of {result.due_after}" if result.due_after else "-"
    return (
        f"| {result.arm} | {result.version} | {result.delivered} of {result.due} | {result.wrong} | "
        f"{result.reached / casts:.2f} | {result.bytes_per_cast:,.0f} | {result.idle_bytes_per_s:,.0f} | "
        f"{p50:.1f} / {p99:.1f} | {after} | {gini(result.bytes_by):.2f} | {result.note} |"
    )


if __name__ == "__main__":
    sys.exit(main())
