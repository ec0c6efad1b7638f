"""Mutants as a gauge of the tests: puts small faults into engines and judge, one at a time, and
counts those that the checks catch.

    python tools/mutants.py --count 60 --seed 1              draws 60 faults and judges them
    python tools/mutants.py --count 20 --seed 1 --room judge only faults of the judge
    python tools/mutants.py --count 60 --seed 1 --list       prints the faults and runs nothing
    python tools/mutants.py --resume out/mutants.json        goes on where an earlier run ended
    python tools/mutants.py --survivors out/mutants.json     judges its survivors again

Each mutant runs in a temporary copy of `src` and `tests`. Its checks (tools/mutant_checks.py) run
in the order unit tests, golden journals, scenarios, and end at the first that fails. They take at
most 120 CPU seconds; a check that takes far longer than without the fault counts as caught, as a
hang. The same checks must pass on the copy without a fault: a test or golden journal that fails
there ends the run. A scenario that fails there is named, and another takes its place. A file of
tests that takes more than 60 CPU seconds is left out and named.

A module with a compiled twin runs with IMPLICAST_CORE=python, so that the mutated code runs.
`tests/faults/surviving_mutants.py` names faults that are known to be equivalent or to change cost
only. The share is of the mutants without the equivalent ones.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

from mutant_checks import PACKAGE, Project
from mutant_trial import BaselineError, Judging, Tree, Verdict
from mutations import KINDS, Fault, changes, faults

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("peer", "overlay", "casting", "judge")
SHARES = {"peer": 1, "overlay": 2, "casting": 2, "judge": 1}
"""How many of each six faults lie in a room."""
JUDGE: dict[str, frozenset[str]] = {
    "world/invariants.py": frozenset(),
    "world/notices.py": frozenset(),
    "world/receipts.py": frozenset(),
    "world/promises.py": frozenset(),
    "world/promised_times.py": frozenset(),
    "world/change.py": frozenset(),
    "trials/campaign.py": frozenset({"check", "_reasons", "_deceptions"}),
}
"""Files of the judge; for some, only these functions."""
UNMUTATED = ("__init__.py", "designs.py", "errors.py", "ledger.py")
"""Files without faults: tables of names, error texts, and the fake host of tests."""
SURVIVORS = ROOT / "tests" / "faults" / "surviving_mutants.py"


def room_files(root: Path, room: str) -> list[tuple[Path, frozenset[str]]]:
    """The files of a room, each with the functions that may be mutated (none: all)."""
    if room == "judge":
        return [(root / PACKAGE / name, only) for name, only in JUDGE.items()]
    found = sorted((root / PACKAGE / room).rglob("*.py"))
    return [(each, frozenset()) for each in found if each.name not in UNMUTATED]


def drawn(root: Path, room: str, count: int, seed: int) -> list[Fault]:
    """This many faults of a room: a kind, then a fault of it, each by the seed."""
    chance = Random(f"{seed} {room}")
    sources = {
        str(path.relative_to(root)): (path.read_text("utf-8"), only)
        for path, only in room_files(root, room)
    }
    by_kind: dict[str, list[Fault]] = {kind: [] for kind in KINDS}
    for name, (source, only) in sources.items():
        for fault in faults(name, source, only):
            by_kind[fault.kind].append(fault)
    chosen: list[Fault] = []
    while len(chosen) < count and (kinds := [kind for kind in KINDS if by_kind[kind]]):
        of_kind = by_kind[chance.choice(kinds)]
        fault = of_kind.pop(chance.randrange(len(of_kind)))
        if changes(fault, sources[fault.path][0]):
            chosen.append(fault)
    return chosen


def draw(root: Path, rooms: Iterable[str], count: int, seed: int) -> list[Fault]:
    """Faults of all rooms, mixed, so that the first ones are a sample of all."""
    cycle = [room for room in ROOMS if room in rooms for _ in range(SHARES[room])]
    wanted = Counter(cycle[number % len(cycle)] for number in range(count))
    lists = [drawn(root, room, number, seed) for room, number in sorted(wanted.items())]
    mixed = [one for row in zip_longest(*lists) for one in row if one is not None]
    Random(f"{seed} order").shuffle(mixed)
    return mixed


def room_of(path: str) -> str:
    first = Path(path).relative_to(PACKAGE).parts[0]
    return first if first in ROOMS else "judge"


def tree_digest(root: Path) -> str:
    """Digest of all Python files of `src` and `tests`: results of different trees are not mixed."""
    total = sha256()
    for folder in ("src", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            total.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def known_survivors() -> dict[str, Any]:
    """By key, what the page says of a surviving mutant."""
    spec = importlib.util.spec_from_file_location("surviving_mutants", SURVIVORS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return {each.key: each for each in module.SURVIVORS}


class Record:
    """The results of a run in a JSON file, written after each mutant."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, about
        self.mutants: dict[str, dict[str, Any]] = {}

    @classmethod
    def read(cls, path: Path) -> "Record":
        told = json.loads(path.read_text("utf-8"))
        found = cls(path, {name: value for name, value in told.items() if name != "mutants"})
        found.mutants = {each["key"]: each for each in told["mutants"]}
        return found

    def add(self, mutant: dict[str, Any]) -> None:
        self.mutants[mutant["key"]] = mutant
        self.path.parent.mkdir(parents=True, exist_ok=True)
        other = self.path.with_suffix(".part")
        told = {**self.about, "mutants": list(self.mutants.values())}
        other.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
        other.replace(self.path)


def described(fault: Fault, source: str, verdict: Verdict) -> dict[str, Any]:
    """A result as it stands in the file."""
    return {
        "key": fault.key(source),
        "room": room_of(fault.path),
        "path": fault.path,
        "line": fault.line,
        "inside": fault.inside,
        "kind": fault.kind,
        "diff": fault.diff(source),
        "caught": verdict.caught,
        "by": verdict.by,
        "says": verdict.says,
        "cpu_s": round(verdict.cpu_s, 1),
    }


def judged(
    root: Path, todo: list[Fault], jobs: int, stages: tuple[str, ...]
) -> Iterator[tuple[Fault, Verdict]]:
    """Judge faults with this many copies of the tree at a time."""
    judging = Judging(Project(root), stages)
    trees: SimpleQueue[Tree] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(jobs):
            trees.put(Tree.copied(root, Path(folder) / str(number)))

        def one(fault: Fault) -> tuple[Fault, Verdict]:
            tree = trees.get()
            try:
                return fault, judging.verdict(tree, fault)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                yield from pool.map(one, todo)
            finally:
                pool.shutdown(cancel_futures=True)
    for name in judging.left_out():
        print(f"left out, more than 60 CPU s without a fault: {name}")
    for name, wrong in judging.failing.items():
        print(f"this scenario fails without a fault, another took its place: {name}: {wrong}")


def report(mutants: list[dict[str, Any]]) -> str:
    """A table by room, the share caught, and the survivors with their diffs."""
    known = known_survivors()
    lines = ["room      mutants  unit  golden  scenario  hang  survived  equivalent"]
    for room in (*ROOMS, "all"):
        of_room = [each for each in mutants if room in (each["room"], "all")]
        by = Counter(each["by"] for each in of_room if each["caught"])
        left = [each for each in of_room if not each["caught"]]
        same = sum(_is_equivalent(known, each) for each in left)
        scenarios = by["scenario"] + by["mistake"]
        lines.append(
            f"{room:8}  {len(of_room):7}  {by['unit']:4}  {by['golden']:6}  {scenarios:8}"
            f"  {by['hang']:4}  {len(left):8}  {same:10}"
        )
    left = [each for each in mutants if not each["caught"]]
    counted = len(mutants) - sum(_is_equivalent(known, each) for each in left)
    caught = len(mutants) - len(left)
    share = f"{100 * caught / counted:.0f} %" if counted else "no share"
    lines.append(f"\ncaught {caught} of {counted} that are not shown to be equivalent: {share}")
    for each in left:
        reason = known[each["key"]].reason if each["key"] in known else "no reason is known"
        lines.append(
            f"\nsurvived {each['key']} ({each['kind']}) {each['path']}:{each['line']}"
            f" {each['inside']}: {reason}\n{each['diff']}"
        )
    return "\n".join(lines)


def _is_equivalent(known: dict[str, Any], mutant: dict[str, Any]) -> bool:
    return mutant["key"] in known and known[mutant["key"]].is_equivalent


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--count", type=int, default=60, help="how many faults; 60 by default")
    made.add_argument("--seed", type=int, default=1, help="draws other faults")
    made.add_argument("--room", action="append", choices=ROOMS, help="repeatable; all by default")
    made.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    made.add_argument("--out", type=Path, default=ROOT / "out" / "mutants.json", help="results")
    made.add_argument("--resume", type=Path, help="file of a run that goes on")
    made.add_argument("--survivors", type=Path, help="file of a run whose survivors run again")
    made.add_argument(
        "--checks", default="unit,golden,scenario", help="stages that run, with commas between"
    )
    made.add_argument("--tree", type=Path, default=ROOT, help="the tree; this one by default")
    made.add_argument("--list", action="store_true", help="print the faults and run nothing")
    return made


def main(given: list[str] | None = None) -> int:
    asked = parser().parse_args(given)
    root = asked.tree.resolve()
    source_of: dict[str, str] = {}
    earlier = asked.resume or asked.survivors
    about = {"seed": asked.seed, "count": asked.count, "rooms": asked.room or list(ROOMS)}
    record = Record(asked.out, {**about, "tree": tree_digest(root)})
    if earlier:
        old = Record.read(earlier)
        about = {name: old.about[name] for name in about}
        if asked.resume and old.about["tree"] != record.about["tree"]:
            raise SystemExit(f"{earlier} is of another tree; begin a new run")
        record.about |= about
        if asked.resume:
            record.path, record.mutants = earlier, dict(old.mutants)
    found = draw(root, about["rooms"], about["count"], about["seed"])
    for fault in found:
        source_of.setdefault(fault.path, (root / fault.path).read_text("utf-8"))
    todo = [each for each in found if each.key(source_of[each.path]) not in record.mutants]
    if asked.survivors:
        left = {key for key, each in old.mutants.items() if not each["caught"]}
        todo = [each for each in todo if each.key(source_of[each.path]) in left]
    if asked.list:
        for each in todo:
            print(f"{each.kind}: {each.path}:{each.line} {each.inside}")
            print(each.diff(source_of[each.path]))
        return 0
    try:
        for fault, verdict in judged(root, todo, asked.jobs, tuple(asked.checks.split(","))):
            told = described(fault, source_of[fault.path], verdict)
            record.add(told)
            outcome = f"caught by {verdict.by}: {verdict.says}" if verdict.caught else "SURVIVED"
            print(
                f"{len(record.mutants)}/{len(found)} {told['key']} {fault.kind}:"
                f" {fault.path}:{fault.line} {outcome[:120]} ({verdict.cpu_s:.0f} CPU s)",
                flush=True,
            )
    except BaselineError as error:
        raise SystemExit(f"without a fault: {error}") from error
    print(report(list(record.mutants.values())))
    return 0


if __name__ == "__main__":
    os.environ.pop("IMPLICAST_CORE", None)
    sys.exit(main())
