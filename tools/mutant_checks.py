"""The checks that a mutant must pass: which concern a module, and how they run.

A check is a pair (stage, name):

    unit      a file of tests that mirrors or imports the module
    golden    a golden journal of seed 1 of a design that imports the module
    scenario  a small scenario of a fault campaign: nothing may be objected to
    mistake   a mistake put in on purpose (tests/faults): the judge must object to it

`python tools/mutant_checks.py ROOT CHECK...` runs golden journals, scenarios and mistakes in one
process on the package that PYTHONPATH names, prints one JSON line a check and ends with 1 at the
first that fails. ROOT is the tree whose tests are used.
"""

import ast
import json
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path("src") / "implicast"
TEST_ROOMS = ("peer", "overlay", "casting", "world", "trials", "laws", "faults")
SCENARIOS, CANDIDATES = 10, 15
SCENARIO_SEED = 4711
DRAWN_FROM = 40
"""A campaign's first scenarios, of which the smallest are taken."""
ASSURANCES, WORLDS = ("none", "receipts"), ("quiet", "hostile")
KINDS_OF_SCENARIOS: tuple[dict[str, Any], ...] = (
    {},
    {"returning": True},
    {"changing": True},
    {"lasting": True},
    {"blackout": True},
)
MISTAKES = (
    "centralised: no repeats",
    "centralised: no memory of received casts",
    "centralised: requests not repeated",
    "broker: hops sent once",
    "dht: no copies",
)
"""What a judge must object to, for mutants of the judge: half of its ten scenarios."""


class Check(NamedTuple):
    """One check: stage and name. The name of a scenario is `design kind number`."""

    stage: str
    name: str


def module_name(path: str) -> str:
    """`src/implicast/peer/wire.py` -> `implicast.peer.wire`."""
    parts = Path(path).relative_to("src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: str) -> frozenset[str]:
    """Modules, or names in modules, that a file imports when it runs."""
    return frozenset(_imported(ast.parse(source)))


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imported(child)


class Project:
    """The tree whose modules are mutated: who imports what, and which checks there are."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.imports = {
            module_name(str(each.relative_to(root))): imported(each.read_text("utf-8"))
            for each in sorted((root / PACKAGE).rglob("*.py"))
        }
        self.tests = {
            each: imported(each.read_text("utf-8"))
            for room in TEST_ROOMS
            for each in sorted((root / "tests" / room).glob("test_*.py"))
        }

    def users(self, start: str) -> frozenset[str]:
        """The modules that a module imports, directly or by others, and itself."""
        met, waiting = {start}, [start]
        while waiting:
            for each in sorted(self.imports.get(waiting.pop(), ())):
                packages = [each.rsplit(".", cut)[0] for cut in range(1, each.count(".") + 1)]
                for name in (each, *packages):
                    if name in self.imports and name not in met:
                        met.add(name)
                        waiting.append(name)
        return frozenset(met)

    @cached_property
    def closures(self) -> dict[str, frozenset[str]]:
        """By package of designs, the modules that it runs on."""
        path = self.root / PACKAGE / "casting" / "designs.py"
        return {
            package: self.users(f"implicast.casting.{package}")
            for package in dict.fromkeys(_design_modules(path.read_text("utf-8")).values())
        }

    def designs(self, path: str) -> list[str]:
        """Designs that run on a module; all for a module of the judge."""
        table = _design_modules((self.root / PACKAGE / "casting" / "designs.py").read_text("utf-8"))
        name = module_name(path)
        using = [each for each, package in table.items() if name in self.closures[package]]
        return using or list(table)

    def unit_tests(self, path: str) -> list[Check]:
        """Test files whose name begins with that of the module or its package, and those that
        import the module.
        """
        name, place = module_name(path), Path(path).relative_to(PACKAGE)
        words = {place.stem, *place.parts[1:-1]} - {"__init__", "messages", "settings"}
        found = []
        for each, imports in self.tests.items():
            mirrors = each.parent.name == place.parts[0] and any(
                each.stem.startswith(f"test_{word}") for word in words
            )
            if mirrors or any(one == name or one.startswith(f"{name}.") for one in imports):
                found.append(Check("unit", str(each.relative_to(self.root))))
        return found

    def golden_runs(self, path: str) -> list[Check]:
        """Golden journals of seed 1, with receipts first and those of `bft`, which take longest,
        last; none for the judge.
        """
        if is_judge(path):
            return []
        designs = sorted(self.designs(path), key=lambda name: name == "bft")
        return [
            Check("golden", f"{name} {assurance} {world} 1")
            for names in (designs[:-1], designs[-1:])
            for assurance in reversed(ASSURANCES)
            for world in WORLDS
            for name in names
        ]

    def scenarios(self, path: str) -> list[Check]:
        """`CANDIDATES` scenarios, spread over the designs and the kinds of campaigns. A trial takes
        the first `SCENARIOS` that pass without a fault.
        """
        designs = self.designs(path)
        mistakes = [Check("mistake", each) for each in MISTAKES if is_judge(path)]
        return mistakes + [
            Check("scenario", f"{designs[number % len(designs)]} {number % 5} {number}")
            for number in range(CANDIDATES - len(mistakes))
        ]


def is_judge(path: str) -> bool:
    return Path(path).relative_to(PACKAGE).parts[0] in ("world", "trials")


def _design_modules(source: str) -> dict[str, str]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DESIGN_MODULES":
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    raise LookupError("casting/designs.py has no DESIGN_MODULES")


def has_twin(source: str) -> bool:
    """Whether a module uses a compiled twin where there is one."""
    return "implicast.space.built.built" in imported(source)


def run_check(check: Check) -> str:
    """Run one check in this process; empty if it passes, else what is wrong."""
    if check.stage == "golden":
        from golden_journals import GoldenRun, differences

        design, assurance, world, seed = check.name.split()
        return "; ".join(differences(GoldenRun(design, assurance, world, int(seed))))
    if check.stage == "scenario":
        from implicast.trials import campaign

        return "; ".join(campaign.check(_small_scenario(check.name)).reasons)
    return _unseen_mistake(check.name)


def _small_scenario(name: str) -> Any:
    """A scenario whose number ranks it among the smallest of the first `DRAWN_FROM`."""
    from implicast.casting.designs import design
    from implicast.trials.campaign import scenario_of

    word, kind, rank = name.split()
    drawn = [
        scenario_of(design(word), SCENARIO_SEED, number, **KINDS_OF_SCENARIOS[int(kind)])
        for number in range(DRAWN_FROM)
    ]
    return sorted(drawn, key=lambda one: (one.peers, one.seed))[int(rank)]


def _unseen_mistake(name: str) -> str:
    import importlib

    import pytest

    from implicast.trials import campaign

    files = sorted((Path(sys.argv[1]) / "tests" / "faults").glob("mistakes_*.py"))
    listed = [one for file in files for one in importlib.import_module(file.stem).MISTAKES]
    mistake = next(one for one in listed if f"{one.design}: {one.name}" == name)
    with pytest.MonkeyPatch.context() as patch:
        mistake.put(patch)
        for scenario in mistake.candidates():
            if any(mistake.says in reason for reason in campaign.check(scenario).reasons):
                return ""
    return f"the judge does not say {mistake.says!r}"


def main() -> int:
    root, names = Path(sys.argv[1]), sys.argv[2:]
    sys.path[:0] = [str(root / "tests"), str(root / "tests" / "faults")]
    import implicast

    assert Path(implicast.__file__).is_relative_to(root), f"{implicast.__file__} is not in {root}"
    for check in (Check(*json.loads(each)) for each in names):
        began_s = time.process_time()
        try:
            wrong = run_check(check)
        except Exception as error:
            wrong = repr(error)
        cpu_s = round(time.process_time() - began_s, 2)
        print(json.dumps({"check": check, "cpu_s": cpu_s, "wrong": wrong[:300]}), flush=True)
        if wrong:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
