"""`tools/mutants.py`: faults of a small module, drawn by a seed, caught or reported as survivors."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tools" / "mutants.py"
TINY = '''"""A module with few faults."""

LEAST = 2
"""Below it is nothing."""


def bounded(value: int, most: int) -> int:
    """The value, or the bound."""
    if value > most:
        return most
    return value


def is_enough(value: int) -> bool:
    assert value == value, f"{value} is no number, 7"
    return value >= LEAST and value != 5
'''
TEST = """from implicast.peer.tiny import bounded, is_enough

def test_a_value_is_bounded():
    assert [bounded(value, 3) for value in (1, 3, 9)] == [1, 3, 3]

def test_two_is_enough_but_not_one_or_five():
    assert [is_enough(value) for value in (1, 2, 5)] == [False, True, False]
"""


@pytest.fixture(scope="module")
def tools():
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("mutations"), importlib.import_module("mutant_checks")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def tiny(tmp_path):
    """A tree of one module and its tests."""
    for path, text in (
        ("src/implicast/__init__.py", ""),
        ("src/implicast/peer/__init__.py", ""),
        ("src/implicast/peer/tiny.py", TINY),
        ("tests/peer/test_tiny.py", TEST),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    return tmp_path


def mutants(tree, *given):
    return subprocess.run(
        [sys.executable, PROGRAM, "--tree", tree, "--room", "peer", *map(str, given)],
        capture_output=True,
        text=True,
    )


def test_the_faults_of_a_file_change_one_place_each_and_no_text_for_readers(tools):
    made, _ = tools
    found = [each for each in made.faults("tiny.py", TINY) if made.changes(each, TINY)]

    edits = {(each.kind, each.applied(TINY).splitlines()[each.line - 1].strip()) for each in found}
    assert edits == {
        ("off by one", "LEAST = 3"),
        ("constant", "LEAST = 0"),
        ("constant", "LEAST = 4"),
        ("negate", "if (not (value > most)):"),
        ("comparison", "if value >= most:"),
        ("comparison", 'assert value != value, f"{value} is no number, 7"'),
        ("negate", "return (not (value >= LEAST and value != 5))"),
        ("weaken", "return ((value >= LEAST))"),
        ("weaken", "return ((value != 5))"),
        ("and/or", "return value >= LEAST or value != 5"),
        ("comparison", "return value > LEAST and value != 5"),
        ("comparison", "return value >= LEAST and value == 5"),
        ("off by one", "return value >= LEAST and value != 6"),
        ("constant", "return value >= LEAST and value != 0"),
        ("constant", "return value >= LEAST and value != 10"),
    }


def test_statements_are_dropped_arguments_swapped_and_functions_left_early(tools):
    made, _ = tools
    source = (
        "def on_ping(self, to: int) -> None:\n"
        '    """Answer."""\n'
        "    self.count += 1\n"
        "    self.host.send(to, PONG)\n"
    )

    found = [each for each in made.faults("ping.py", source) if made.changes(each, source)]

    assert [(each.kind, each.diff(source).splitlines()[1].strip("+ ")) for each in found] == [
        ("return early", "return; self.count += 1"),
        ("drop", "pass"),
        ("constant", "self.count += 0"),
        ("constant", "self.count += 2"),
        ("off by one", "self.count += 2"),
        ("return early", "return; self.host.send(to, PONG)"),
        ("drop", "pass"),
        ("swap", "self.host.send(PONG, to)"),
    ]


def test_a_seed_draws_the_same_faults(tiny):
    once, again, other = (
        mutants(tiny, "--count", 6, "--seed", seed, "--list").stdout for seed in (1, 1, 2)
    )

    assert once == again != other
    assert once.count("src/implicast/peer/tiny.py:") == 6


def test_faults_are_caught_or_survive_and_a_run_goes_on_where_it_ended(tiny):
    module, results = tiny / "src" / "implicast" / "peer" / "tiny.py", tiny / "m.json"
    only_bounded = TINY.replace("LEAST = 2", "LEAST = None").partition("def is_enough")[0]
    module.write_text(only_bounded, "utf-8")
    tests = tiny / "tests" / "peer" / "test_tiny.py"
    tests.write_text(TEST.replace(", is_enough", "").partition("def test_two")[0], "utf-8")

    went = mutants(tiny, "--count", 9, "--seed", 1, "--checks", "unit", "--out", results)

    assert went.returncode == 0, went.stderr
    told = json.loads(results.read_text("utf-8"))
    fatal, equal = sorted(told["mutants"], key=lambda each: -each["caught"])
    assert (fatal["kind"], fatal["by"], equal["caught"]) == ("negate", "unit", False)
    assert "test_a_value_is_bounded" in fatal["says"]
    assert equal["diff"] == "-    if value > most:\n+    if value >= most:"
    assert "caught 1 of 2 that are not shown to be equivalent: 50 %" in went.stdout
    assert equal["diff"] in went.stdout
    assert module.read_text("utf-8") == only_bounded, "only copies change"

    told["mutants"] = [fatal]
    results.write_text(json.dumps(told), "utf-8")
    went = mutants(tiny, "--resume", results, "--checks", "unit")
    assert [line[:4] for line in went.stdout.splitlines() if "CPU s)" in line] == ["2/2 "]
    assert len(json.loads(results.read_text("utf-8"))["mutants"]) == 2

    tests.write_text(tests.read_text("utf-8") + "\n", "utf-8")
    assert "another tree" in mutants(tiny, "--resume", results).stderr


def test_a_test_that_fails_without_a_fault_ends_the_run(tiny):
    file = tiny / "tests" / "peer" / "test_tiny.py"
    file.write_text(TEST.replace("== [1, 3, 3]", "== [1, 3, 4]"), "utf-8")

    went = mutants(tiny, "--count", 2, "--checks", "unit", "--out", tiny / "m.json")

    assert went.returncode == 1
    assert "without a fault: unit tests/peer/test_tiny.py fails" in went.stderr


def test_checks_concern_the_module(tools):
    _, checks = tools
    project = checks.Project(ROOT)

    assert project.designs("src/implicast/casting/dht/member.py") == ["dht-naive", "dht"]
    assert project.designs("src/implicast/overlay/ice/handoff.py") == ["spice", "spice-unloaded"]
    assert len(project.designs("src/implicast/peer/requests.py")) == 10
    units = [each.name for each in project.unit_tests("src/implicast/overlay/links/membership.py")]
    assert "tests/overlay/test_links.py" in units
    assert "tests/overlay/test_ice.py" not in units
    judge = "src/implicast/world/invariants.py"
    assert not project.golden_runs(judge)
    assert {each.stage for each in project.scenarios(judge)} == {"mistake", "scenario"}
    for path, twin in (("peer/requests.py", True), ("peer/detector.py", False)):
        source = (ROOT / "src" / "implicast" / path).read_text("utf-8")
        assert checks.has_twin(source) is twin
