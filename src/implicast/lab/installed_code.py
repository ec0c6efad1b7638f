"""The code that a process runs: a digest of the installed sources and of the compiled modules, the
core, and the versions of the libraries that results depend on.

A commit says what the driver's repository holds. It says nothing of a worker, which may have
another version of the package, an edited file, or a compiled module that is older than its source.
Therefore every worker computes its own digests before it makes or measures a run, and compares them
with the driver's.
"""

import os
import platform
import socket
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from implicast.lab.errors import LabError
from implicast.world.core import core

OTHER_CODE = "runs other code than the driver"
"""Part of every refusal, by which the driver knows one."""
CHANGED = "changed after the process had loaded it"
SOURCES = (".py", ".toml", ".txt")
"""Files that decide results. Cython sources are left out: an installed package has none."""
COMPILED = (".so", ".pyd")
LIBRARIES = ("implicast", "msgspec", "networkx", "numpy", "pyarrow", "scipy")
PACKAGE = Path(__file__).resolve().parents[1]
DIGITS = 16

Listed = tuple[tuple[str, int, int], ...]
"""Path in the package, size and time of change of each file, in order."""


class OtherCode(LabError):
    """A worker runs other code than the driver, or its code changed while the process ran."""


@dataclass(frozen=True, slots=True)
class InstalledCode:
    """What a process runs, and where. Two of them agree when all but the host are equal."""

    host: str
    sources: str
    compiled: str
    core: str
    versions: str

    @property
    def digest(self) -> str:
        """One name for all of it, for the column `code`."""
        parts = (getattr(self, name) for name in _COMPARED)
        return sha256("\0".join(parts).encode()).hexdigest()[:DIGITS]

    def differs_from(self, other: "InstalledCode") -> str:
        """Each difference with both values; empty where the two agree."""
        return "; ".join(
            f"{name} {getattr(self, name)}, the driver has {getattr(other, name)}"
            for name in _COMPARED
            if getattr(self, name) != getattr(other, name)
        )


_COMPARED = tuple(each.name for each in fields(InstalledCode) if each.name != "host")


@dataclass(frozen=True, slots=True)
class CodeRule:
    """What a worker compares itself with. A plain value that travels to workers."""

    driver: InstalledCode
    mixed: bool = False
    """Accept workers with other code; each row then names the code that made it."""

    @classmethod
    def here(cls, mixed: bool = False) -> "CodeRule":
        return cls(installed_code(), mixed)

    def check(self) -> InstalledCode:
        """The code of this process; `OtherCode` where it may not take part."""
        mine = installed_code()
        if mine != loaded_code():
            raise OtherCode(
                f"the code on {mine.host} {CHANGED}: sources {mine.sources}, loaded were "
                f"{loaded_code().sources}; start Spark's workers anew"
            )
        difference = mine.differs_from(self.driver)
        if difference and not self.mixed:
            raise OtherCode(
                f"the worker on {mine.host} {OTHER_CODE}: {difference}; install the same package "
                "there, or give --mixed-code to record the code with every row"
            )
        return mine


def installed_code() -> InstalledCode:
    """What is installed now. Files are read again only when one of them has changed."""
    listed = _listed()
    return InstalledCode(
        socket.gethostname(),
        _digest(tuple(each for each in listed if each[0].endswith(SOURCES))),
        _digest(tuple(each for each in listed if each[0].endswith(COMPILED))),
        core(),
        _versions(),
    )


@lru_cache(maxsize=1)
def loaded_code() -> InstalledCode:
    """What was installed when this process first asked."""
    return installed_code()


def _listed() -> Listed:
    return tuple(sorted(_below(str(PACKAGE), "")))


def _below(folder: str, inside: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for each in entries:
            if each.is_dir():
                if each.name != "__pycache__":
                    yield from _below(each.path, f"{inside}{each.name}/")
            elif each.name.endswith(SOURCES + COMPILED):
                status = each.stat()
                yield f"{inside}{each.name}", status.st_size, status.st_ctime_ns


@lru_cache(maxsize=4)
def _digest(listed: Listed) -> str:
    """Of names and contents, in the order of names: times of change only tell when to read again."""
    found = sha256()
    for name, _, _ in listed:
        content = (PACKAGE / name).read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:DIGITS]


@lru_cache(maxsize=1)
def _versions() -> str:
    named = (f"{name} {_version(name)}" for name in LIBRARIES)
    return ", ".join((f"python {platform.python_version()}", *named))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
