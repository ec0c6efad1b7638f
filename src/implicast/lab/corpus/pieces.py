"""Large files read piece by piece: bytes, unpacked where they are gzip, as whole lines and as whole
records. Memory holds one piece, however long the file is.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from implicast.lab.storage import Location

PIECE_BYTES = 1 << 20
GZIP = b"\x1f\x8b"
_RECORD = re.compile(rb"^@\s*\w+\s*[{(]", re.MULTILINE)
"""Where an entry of a bibliography begins: at the beginning of a line, as its parser has it."""


@dataclass(slots=True)
class Pieces:
    """The content of a file in pieces; after the last one, what is wrong with the file."""

    place: Location
    flaw: str | None = field(default=None, init=False)

    def plain(self) -> Iterator[bytes]:
        """Unpacked where the file is gzip, up to where that is damaged."""
        with self.place.store.open_input_stream(self.place.path, compression=None) as file:
            first = bytes(file.read(PIECE_BYTES))
            if first[:2] == GZIP:
                yield from self._unpacked(first, file)
                return
            while first:
                yield first
                first = bytes(file.read(PIECE_BYTES))

    def _unpacked(self, packed: bytes, file: object) -> Iterator[bytes]:
        unpacking, size = zlib.decompressobj(zlib.MAX_WBITS | 16), 0
        try:
            while packed and not unpacking.eof:
                content = unpacking.decompress(packed, PIECE_BYTES)
                size += len(content)
                yield content
                packed = unpacking.unconsumed_tail or bytes(file.read(PIECE_BYTES))  # type: ignore[attr-defined]
        except zlib.error as broken:
            self.flaw = f"damaged gzip after {size} bytes: {broken}"
            return
        yield unpacking.flush()
        if not unpacking.eof:
            self.flaw = f"gzip cut off after {size} bytes"

    def lines(self) -> Iterator[list[bytes]]:
        """Whole lines without their ends, some of them at a time."""
        rest = b""
        for piece in self.plain():
            *whole, rest = (rest + piece).split(b"\n")
            yield whole
        yield [rest] if rest else []

    def records(self) -> Iterator[bytes]:
        """Some whole entries of a bibliography at a time."""
        rest = b""
        for piece in self.plain():
            rest += piece
            starts = [found.start() for found in _RECORD.finditer(rest)]
            if len(rest) >= PIECE_BYTES and starts and starts[-1]:
                yield rest[: starts[-1]]
                rest = rest[starts[-1] :]
        if rest:
            yield rest
