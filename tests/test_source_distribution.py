"""The source distribution holds the Cython sources, no generated C, and can be installed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
"""Files beside `src` from which the distribution is built."""
CYTHON = sorted((ROOT / "src").rglob("*.pyx")) + sorted((ROOT / "src").rglob("*.pxd"))
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
MODULES = [
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in CYTHON
    if path.suffix == ".pyx"
]


def built_sdist(directory):
    """Build the distribution from a copy of the sources, as `python -m build --sdist` does."""
    copy = directory / "tree"
    shutil.copytree(
        ROOT / "src",
        copy / "src",
        ignore=shutil.ignore_patterns("*.so", "*.c", "*.egg-info", "__pycache__"),
    )
    for name in NEEDED:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
    subprocess.run(
        [sys.executable, "-c", BUILD, str(directory)], cwd=copy, check=True, capture_output=True
    )
    (path,) = directory.glob("implicast-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return built_sdist(tmp_path_factory.mktemp("sdist"))


def test_the_archive_holds_every_cython_source_and_no_generated_c(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert len(MODULES) >= 7
    assert {str(path.relative_to(ROOT)) for path in CYTHON} <= names
    assert not [name for name in names if name.endswith((".c", ".so"))]
    assert not [name for name in names if name.startswith("tests")]
    assert {"pyproject.toml", "setup.py", "LICENSE", "src/implicast/py.typed"} <= names


@pytest.mark.long
def test_the_archive_installs_into_a_fresh_environment(sdist, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    # Dependencies and build tools come from this environment, without its editable install: the
    # interpreter reads no .pth files of a path that another .pth file adds.
    (Path(purelib) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    wheel = [
        sys.executable, "-m", "pip", "--python", str(python), "wheel", "--quiet",
        "--no-build-isolation", "--no-deps", "--wheel-dir", str(tmp_path), str(sdist),
    ]  # fmt: skip
    subprocess.run(wheel, cwd=tmp_path, check=True, capture_output=True)
    (made,) = tmp_path.glob("implicast-*.whl")
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".c", ".pyx", ".pxd"))]
        assert "implicast/py.typed" in archive.namelist()

    install = ["install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *install, str(made)],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    modules = MODULES if shutil.which("gcc") else []
    code = (
        "import sys, implicast; from importlib import import_module as load\n"
        "print(implicast.__file__, *(load(name).__file__ for name in sys.argv[1:]), sep='\\n')"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(
        [python, "-c", code, *modules],
        cwd=tmp_path, env=clean, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    assert all(path.startswith(str(tmp_path)) for path in found), found
    assert all(path.endswith(".so") for path in found[1:])
    assert len(found) == len(modules) + 1
    shown = subprocess.run(
        [tmp_path / "venv" / "bin" / "implicast", "designs"],
        cwd=tmp_path, env=clean, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "dht" in shown.stdout
