"""An archive of everything that workers need, for clusters whose machines have no environment of
their own.

The archive holds this Python's packages as far as the laboratory uses them, laid out as a virtual
environment: `spark.archives=implicast.tar.gz#env` unpacks it on every executor,
`PYSPARK_PYTHON=./env/bin/python` runs it. Spark's own jars stay out: executors have them. The
interpreter stays out too: the archive links to `python3.11` (or whichever packed it), which the
machines must have at the same path.
"""

import io
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from implicast.lab.errors import LabError

ROOT = "implicast"
LEFT_OUT = ("pyspark/jars/", "pyspark/examples/", "pyspark/data/", "pyspark/licenses/")
"""Of 400 MB; executors run in a Spark that has them."""


def pack(out: Path) -> Path:
    """Write the archive; its path."""
    if out.exists():
        raise LabError(f"{out} exists already; remove it or name another file with --out")
    aside = out.with_name(f".{out.name}.aside")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(aside, "w:gz", compresslevel=4) as archive:
        _interpreter(archive)
        for name in sorted(needed(ROOT, frozenset({"lab"}))):
            for inside, path in _files(name):
                archive.add(path, f"{_packages()}/{inside}", recursive=False)
    aside.rename(out)
    return out


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """The distributions that this one needs, itself included, as they are installed here."""
    found: set[str] = set()
    asked = [(name, extras)]
    while asked:
        one, wanted = asked.pop()
        if one.lower() in found:
            continue
        found.add(one.lower())
        for text in metadata.requires(one) or []:
            requirement = Requirement(text)
            if _applies(requirement, wanted) and _installed(requirement.name):
                asked.append((requirement.name, frozenset(requirement.extras)))
    return found


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *sorted(extras)))


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """(path among the packages, file) of a distribution; of ours the source itself, which may be
    elsewhere.
    """
    if name == ROOT:
        source = Path(__file__).resolve().parents[1]
        for path in sorted(source.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{ROOT}/{path.relative_to(source)}", path
    for each in metadata.distribution(name).files or []:
        inside, path = str(each), Path(str(each.locate()))
        if (
            not inside.startswith(("..", "/", "__editable__", *LEFT_OUT))
            and _worth(inside)
            and path.is_file()
        ):
            yield inside, path


def _worth(inside: str) -> bool:
    return (
        "__pycache__" not in inside
        and not inside.endswith(".pth")
        and not inside.startswith(f"{ROOT}/")
    )


def _interpreter(archive: tarfile.TarFile) -> None:
    """`bin/python`, a link to the interpreter that is below this environment, and what makes it
    look here.
    """
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    _text(
        archive,
        "pyvenv.cfg",
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {_version()}\n",
    )
    for name in ("python", "python3"):
        link = tarfile.TarInfo(f"bin/{name}")
        link.type, link.linkname = tarfile.SYMTYPE, str(base)
        archive.addfile(link)


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _version() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _packages() -> str:
    return f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
