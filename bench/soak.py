"""Soak: hours of gentle churn at a fixed population, and whether state and traffic stay level.

    python bench/soak.py --hours 6 --out DIR dht condcast spice-unloaded bft

The population is fixed: soon after a newcomer has joined another member leaves or crashes. Members
also crash and return with their disks. Casts are made at a low steady rate. At each interval of
simulated time the tool counts, for the peers present: entries (elements of all tables reachable
from a peer), messages a peer and second, and memory (bytes of all objects reachable from a peer).

A design is level if, over the second half of the time, the mean of the last third of each measure
differs from that of the first third by at most 5 %. The memory of the process is shown and not
judged: it contains the simulator, which keeps peers that have left and a record of every event.
Each design runs in a process of its own. All designs have the same churn.
"""

import argparse
import csv
import gc
import json
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from implicast.casting.designs import design as design_named
from implicast.peer.contract import Peer
from implicast.space.digest import stream
from implicast.world.churn import Churn
from implicast.world.run import Run, silent
from implicast.world.scenario import Scenario
from implicast.world.scripted_events import ScriptedEvent

DESIGNS = ("dht", "condcast", "spice-unloaded", "bft")
MEASURES = {
    "entries": "entries a peer",
    "messages": "messages a peer and second",
    "kilobytes": "memory a peer, KB",
}
"""What is judged, with its title in the figure."""
SHOWN = MEASURES | {"process_mb": "memory of the process, MB"}
WIDE = ("entries", "kilobytes")
"""Measures by which designs differ a hundredfold: on a logarithmic scale."""
LEVEL = 0.05
"""Largest relative difference between two thirds of the second half that counts as level."""
SAMPLES_AN_HOUR = 12
DEPARTS_S, RETURNS_S = 60.0, 120.0
"""Seconds from a join to the departure of another member, and to the crash of one that returns."""
CASTS_AN_HOUR = 60
OUTSIDE = ("implicast.world", "implicast.workload", "implicast.casting.designs", "random")
"""Packages whose objects belong to the simulator, not to a peer."""
SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType)
TABLES = (dict, list, set, deque)


def held(peers: Iterable[Peer]) -> tuple[int, int]:
    """Of all objects that can be reached from these peers, each counted once: number of elements of
    tables, and bytes.
    """
    found: set[int] = set()
    waiting: list[Any] = list(peers)
    total = size = 0
    while waiting:
        each = waiting.pop()
        outside = isinstance(each, SHARED) or type(each).__module__.startswith(OUTSIDE)
        if outside or id(each) in found:
            continue
        found.add(id(each))
        size += sys.getsizeof(each)
        if isinstance(each, TABLES):
            total += len(each)
        waiting += gc.get_referents(each)
    return total, size


def resident_mb() -> float:
    """Memory of this process."""
    status = Path("/proc/self/status").read_text()
    line = next(each for each in status.splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


class Soak(Run):
    """A run that is sampled at fixed intervals of simulated time."""

    step_us = 3_600_000_000 // SAMPLES_AN_HOUR

    def sample_to(self, samples: list[dict[str, float]]) -> None:
        self.samples, self.due_us, self.sent = samples, self.step_us, 0

    def _run(self, until_us: int | None) -> None:
        while until_us is not None and self.due_us <= until_us:
            super()._run(self.due_us)
            self._sample()
            self.due_us += self.step_us
        super()._run(until_us)

    def _sample(self) -> None:
        assert self.injector is not None, "a soak has churn"
        peers = list(self.injector.present())
        total, size = held(peers)
        sent, self.sent = self.world.carried - self.sent, self.world.carried
        self.samples.append(
            {
                "hours": self.due_us / 3.6e9,
                "peers": len(peers),
                "entries": total / len(peers),
                "messages": sent / len(peers) / self.step_us * 1e6,
                "kilobytes": size / len(peers) / 1000,
                "process_mb": resident_mb(),
            }
        )


def scenario(design: str, peers: int, hours: float, turnover: float, seed: int) -> Scenario:
    """Gentle churn for these hours at a fixed population."""
    found = design_named(design)
    first = peers + found.infrastructure(peers, found.settle({}))
    over_s = int(hours * 3600)
    return Scenario(
        design,
        peers,
        int(hours * CASTS_AN_HOUR),
        seed,
        workload="groups",
        interval_ms=3_600_000 // CASTS_AN_HOUR,
        register="messages",
        churn=Churn(events=tuple(script(peers, first, over_s, turnover, seed)), over_s=over_s),
    )


def script(
    peers: int, first: int, over_s: int, turnover: float, seed: int
) -> Iterator[ScriptedEvent]:
    """`turnover` times a minute a newcomer joins; `DEPARTS_S` later a member leaves or crashes, in
    turns, and `RETURNS_S` after the join another crashes and returns with its disk. So there are
    `peers` members, and one more for `DEPARTS_S`. Newcomers have the addresses from `first` on.
    """
    rng, period_s = stream(seed, "soak"), 60 / turnover
    present = list(range(peers))
    for number in range(int(over_s / period_s)):
        start_s = round((number + 0.4 * rng.random()) * period_s, 3)
        departing = present.pop(rng.randrange(len(present)))
        returning = rng.choice(present)
        yield ScriptedEvent(start_s, start_s, "join", (first + number,))
        gone_s = start_s + DEPARTS_S
        yield ScriptedEvent(gone_s, gone_s, ("leave", "crash")[number % 2], (departing,))
        away_s = start_s + RETURNS_S
        back_s = round(away_s + 2 + 13 * rng.random(), 3)
        yield ScriptedEvent(away_s, back_s, "return", (returning,))
        present.append(first + number)


def soak(what: Scenario) -> list[dict[str, float]]:
    """Run one scenario; one row for each sample."""
    samples: list[dict[str, float]] = []
    design, parameters = what.settled()
    with tempfile.TemporaryDirectory(prefix="implicast-") as directory:
        run = Soak(what, design, parameters, Path(directory) / "journal")
        run.sample_to(samples)
        run.go(silent)
    hours = what.casts / CASTS_AN_HOUR
    return [each for each in samples if each["hours"] <= hours]  # the churn ends then


def rise(samples: list[dict[str, float]], measure: str) -> float:
    """Second half of the time: mean of its last third over that of its first third, less 1."""
    half = [each[measure] for each in samples[len(samples) // 2 :]]
    third = len(half) // 3
    return sum(half[-third:]) / sum(half[:third]) - 1


def verdict(samples: list[dict[str, float]]) -> dict[str, Any]:
    """First and last values, the rise over the second half, and whether it is level."""
    rises = {each: round(rise(samples, each), 4) for each in SHOWN}
    ends = {each: [round(samples[at][each], 2) for at in (0, -1)] for each in SHOWN}
    return {
        "rise": rises,
        "ends": ends,
        "level": all(abs(rises[each]) <= LEVEL for each in MEASURES),
    }


def draw(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    """One panel for each measure, one line for each design."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from implicast.lab.report.figures import STYLE

    with mpl.rc_context(STYLE):
        canvas = Figure(figsize=(8.6, 6.0), layout="constrained")
        for axes, (measure, title) in zip(canvas.subplots(2, 2).flat, SHOWN.items(), strict=True):
            for design, samples in found.items():
                hours = [each["hours"] for each in samples]
                axes.plot(hours, [each[measure] for each in samples], label=design, linewidth=1.4)
            axes.set(title=title, xlabel="simulated hours")
            if measure in WIDE:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
        canvas.axes[0].legend()
        canvas.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)


def write(found: dict[str, list[dict[str, float]]], out: Path) -> dict[str, Any]:
    """Write CSV, JSON and the figure; returns the verdicts."""
    out.mkdir(parents=True, exist_ok=True)
    verdicts = {design: verdict(samples) for design, samples in found.items()}
    with (out / "soak.csv").open("w", newline="") as file:
        rows = [{"design": design, **each} for design in found for each in found[design]]
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    (out / "soak.json").write_text(json.dumps({"verdicts": verdicts, "samples": found}, indent=1))
    draw(found, out / "soak.svg")
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("designs", nargs="*", default=DESIGNS)
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--peers", type=int, default=24)
    parser.add_argument("--turnover", type=float, default=0.2, help="joins a minute")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="directory for soak.csv, soak.json and soak.svg")
    parser.add_argument("--samples", action="store_true", help="print the samples of one design")
    given = parser.parse_args()
    if given.samples:
        what = scenario(given.designs[0], given.peers, given.hours, given.turnover, given.seed)
        print(json.dumps(soak(what)))
        return
    options = [
        f"--{each}={getattr(given, each)}" for each in ("hours", "peers", "turnover", "seed")
    ]
    found = {}
    for design in given.designs:
        command = [sys.executable, __file__, design, "--samples", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[design] = json.loads(done.stdout)
        print(design, json.dumps(verdict(found[design])))
    if given.out is not None:
        write(found, given.out)
    if not all(verdict(samples)["level"] for samples in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
