"""Payloads that are too large for a cast, stored as files in the node's folder under the digest of
their content.

    DIR/blobs/ROOT          a complete payload
    DIR/blobs/ROOT.part     a payload being fetched: a sparse file with the chunks that have arrived
    DIR/blobs/ROOT.leaves   the digests of its chunks

A large payload is divided into chunks of 256 KiB. The digests of the chunks are its leaves; the
digest of leaves and size is its root. A cast carries a `Reference` with the root in place of the
payload. Received chunks are verified against the leaves, and the leaves against the root. After a
crash the chunks of a partial file are verified again, and only the missing ones are fetched.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.net.storage.files import make_private_folder, open_private, touch_private
from implicast.peer.contract import Contact, Message
from implicast.peer.errors import LocalError
from implicast.peer.fields import Text, Token
from implicast.peer.wire import UNREADABLE

INLINE_MAX = 32 << 10
"""Largest payload in bytes that a cast carries itself."""
BLOB_MAX = 16 << 20
CHUNK_BYTES = 256 << 10
DIGEST_BYTES = 32
HOLDERS = 3
BLOBS_MAX_BYTES = 1 << 30
"""Bytes of complete payloads that a node stores. Beyond this limit the oldest ones that are not
needed are deleted.
"""
_MARK = b"\x00implicast\x00"

Root = Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Leaves = tuple[bytes, ...]


class BlobError(LocalError):
    """A payload cannot be stored or sent; the text says why."""


class Reference(Message):
    """Takes the place of a large payload in a cast."""

    root: Root
    size: Token
    holders: Annotated[tuple[Contact, ...], Meta(max_length=HOLDERS)]
    """Nodes that hold the payload; the publisher is first."""
    name: Text = ""
    """File name of the payload."""

    @property
    def chunks(self) -> int:
        return -(-self.size // CHUNK_BYTES)


_reference = msgspec.msgpack.Decoder(Reference)


def wrapped(payload: bytes) -> bytes:
    """The bytes that a cast carries for a small payload. A payload that starts like a reference is
    escaped.
    """
    return _MARK + b"\x00" + payload if payload.startswith(_MARK) else payload


def referring(reference: Reference) -> bytes:
    """The bytes that a cast carries for a reference."""
    return _MARK + b"\x01" + msgspec.msgpack.encode(reference)


def unwrapped(carried: bytes) -> "bytes | Reference":
    """Decode the bytes that a cast carried: the payload, or the reference to it."""
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
    """The payload files of one node."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "blobs"
        self.other_stores: Callable[[], Iterable[Blobs]] = lambda: ()
        """Further stores that are searched for complete payloads: a proxy searches those of its
        stand-ins.
        """

    def path(self, root: bytes) -> Path:
        return self._directory / root.hex()

    def _found(self, root: bytes) -> Path:
        """The path of a complete payload."""
        own = self.path(root)
        other_stores = (each.path(root) for each in self.other_stores())
        return own if own.exists() else next((each for each in other_stores if each.exists()), own)

    def add(self, data: bytes, most: int = BLOB_MAX) -> tuple[bytes, int]:
        """Store a payload and return its root and size. The file is durable when this returns."""
        if len(data) > most:
            raise BlobError(f"the payload has {len(data):,} bytes; the limit is {most:,}")
        leaves = leaves_of(data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
        root = root_of(leaves, len(data))
        if not self.whole(root):
            self._write(self.path(root).with_suffix(".leaves"), b"".join(leaves))
            self._write(self.path(root), data)
        return root, len(data)

    def whole(self, root: bytes) -> bool:
        return self._found(root).exists()

    def read(self, root: bytes) -> bytes:
        """The content of a complete payload."""
        try:
            return self._found(root).read_bytes()
        except OSError:
            raise BlobError(f"{root.hex()} is not complete here") from None

    def leaves(self, root: bytes) -> Leaves | None:
        try:
            packed = self._found(root).with_suffix(".leaves").read_bytes()
        except OSError:
            return None
        return tuple(packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES))

    def chunk(self, root: bytes, number: int) -> bytes | None:
        """One chunk of a complete payload; None if it is not here."""
        try:
            with self._found(root).open("rb") as file:
                file.seek(number * CHUNK_BYTES)
                return file.read(CHUNK_BYTES) or None
        except OSError:
            return None

    # --- fetching

    def begin_fetch(self, reference: Reference, leaves: Leaves) -> set[int]:
        """Start or resume a fetch whose leaves are verified. Returns the numbers of the chunks that
        are already here.
        """
        self._write(self.path(reference.root).with_suffix(".leaves"), b"".join(leaves))
        part = self.path(reference.root).with_suffix(".part")
        touch_private(part)
        have: set[int] = set()
        with part.open("rb") as file:
            for number, leaf in enumerate(leaves):
                file.seek(number * CHUNK_BYTES)
                if leaves_of(iter((file.read(CHUNK_BYTES),))) == (leaf,):
                    have.add(number)
        return have

    def put_chunk(self, reference: Reference, number: int, data: bytes) -> None:
        """Write a verified chunk at its offset."""
        with self.path(reference.root).with_suffix(".part").open("r+b") as file:
            file.seek(number * CHUNK_BYTES)
            file.write(data)

    def finish_fetch(self, reference: Reference) -> None:
        """Make the payload complete and durable, once all its chunks are written."""
        part = self.path(reference.root).with_suffix(".part")
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(self.path(reference.root))

    def evict(self, needed: set[bytes], most: int = BLOBS_MAX_BYTES) -> None:
        """Delete the oldest payloads that are not in `needed`, until at most `most` bytes are
        stored.
        """
        if not self._directory.exists():
            return
        whole = [each for each in self._directory.iterdir() if not each.suffix]
        total = sum(each.stat().st_size for each in whole)
        for each in sorted(whole, key=lambda path: path.stat().st_mtime):
            if total <= most:
                return
            if bytes.fromhex(each.name) not in needed:
                total -= each.stat().st_size
                each.unlink()
                each.with_suffix(".leaves").unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        aside = path.with_name(path.name + ".new")
        try:
            make_private_folder(self._directory)
            with open_private(aside) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise BlobError(f"{path} cannot be written: {error.strerror or error}") from None
