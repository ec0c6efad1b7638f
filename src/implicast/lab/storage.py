"""A place is a folder or a file by its URL: here, on a mounted disk, in S3, in HDFS, in Google's or
Azure's stores.

Workers and driver read and write places through `pyarrow.fs`, so that nothing has to be mounted;
Spark reads the same places by its own file systems, under the name it knows them by (`s3://` is
`s3a://` there). A plain path is a place too. Credentials and endpoints come from where each of the
two looks for them: for S3 the environment of AWS (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...), or
for pyarrow alone the URL's own `?endpoint_override=...`.

Object stores have no folders and cannot rename: a place is complete when the one file that says so
is written.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pyarrow as pa
from pyarrow import fs

from implicast.lab.errors import LabError

ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Names of other file systems for what pyarrow calls otherwise."""
FOR_SPARK = {"s3": "s3a"}


@dataclass(frozen=True, slots=True)
class Location:
    """A folder or file. It is a plain value: workers open their own connection to it."""

    url: str

    @classmethod
    def of(cls, given: "str | Path | Location") -> "Location":
        """From a path or URL; a path is made absolute, since workers have other working
        directories.
        """
        if isinstance(given, Location):
            return given
        text = str(given)
        if "://" not in text:
            return cls(str(Path(text).expanduser().absolute()))
        scheme, _, rest = text.partition("://")
        if scheme == "file":
            return cls("/" + rest.lstrip("/"))
        place = cls(f"{ALIASES.get(scheme, scheme)}://{rest}")
        place.store  # noqa: B018  an unknown store is an error before any work starts
        return place

    @property
    def local(self) -> Path | None:
        """The path, where the place is one of this machine's file system."""
        return None if "://" in self.url else Path(self.url)

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def store(self) -> Any:
        """The file system that has it."""
        return _store(*_root(self.url))[0] if self.local is None else _HERE

    @property
    def path(self) -> str:
        """As the file system knows it."""
        if self.local is not None:
            return self.url
        return str(_store(*_root(self.url))[1]).rstrip("/") + urlsplit(self.url).path

    @property
    def for_spark(self) -> str:
        """As Spark knows it."""
        if self.local is not None:
            return self.url
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]  # Spark refuses credentials in addresses
        return urlunsplit((FOR_SPARK.get(parts.scheme, parts.scheme), host, parts.path, "", ""))

    def __truediv__(self, name: str) -> "Location":
        if self.local is not None:
            return Location(f"{self.url.rstrip('/')}/{name}")
        parts = urlsplit(self.url)
        return Location(urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}")))

    def __str__(self) -> str:
        """Without credentials and options: for people."""
        parts = urlsplit(self.url)
        if self.local is not None:
            return self.url
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def exists(self) -> bool:
        """In a store a folder is there when something is in it."""
        return bool(self.store.get_file_info(self.path).type != fs.FileType.NotFound)

    def is_file(self) -> bool:
        return bool(self.store.get_file_info(self.path).type == fs.FileType.File)

    def names(self) -> list[str]:
        """What is in the folder, sorted; nothing when there is no such folder."""
        if self.is_file():
            return []
        return sorted(each.base_name for each in self._listed(False))

    def files(self) -> Iterator["Location"]:
        """All files below it, in order."""
        skip = len(self.path.rstrip("/")) + 1
        for each in sorted(self._listed(True), key=lambda each: str(each.path)):
            if each.type == fs.FileType.File:
                yield self / each.path[skip:]

    def _listed(self, recursive: bool) -> list[Any]:
        found: list[Any] = self.store.get_file_info(
            fs.FileSelector(self.path, allow_not_found=True, recursive=recursive)
        )
        return found

    def make(self) -> "Location":
        """The folder is there; object stores need none."""
        if self.local is not None:
            self.local.mkdir(parents=True, exist_ok=True)
        return self

    def read(self) -> bytes:
        """As it is, packed or not."""
        with self.store.open_input_stream(self.path, compression=None) as file:
            return bytes(file.read())

    def write(self, content: bytes) -> None:
        """All or nothing: objects are, and a file is written aside and renamed."""
        if self.local is None:
            with self.store.open_output_stream(self.path) as file:
                file.write(content)
            return
        self.local.parent.mkdir(parents=True, exist_ok=True)
        aside = self.local.with_name(f".{self.local.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            aside.write_bytes(content)
            aside.rename(self.local)
        finally:
            aside.unlink(missing_ok=True)

    @contextmanager
    def written(self) -> Iterator[Any]:
        """A file to write piece by piece, which is there when it is whole."""
        if self.local is None:
            with self.store.open_output_stream(self.path) as file:
                yield file
            return
        self.local.parent.mkdir(parents=True, exist_ok=True)
        aside = self.local.with_name(f".{self.local.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            with aside.open("wb") as file:
                yield file
            aside.rename(self.local)
        finally:
            aside.unlink(missing_ok=True)

    def read_from(self, offset: int, size: int) -> bytes:
        """A piece of the file."""
        with self.store.open_input_file(self.path) as file:
            file.seek(offset)
            return bytes(file.read(size))

    def sized(self) -> Iterator[tuple["Location", int, float]]:
        """All files below it in order of their paths: place, size in bytes, and when each was
        written last, in seconds since 1970.
        """
        skip = len(self.path.rstrip("/")) + 1
        for each in sorted(self._listed(True), key=lambda each: str(each.path)):
            if each.type == fs.FileType.File:
                yield self / each.path[skip:], int(each.size), each.mtime.timestamp()

    def take(self, file: Path) -> None:
        """Put a local file here, whole or not at all: renamed where that is possible, else copied."""
        if self.local is None:
            with file.open("rb") as source, self.store.open_output_stream(self.path) as target:
                while piece := source.read(1 << 23):
                    target.write(piece)
            return
        self.local.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.rename(self.local)
        except OSError:  # another disk
            self.write(file.read_bytes())

    def fetch(self, to: Path) -> Path:
        """A local copy of the folder, or itself when it is local."""
        if self.local is not None:
            return self.local
        for each in self.files():
            target = to / each.path[len(self.path.rstrip("/")) + 1 :]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(each.read())
        return to

    def remove(self) -> None:
        """Whatever is here, or nothing."""
        kind = self.store.get_file_info(self.path).type
        if kind == fs.FileType.Directory:
            self.store.delete_dir(self.path)
        elif kind == fs.FileType.File:
            self.store.delete_file(self.path)


_HERE = fs.LocalFileSystem()


def _root(url: str) -> tuple[str, str]:
    """The address of the whole store (a bucket, a name node), and the options of the address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/", parts.query


@lru_cache(maxsize=64)
def _store(root: str, options: str) -> tuple[Any, str]:
    """One connection per store and process; `LabError` for addresses that nothing here can open."""
    try:
        store, path = fs.FileSystem.from_uri(f"{root}?{options}" if options else root)
    except (pa.ArrowException, OSError, ValueError) as refused:
        where = root.rpartition("@")[2]
        raise LabError(
            f"{where} cannot be opened: {(str(refused).splitlines() or ['unknown'])[0]}"
        ) from None
    return store, path
