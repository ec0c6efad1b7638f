"""Encodes and decodes frames, without any I/O.

A frame is a header (length of the body, flags, serial number of the message) and a body. The first
frame of each connection is a `Hello` with the sender's identity, its network, and a digest of
everything on which both sides must agree. Invalid bytes raise `RemoteError`, and the connection is
closed.
"""

import struct

import msgspec

from implicast.peer.contract import Address, Incarnation, Message, Name
from implicast.peer.errors import RemoteError
from implicast.peer.fields import Digest, Micros, Text, Token
from implicast.peer.wire import MESSAGE_BYTES_MAX, UNREADABLE

PROTOCOL = 3
"""Version of the protocol. Nodes with different versions refuse each other; the error names both.
"""
HEADER = struct.Struct(">IBQ")
HEADER_BYTES = HEADER.size
MESSAGE, HELLO, SERVICE = 0, 1, 2
"""Frame flags: a message for the peer, a hello, a message for the node itself (`services.py`)."""


class Hello(Message):
    """The first message of each side of a connection."""

    protocol: int
    network: Digest
    digest: Digest
    """Digest of design, message kinds, fields and parameters (`wire.Codec.digest`); empty if the
    sender runs no peer.
    """
    name: Name
    address: Address
    incarnation: Incarnation
    now_us: Micros
    """The sender's clock, for comparison with the receiver's."""
    software: Text = ""
    revocations: Token = 0
    """Number of the newest revocation list that the sender has (`revocation.py`)."""


Frame = tuple[int, int, bytes]
"""A decoded frame: flags, serial number, body."""


_encode = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(Hello)


def framed(body: bytes, flags: int = MESSAGE, serial: int = 0) -> bytes:
    return HEADER.pack(len(body), flags, serial) + body


def hello_frame(hello: Hello) -> bytes:
    return framed(_encode(hello), HELLO)


def read_hello(body: bytes) -> Hello:
    try:
        return _hello.decode(body)
    except UNREADABLE as error:
        raise RemoteError(f"invalid hello: {error}") from None


class Frames:
    """Splits a byte stream into frames."""

    __slots__ = ("_rest", "_wanted", "largest")

    def __init__(self, largest: int = MESSAGE_BYTES_MAX) -> None:
        self._rest = bytearray()
        self._wanted = 0
        """Number of bytes needed before the next frame can be complete."""
        self.largest = largest

    def feed(self, data: bytes) -> list[Frame]:
        """Add received bytes and return the frames that are complete."""
        found: list[Frame] = []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return found
            data = bytes(self._rest)
            self._rest.clear()
        start, have, read, self._wanted = 0, len(data), HEADER.unpack_from, HEADER_BYTES
        while have - start >= HEADER_BYTES:
            length, flags, serial = read(data, start)
            if length > self.largest or flags > SERVICE:
                raise RemoteError(
                    f"a frame of {length} bytes with flags {flags}; the limit is {self.largest}"
                )
            body = start + HEADER_BYTES
            if body + length > have:
                self._wanted = HEADER_BYTES + length
                break
            start = body + length
            found.append((flags, serial, data[body:start]))
        if start < have:
            self._rest += data[start:]
        return found

    def __len__(self) -> int:
        return len(self._rest)
