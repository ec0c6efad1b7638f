"""Installed as people do: the wheel without extras, without a C compiler, a home or a place to write."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from implicast.cli import EXTRAS as LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = (
    "pyspark",
    "pandas",
    "matplotlib",
    "jinja2",
    "bibtexparser",
    "deltalake",
    "psutil",
    "starlette",
    "uvicorn",
    "markdown_it",
    "textual",
    "prometheus_client",
    "rich",
)
HIDE = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
PEOPLE = 'name,description\nana,"samba, football"\nbo,"jazz, chess"\ncleo,"jazz, football"\n'


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where there is no compiler."""
    return built(tmp_path_factory.mktemp("wheel"), sys.executable, "--no-build-isolation")


def built(made: Path, python: str | Path, *how: str) -> Path:
    """A wheel is of the Python that builds it."""
    source = made / "source"
    made_here = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=made_here)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [python, "-m", "pip", "wheel", "-q", "--no-deps", *how, "-w", made, source],
        env={**os.environ, "CC": "/bin/false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return next(made.glob("*.whl"))


class Installed:
    """Runs the command as somebody who has nothing but a folder for what is passing."""

    def __init__(self, python: Path, path: str, scratch: Path, desk: Path) -> None:
        self.python, self.path, self.scratch, self.desk = python, path, scratch, desk

    def __call__(self, *words: str, code: int = 0) -> str:
        cpu = {"PATH": "/usr/bin:/bin", "TMPDIR": str(self.scratch), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [self.python, "-m", "implicast", *words],
            cwd=self.desk,
            capture_output=True,
            text=True,
            env={**cpu, "PYTHONPATH": self.path} if self.path else cpu,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="session")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel beside the dependencies of this environment, those of the extras hidden; all of it read-only."""
    there = tmp_path_factory.mktemp("installed")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        there / "site",
        wheel,
    ]
    subprocess.run(install, check=True, capture_output=True)
    (there / "hide").mkdir()
    (there / "hide" / "sitecustomize.py").write_text(HIDE)
    desk = there / "desk"
    desk.mkdir()
    (desk / "people.csv").write_text(PEOPLE)
    for each in [there / "site", *(there / "site").rglob("*"), desk]:
        each.chmod(each.stat().st_mode & ~0o222)
    path = f"{there / 'hide'}{os.pathsep}{there / 'site'}"
    return Installed(Path(sys.executable), path, tmp_path_factory.mktemp("scratch"), desk)


def test_help_and_version(run):
    assert "simulate" in run("--help")
    assert run("--version").strip().split()[-1][0].isdigit()


LATER = [
    pytest.param(name, marks=pytest.mark.long) for name in ("spice-unloaded", "condcast", "bft")
]


@pytest.mark.parametrize("design", ["dht", *LATER])
def test_a_design_is_simulated(run, design):
    outcome = json.loads(run("simulate", design, "--peers", "32", "--casts", "16", "--json"))

    assert outcome["contract"]["missing"] == 0
    assert outcome["contract"]["expected"] > 0


def test_the_front_door_opens(run):
    reached = json.loads(
        run("try", "(samba | jazz) & football", "--peers-from", "people.csv", "--json")
    )["reached"]

    assert sorted(reached) == ["ana", "cleo"]
    assert "football" in run("explain", "(samba | jazz) & football")
    run("compare", "dht", "centralised", "--peers", "32", "--casts", "8", "--json")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("lab", "run", "peers"), "lab"),
        (("lab", "list"), "lab"),
        (("watch",), "net"),
    ],
)
def test_what_needs_an_extra_says_which(run, words, extra):
    said = run(*words, code=1)

    assert f"implicast[{extra}]" in said


def test_every_library_of_an_extra_is_known_by_its_extra():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    listed = {
        re.split(r"[\[<>=]", each)[0] for name in ("lab", "net", "web") for each in wanted[name]
    }
    modules = {"markdown-it-py": "markdown_it"}

    assert {modules.get(each, each.replace("-", "_")) for each in listed} - set(LIBRARIES) == set()


VERSIONS = [
    str(each) for each in sorted(Path(sys.base_prefix).parent.glob("3.1[123].*/bin/python"))
] or [found for name in ("3.11", "3.12", "3.13") if (found := shutil.which(f"python{name}"))]


@pytest.mark.long
@pytest.mark.parametrize("python", VERSIONS or [sys.executable])
def test_a_clean_environment_of_each_python(tmp_path, python):
    made = subprocess.run([python, "-m", "venv", tmp_path / "venv"], capture_output=True)
    if made.returncode:
        pytest.skip(f"{python} cannot make environments here")
    inside = tmp_path / "venv" / "bin" / "python"
    wheel = built(tmp_path / "made", inside)
    subprocess.run(
        [inside, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel], check=True
    )
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "scratch").mkdir()
    for each in [*(tmp_path / "venv").rglob("*"), tmp_path]:
        if not each.is_symlink():
            each.chmod(each.stat().st_mode & ~0o222)
    run = Installed(inside, "", tmp_path / "scratch", tmp_path)

    test_help_and_version(run)
    test_a_design_is_simulated(run, "spice-unloaded")
    test_the_front_door_opens(run)
    test_what_needs_an_extra_says_which(run, ("lab", "list"), "lab")
