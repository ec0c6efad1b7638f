"""Payloads that are too large to travel inside a cast: files in the node's folder, named by what is in them.

    DIR/blobs/ROOT          whole        DIR/blobs/ROOT.part     being fetched: chunks at their places, holes between
    DIR/blobs/ROOT.leaves   the digests of its chunks

A large payload is cut into chunks of 256 KiB; the digests of the chunks are its leaves, the digest of the leaves and
the size is its root. The cast carries a `Reference` with the root in place of the payload. Whatever comes is checked
against the leaves, and these against the root; after a crash the chunks in the file are checked again, and those that
are right need not be fetched again.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.peer.contract import Contact, Message
from implicast.peer.errors import LocalError
from implicast.peer.fields import Text, Token
from implicast.peer.wire import UNREADABLE

INLINE_MAX = 32 << 10
"""Bytes that travel inside a cast."""
BLOB_MAX = 16 << 20
CHUNK_BYTES = 256 << 10
DIGEST_BYTES = 32
HOLDERS = 3
KEPT_MAX = 1 << 30
"""Bytes of whole payloads that a node keeps; beyond, the oldest that nobody needs go."""
_MARK = b"\x00implicast\x00"

Root = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Leaves = tuple[bytes, ...]


class BlobError(LocalError):
    """A payload that cannot be kept or sent; the text says why."""


class Reference(Message):
    """Stands in a cast for a payload that is fetched."""

    root: Root
    size: Token
    holders: Annotated[tuple[Contact, ...], Meta(max_length=HOLDERS)]
    """Where it can be had: the publisher first."""
    name: Text = ""
    """What its file was called."""

    @property
    def chunks(self) -> int:
        return -(-self.size // CHUNK_BYTES)


_reference = msgspec.msgpack.Decoder(Reference)


def wrapped(payload: bytes) -> bytes:
    """A payload as it travels inside a cast: as it is, unless it looks like a reference."""
    return _MARK + b"\x00" + payload if payload.startswith(_MARK) else payload


def referring(reference: Reference) -> bytes:
    """A reference as it travels inside a cast."""
    return _MARK + b"\x01" + msgspec.msgpack.encode(reference)


def unwrapped(carried: bytes) -> "bytes | Reference":
    """What a cast carried: the payload, or the reference to it."""
    if not carried.startswith(_MARK):
        return carried
    kind, rest = carried[len(_MARK) : len(_MARK) + 1], carried[len(_MARK) + 1 :]
    if kind == b"\x01":
        with contextlib.suppress(*UNREADABLE):
            return _reference.decode(rest)
    return rest


def leaves_of(chunks: Iterator[bytes]) -> Leaves:
    return tuple(blake2b(each, digest_size=DIGEST_BYTES).digest() for each in chunks)


def root_of(leaves: Leaves, size: int) -> bytes:
    return blake2b(
        b"".join(leaves) + size.to_bytes(8, "big"), person=b"blob", digest_size=DIGEST_BYTES
    ).digest()


class Blobs:
    """The files of one node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "blobs"
        self.beside: Callable[[], Iterable[Blobs]] = lambda: ()
        """Others whose whole payloads can be had here too: those of the stand-ins of a proxy."""

    def path(self, root: bytes) -> Path:
        return self._directory / root.hex()

    def _found(self, root: bytes) -> Path:
        """Where a whole payload lies."""
        own = self.path(root)
        beside = (each.path(root) for each in self.beside())
        return own if own.exists() else next((each for each in beside if each.exists()), own)

    def add(self, data: bytes, most: int = BLOB_MAX) -> tuple[bytes, int]:
        """Keep a payload; its root and size. Safe on the disk when this returns."""
        if len(data) > most:
            raise BlobError(f"the payload has {len(data):,} bytes; at most {most:,} are carried")
        leaves = leaves_of(data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
        root = root_of(leaves, len(data))
        if not self.whole(root):
            self._write(self.path(root).with_suffix(".leaves"), b"".join(leaves))
            self._write(self.path(root), data)
        return root, len(data)

    def whole(self, root: bytes) -> bool:
        return self._found(root).exists()

    def read(self, root: bytes) -> bytes:
        """A whole payload."""
        try:
            return self._found(root).read_bytes()
        except OSError:
            raise BlobError(f"{root.hex()} is not here whole") from None

    def leaves(self, root: bytes) -> Leaves | None:
        try:
            packed = self._found(root).with_suffix(".leaves").read_bytes()
        except OSError:
            return None
        return tuple(packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES))

    def chunk(self, root: bytes, number: int) -> bytes | None:
        """A chunk of a whole payload, to be given away."""
        try:
            with self._found(root).open("rb") as file:
                file.seek(number * CHUNK_BYTES)
                return file.read(CHUNK_BYTES) or None
        except OSError:
            return None

    # --- fetching

    def begin(self, reference: Reference, leaves: Leaves) -> set[int]:
        """Begin or resume a payload whose leaves are right; the chunks that are there already."""
        self._write(self.path(reference.root).with_suffix(".leaves"), b"".join(leaves))
        part = self.path(reference.root).with_suffix(".part")
        part.touch()
        have: set[int] = set()
        with part.open("rb") as file:
            for number, leaf in enumerate(leaves):
                file.seek(number * CHUNK_BYTES)
                if leaves_of(iter((file.read(CHUNK_BYTES),))) == (leaf,):
                    have.add(number)
        return have

    def put(self, reference: Reference, number: int, data: bytes) -> None:
        """A chunk that was found right, at its place."""
        with self.path(reference.root).with_suffix(".part").open("r+b") as file:
            file.seek(number * CHUNK_BYTES)
            file.write(data)

    def finish(self, reference: Reference) -> None:
        """All chunks are there: from now on it is whole, also after a crash."""
        part = self.path(reference.root).with_suffix(".part")
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(self.path(reference.root))

    def tidy(self, needed: set[bytes], most: int = KEPT_MAX) -> None:
        """Delete the oldest that are not needed, when there is too much."""
        if not self._directory.exists():
            return
        whole = [each for each in self._directory.iterdir() if not each.suffix]
        kept = sum(each.stat().st_size for each in whole)
        for each in sorted(whole, key=lambda path: path.stat().st_mtime):
            if kept <= most:
                return
            if bytes.fromhex(each.name) not in needed:
                kept -= each.stat().st_size
                each.unlink()
                each.with_suffix(".leaves").unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        aside = path.with_name(path.name + ".new")
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            with aside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise BlobError(f"{path} cannot be written: {error.strerror or error}") from None
