"""Where results come from: commit, code, versions, machine. Written beside every result, printed at
the end of a report.
"""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from implicast.lab.installed_code import installed_code

PACKAGES = ("implicast", "pyspark", "pyarrow", "numpy", "scipy", "msgspec", "matplotlib")


def provenance() -> dict[str, str]:
    """Name -> value, plain texts."""
    found = {"commit": commit(), "python": platform.python_version(), "machine": platform.machine()}
    found |= {name: _version(name) for name in PACKAGES}
    code = installed_code()
    found |= {"code": code.digest, "sources": code.sources, "compiled": code.compiled}
    found |= {"core": code.core}
    return found | {
        "cores": str(os.cpu_count() or 1),
        "system": platform.system(),
        "executable": Path(sys.executable).name,
    }


def origin() -> dict[str, str]:
    """What every run carries of where it comes from: found once, by the driver, for workers may
    have no repository.
    """
    return {"commit": commit(), "version": _version("implicast")}


def commit() -> str:
    """The commit of the code that runs, marked when files differ from it or are not in it;
    `unknown` where no repository tracks this code, as in an environment below a repository.
    """
    here = Path(__file__).resolve().parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    if not head or not _git(here, "ls-files", "--", Path(__file__).name):
        return "unknown"
    changed = _git(here, "status", "--porcelain", "--untracked-files=all", "--", "..")
    return f"{head} with changes" if changed else head


def _git(directory: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
