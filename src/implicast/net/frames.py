"""Bytes to frames and back, without any I/O.

A frame is a header (length of the body, flags, the serial of the input that caused it) and a body. The first frame of
every connection is a `Hello`: who speaks, for which network, and a digest of all that both must agree on. Nonsense
raises `RemoteError`; the connection is closed then.
"""

import struct

import msgspec

from implicast.peer.contract import Address, Incarnation, Message, Name
from implicast.peer.errors import RemoteError
from implicast.peer.fields import Digest, Micros, Text, Token
from implicast.peer.wire import MESSAGE_BYTES_MAX, UNREADABLE

PROTOCOL = 2
"""Version of the protocol. Two nodes of different versions refuse each other with a sentence that names both."""
HEADER = struct.Struct(">IBQ")
HEADER_BYTES = HEADER.size
MESSAGE, HELLO, SERVICE = 0, 1, 2
"""For the peer; who speaks; for the node itself (`services.py`)."""


class Hello(Message):
    """What each side says first."""

    protocol: int
    network: Digest
    digest: Digest
    """Of design, kinds, fields and parameters (`wire.Codec.digest`); empty for those who run no peer."""
    name: Name
    address: Address
    incarnation: Incarnation
    now_us: Micros
    """The speaker's clock, to be compared."""
    software: Text = ""
    revocations: Token = 0
    """The number of the newest list of the revoked that the speaker has (`revocation.py`)."""


Frame = tuple[int, int, bytes]
"""What came: flags, cause, body."""


_encode = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(Hello)


def framed(body: bytes, flags: int = MESSAGE, cause: int = 0) -> bytes:
    return HEADER.pack(len(body), flags, cause) + body


def hello_frame(hello: Hello) -> bytes:
    return framed(_encode(hello), HELLO)


def read_hello(body: bytes) -> Hello:
    try:
        return _hello.decode(body)
    except UNREADABLE as error:
        raise RemoteError(f"a hello that cannot be read: {error}") from None


class Frames:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_rest", "_wanted", "largest")

    def __init__(self, largest: int = MESSAGE_BYTES_MAX) -> None:
        self._rest = bytearray()
        self._wanted = 0
        """How long the rest must be for anything to be found in it."""
        self.largest = largest

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole with these bytes; the rest waits for more."""
        found: list[Frame] = []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                return found
            data = bytes(self._rest)
            self._rest.clear()
        start, have, read, self._wanted = 0, len(data), HEADER.unpack_from, HEADER_BYTES
        while have - start >= HEADER_BYTES:
            length, flags, cause = read(data, start)
            if length > self.largest or flags > SERVICE:
                raise RemoteError(
                    f"a frame of {length} bytes with flags {flags}; at most {self.largest} are accepted"
                )
            body = start + HEADER_BYTES
            if body + length > have:
                self._wanted = HEADER_BYTES + length
                break
            start = body + length
            found.append((flags, cause, data[body:start]))
        if start < have:
            self._rest += data[start:]
        return found

    def __len__(self) -> int:
        return len(self._rest)
