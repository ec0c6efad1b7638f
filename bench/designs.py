"""What each design costs: CPU seconds, microseconds a message and memory, by phase; beside another
version of the code.

    python bench/designs.py                                   all designs, 1024 peers x 256 casts
    python bench/designs.py --peers 4096 --casts 1024 dht     some of them, larger
    python bench/designs.py --against ../old/src              the same runs by other code, in turns, in one run
    python bench/designs.py --change --peers 256 --casts 128  where peers come and go, and messages are lost

Each run is a process of its own. Without receipts, as the papers measure: `assurance=none`, SPICE
told the casts to come; bft with stand-in signatures. With `--change` with receipts and live
replication, as people run it: an eighth of the peers comes and as many go, half of them by a crash,
and one message in a hundred is lost.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

DESIGNS = (
    "centralised",
    "broker",
    "dht",
    "spice",
    "spice-unloaded",
    "condcast",
    "chord-pubsub",
    "opchord-pubsub",
    "bft",
)
FURTHER = {
    "spice-unloaded": ["--set", "replication=beforehand"],
    "bft": ["--set", "signatures=stand-in"],
}
OURS = str(Path(__file__).parents[1] / "src")


def run(
    source: str, design: str, peers: int, casts: int, further: list[str], change: bool
) -> dict[str, float]:
    """CPU seconds, peak MB and messages of one run."""
    words = [
        sys.executable,
        "-m",
        "implicast.cli",
        "simulate",
        design,
        "--peers",
        str(peers),
        "--casts",
        str(casts),
    ]
    one_engine = (
        Path(source) / "implicast/world/core.py"
    ).exists()  # before it, each design had a form that survived
    if change:
        some = peers // 16
        words += [] if one_engine else ["--set", "alive=true"]
        words += ["--set", "signatures=stand-in"] if design == "bft" else []
        words += ["--workload", "groups", "--faults", "loss=0.01"]
        words += ["--churn", f"joins={2 * some},leaves={some},crashes={some},over_s={casts}"]
    else:
        words += [*(["--set", "assurance=none"] if one_engine else []), *FURTHER.get(design, [])]
    words += [*further, "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if said.returncode:
        raise SystemExit(f"{design} by {source}: {said.stderr.strip()[-300:]}")
    outcome = json.loads(said.stdout)
    assert change or not outcome["contract"]["missing"], design
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "cpu_s": cpu_s,
        "mb": outcome["peak_mb"],
        **{k: float(v) for k, v in outcome["messages"].items()},
    }


def line(name: str, found: dict[str, float]) -> str:
    messages = sum(count for what, count in found.items() if what not in ("cpu_s", "mb"))
    each_us = found["cpu_s"] / max(1.0, messages) * 1e6
    counts = "  ".join(
        f"{what} {count:,.0f}" for what, count in found.items() if what not in ("cpu_s", "mb")
    )
    return f"  {name:34} {found['cpu_s']:8.1f} s {each_us:7.1f} us/message {found['mb']:8.0f} MB   {counts}"


def main() -> None:
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("designs", nargs="*", default=DESIGNS)
    ask.add_argument("--peers", type=int, default=1024)
    ask.add_argument("--casts", type=int, default=256)
    ask.add_argument("--against", help="the src directory of other code, run in turns with this")
    ask.add_argument(
        "--messages", action="store_true", help="also with members that register by messages"
    )
    ask.add_argument("--change", action="store_true", help="peers come and go, messages are lost")
    given = ask.parse_args()
    how = "under change" if given.change else "assurance=none"
    print(f"{given.peers:,} peers x {given.casts:,} casts, {how}, one process each")
    for design in given.designs:
        if given.against:
            found = run(given.against, design, given.peers, given.casts, [], given.change)
            print(line(f"{design}, other code", found), flush=True)
        print(
            line(design, run(OURS, design, given.peers, given.casts, [], given.change)), flush=True
        )
        if given.messages:
            by_messages = run(
                OURS, design, given.peers, given.casts, ["--register", "messages"], given.change
            )
            print(line(f"{design}, registered by messages", by_messages), flush=True)


if __name__ == "__main__":
    main()
