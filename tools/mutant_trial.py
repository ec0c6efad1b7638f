"""Runs the checks of one mutant in a copy of the tree, with bounds on CPU time and memory."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import Any

from mutant_checks import SCENARIOS, Check, Project, has_twin
from mutations import Fault

CPU_MAX_S = 120.0
"""CPU seconds of all checks of a mutant."""
FILE_MAX_S = 60.0
"""A file of tests that takes more CPU seconds without a fault is left out."""
UNITS_MAX_S = 40.0
"""CPU seconds of all files of tests of one mutant without the fault; cheaper files come first."""
LEFT_OUT = float("inf")
"""The cost of a check that is left out."""
SPARE_S = 2.0
"""CPU seconds of a process before its first check."""
NO_TESTS = 5
"""Exit code of pytest where a file has no tests but long ones."""
WALL = 6.0
"""A process that takes this many times its CPU bound, by the clock, hangs: it may sleep."""
MEMORY_MAX_BYTES = 8 << 30
COPIED = ("src", "tests")
SHOW_PACKAGE = "import implicast; print(implicast.__file__)"
PROGRAM = Path(__file__).with_name("mutant_checks.py")


class BaselineError(Exception):
    """A check fails without any fault, so it can say nothing about mutants."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a mutant was caught, by which stage (`hang` for a timeout), and what that says."""

    caught: bool
    by: str = ""
    says: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What a process did: its exit code (None for a timeout), output, and CPU seconds."""

    code: int | None
    output: str
    cpu_s: float


def run(command: list[str], tree: Path, core: str, cpu_s: float) -> Ran:
    """Run a program in a tree, on its package; end it and its children beyond its bounds."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    if core:
        environment["IMPLICAST_CORE"] = core
    bound_s = max(1, int(cpu_s + 0.999))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (bound_s, bound_s + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=limit,
            start_new_session=True,
        )
        code, used_s = _ended(process, WALL * bound_s + 30)
        output.seek(0)
        told = output.read().decode(errors="replace")
    timed_out = code is None or code in (-signal.SIGXCPU, -signal.SIGKILL)
    return Ran(None if timed_out else code, told, used_s)


def _ended(process: subprocess.Popen[bytes], wall_s: float) -> tuple[int | None, float]:
    """Exit code and CPU seconds of a process and its children."""
    ended_by_clock: list[bool] = []

    def end() -> None:
        ended_by_clock.append(True)
        os.killpg(process.pid, signal.SIGKILL)

    timer = Timer(wall_s, end)
    timer.start()
    _, status, used = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    code = None if ended_by_clock else process.returncode
    return code, used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the tree. Folders other than `src` and `tests` are links."""

    path: Path

    @classmethod
    def copied(cls, root: Path, to: Path) -> "Tree":
        to.mkdir(parents=True)
        for each in sorted(root.iterdir()):
            if each.name in COPIED:
                shutil.copytree(
                    each, to / each.name, ignore=shutil.ignore_patterns("__pycache__", "*.c")
                )
            elif each.name not in (".git", "out", ".hypothesis"):
                (to / each.name).symlink_to(each)
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(to / "src")], check=False)
        where = run([sys.executable, "-c", SHOW_PACKAGE], to, "", FILE_MAX_S).output.strip()
        assert Path(where).is_relative_to(to), f"{where} would run instead of the copy"
        return cls(to)

    def write(self, path: str, source: str) -> None:
        """Write a file of the copy, and remove its bytecode: it is compiled in each process."""
        file = self.path / path
        file.write_text(source, "utf-8")
        for each in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            each.unlink()


class Judging:
    """Judges mutants. A check counts only if it passes on the same copy without the fault: files of
    tests run without it before their first use, other checks when they fail for the first time.
    """

    def __init__(self, project: Project, stages: tuple[str, ...]) -> None:
        self.project, self.stages = project, stages
        self.cost_s: dict[tuple[str, Check], float] = {}
        """By core and check, CPU seconds without a fault; infinite if it is left out."""
        self.failing: dict[str, str] = {}
        """Scenarios that fail without a fault: a finding of its own; others are taken."""
        self._lock = Lock()

    def left_out(self) -> list[str]:
        """Files of tests that take too long."""
        rows = self.cost_s.items()
        return sorted(
            {each.name for (_, each), cost in rows if cost == LEFT_OUT and _is_unit(each)}
        )

    def verdict(self, tree: Tree, fault: Fault) -> Verdict:
        """Put the fault in, run its checks, take it out."""
        source = (self.project.root / fault.path).read_text("utf-8")
        trial = Trial(self, tree, fault, source)
        units = self.project.unit_tests(fault.path) if "unit" in self.stages else []
        with self._lock:
            for each in units:
                self.is_sound(tree, trial.core, each, FILE_MAX_S)
        return trial.verdict(self._within(units, trial.core))

    def _within(self, checks: list[Check], core: str) -> list[Check]:
        """The cheapest files of tests that fit their bound together."""
        chosen, total_s = list[Check](), 0.0
        for check in sorted(checks, key=lambda one: self.cost_s[core, one]):
            total_s += self.cost_s[core, check]
            if total_s <= UNITS_MAX_S:
                chosen.append(check)
        return chosen

    def is_sound(self, tree: Tree, core: str, check: Check, bound_s: float) -> bool:
        """Whether a check passes in time on the copy, which has no fault now."""
        if (core, check) not in self.cost_s:
            ran = run(_command(tree, [check]), tree.path, core, bound_s)
            passed = ran.code == 0 or (ran.code == NO_TESTS and _is_unit(check))
            if not passed and ran.code is not None and check.stage != "scenario":
                raise BaselineError(f"{check.stage} {check.name} fails: {ran.output[-600:]}")
            if not passed and check.stage == "scenario":
                self.failing[check.name] = _told(ran, check.stage)[1]
            self.cost_s[core, check] = ran.cpu_s if passed else LEFT_OUT
        return self.cost_s[core, check] < LEFT_OUT


class Trial:
    """The checks of one mutant, stage by stage, until one fails."""

    def __init__(self, judging: Judging, tree: Tree, fault: Fault, source: str) -> None:
        self.judging, self.tree, self.fault, self.source = judging, tree, fault, source
        self.core = "python" if has_twin(source) else ""
        self.left_s = CPU_MAX_S

    def verdict(self, units: list[Check]) -> Verdict:
        project, stages = self.judging.project, self.judging.stages
        golden = project.golden_runs(self.fault.path) if "golden" in stages else []
        scenarios = project.scenarios(self.fault.path) if "scenario" in stages else []
        try:
            caught = (
                self._failure(units, len(units))
                or self._failure(golden, len(golden))
                or self._failure(scenarios, SCENARIOS)
            )
        finally:
            self._put(False)
        by, says = caught or ("", "")
        return Verdict(bool(caught), by, says, CPU_MAX_S - self.left_s)

    def _put(self, faulty: bool) -> None:
        text = self.fault.applied(self.source) if faulty else self.source
        self.tree.write(self.fault.path, text)

    def _failure(self, checks: list[Check], wanted: int) -> tuple[str, str] | None:
        """Stage and reason of the first check that fails because of the fault, among the first
        `wanted` that pass without it.
        """
        sound = [one for one in checks if self.judging.cost_s.get((self.core, one)) != LEFT_OUT]
        while group := sound[:wanted]:
            self._put(True)
            ran = run(_command(self.tree, group), self.tree.path, self.core, self.left_s)
            self.left_s = max(1.0, self.left_s - ran.cpu_s)
            if ran.code == 0:
                return None
            failed = _failed(ran, group)
            self._put(False)
            if failed is None or self._is_sound(failed):
                return _told(ran, group[0].stage) if self._is_real(ran, failed) else None
            sound.remove(failed)
        return None

    def _is_real(self, ran: Ran, failed: Check | None) -> bool:
        """Whether a failure is more than the end of the CPU time of all checks: a check hangs if it
        takes twice its time without the fault.
        """
        if ran.code is not None or failed is None:
            return True
        took_s = ran.cpu_s - sum(row["cpu_s"] for row in _rows(ran.output))
        return bool(took_s > 2 * self.judging.cost_s[self.core, failed] + SPARE_S)

    def _is_sound(self, check: Check) -> bool:
        with self.judging._lock:
            return self.judging.is_sound(self.tree, self.core, check, CPU_MAX_S / 2)


def _is_unit(check: Check) -> bool:
    return check.stage == "unit"


def _failed(ran: Ran, group: list[Check]) -> Check | None:
    """The check at which a process ended; None for files of tests, which are known to be sound."""
    done = len([row for row in _rows(ran.output) if not row["wrong"]])
    return None if _is_unit(group[0]) else group[min(done, len(group) - 1)]


def _command(tree: Tree, checks: list[Check]) -> list[str]:
    if checks[0].stage == "unit":
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not long", "--tb=line"]
        names = [each.name for each in checks]
        return [sys.executable, "-m", "pytest", *options, *names]
    return [sys.executable, str(PROGRAM), str(tree.path), *map(json.dumps, checks)]


def _rows(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"check"')]


def _told(ran: Ran, stage: str) -> tuple[str, str]:
    """Stage and reason of a catch."""
    if ran.code is None:
        return "hang", f"{stage}: no end within its bound"
    if stage == "unit":
        failed = [line for line in ran.output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return stage, failed[0] if failed else ran.output.strip()[-200:]
    wrong = [row for row in _rows(ran.output) if row["wrong"]]
    if not wrong:
        return stage, ran.output.strip()[-200:]
    name = Check(*wrong[0]["check"])
    return name.stage, f"{name.name}: {wrong[0]['wrong']}"
