"""Messages to bytes and back: one small code for the kind, then the fields in MessagePack.

The codes of a codec follow the order of the kinds' names, so both ends agree when they speak the same design.
Nonsense from outside raises `RemoteError` and nothing else.
"""

from collections.abc import Iterable

import msgspec

from implicast.peer.contract import Message
from implicast.peer.errors import RemoteError

MESSAGE_BYTES_MAX = 1 << 20
"""The longest message anybody needs to accept; a guard against memory attacks, not a design limit."""

pack = msgspec.msgpack.Encoder().encode
"""A value as it would be encoded."""


def size(value: object) -> int:
    """Bytes of a value as it would be encoded: the measure of storage."""
    return len(pack(value))


class Codec:
    """Encodes and decodes a closed set of message kinds."""

    __slots__ = ("_codes", "_decoders", "kinds")

    def __init__(self, kinds: Iterable[type]) -> None:
        self.kinds: list[type] = sorted(set(kinds), key=lambda kind: kind.__name__)
        names = [kind.__name__ for kind in self.kinds]
        assert len(set(names)) == len(names), f"two kinds of message share a name: {names}"
        assert len(names) < 256, "the code of a kind is one byte"
        self._codes = {kind: bytes([code]) for code, kind in enumerate(self.kinds)}
        self._decoders: list[msgspec.msgpack.Decoder[Message]] = [msgspec.msgpack.Decoder(kind) for kind in self.kinds]

    def encode(self, message: Message) -> bytes:
        return self._codes[type(message)] + pack(message)

    def decode(self, data: bytes) -> Message:
        if not data or len(data) > MESSAGE_BYTES_MAX:
            raise RemoteError(f"a message of {len(data)} bytes; 1 to {MESSAGE_BYTES_MAX} are accepted")
        if data[0] >= len(self._decoders):
            raise RemoteError(f"unknown kind of message {data[0]}; this design has {len(self._decoders)}")
        try:
            return self._decoders[data[0]].decode(data[1:])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteError(f"a {self.kinds[data[0]].__name__} that cannot be read: {error}") from None
