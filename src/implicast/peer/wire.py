"""Messages to bytes and back: two bytes for the kind, then the fields in MessagePack.

A kind is called by the number that it declares (`Message.wire`), the same for ever: a message that is added does
not rename the others. Two nodes that meet compare a digest of all that must agree: design, kinds with their fields,
and the parameters that both ends reckon with. Nonsense from outside raises `RemoteError` and nothing else.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b

import msgspec

from implicast.peer.contract import Message
from implicast.peer.errors import ParameterError, RemoteError

MESSAGE_BYTES_MAX = 1 << 20
"""The longest message anybody needs to accept; a guard against memory attacks, not a design limit."""
KIND_BYTES = 2
FEW, MANY = 1 << 4, 1 << 16
"""MessagePack writes the length of a list in the first byte below this, in two more below that, else in four."""
DIGEST_BYTES = 16

UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""All that decoding raises at nonsense: text that is not UTF-8 is a `ValueError` and no error of msgspec's, and what is
nested too deep is neither."""

pack = msgspec.msgpack.Encoder().encode
"""A value as it would be encoded."""


def list_size(count: int, total: int) -> int:
    """Bytes of a list as it would be encoded, none of nothing, of so many values that take so much in all."""
    head = 1 if count < FEW else 3 if count < MANY else 5
    return head + total if count else 0


def size(value: object) -> int:
    """Bytes of a value as it would be encoded, none of nothing: the measure of storage."""
    return len(pack(value)) if value else 0


class Codec:
    """Encodes and decodes a closed set of message kinds: all of a design, or those that one role understands."""

    __slots__ = ("_codes", "_decoders", "kinds")

    def __init__(self, kinds: Iterable[type[Message]]) -> None:
        self.kinds: list[type[Message]] = sorted(set(kinds), key=lambda kind: (kind.wire, kind.__name__))
        for kind in self.kinds:
            if not kind.wire:
                raise ParameterError(f"{kind.__name__} has no number on the wire; give it a free one: wire = 0x7001")
        numbers = {kind: kind.wire for kind in self.kinds}
        assert len(set(numbers.values())) == len(numbers), f"two kinds of message share a number: {numbers}"
        self._codes = {kind: number.to_bytes(KIND_BYTES, "big") for kind, number in numbers.items()}
        self._decoders = {code: (kind, msgspec.msgpack.Decoder(kind)) for kind, code in self._codes.items()}

    def encode(self, message: Message) -> bytes:
        return self._codes[type(message)] + pack(message)

    def decode(self, data: bytes) -> Message:
        if not KIND_BYTES <= len(data) <= MESSAGE_BYTES_MAX:
            raise RemoteError(f"a message of {len(data)} bytes; {KIND_BYTES} to {MESSAGE_BYTES_MAX} are accepted")
        found = self._decoders.get(data[:KIND_BYTES])
        if found is None:
            raise RemoteError(f"unknown kind of message {data[:KIND_BYTES].hex()}; this role has {len(self.kinds)}")
        kind, decoder = found
        try:
            return decoder.decode(data[KIND_BYTES:])  # a copy is cheaper than a view of it
        except UNREADABLE as error:
            raise RemoteError(f"a {kind.__name__} that cannot be read: {error}") from None

    def digest(self, design: str, parameters: Mapping[str, object]) -> bytes:
        """What two nodes compare when they meet: equal if they understand each other."""
        kinds = [(self._codes[kind].hex(), kind.__name__, _fields(kind)) for kind in self.kinds]
        agreed = msgspec.json.encode([design, kinds, sorted((name, str(value)) for name, value in parameters.items())])
        return blake2b(agreed, digest_size=DIGEST_BYTES).digest()


def _fields(kind: type[Message]) -> list[tuple[str, str]]:
    return [(each.encode_name, str(each.type)) for each in msgspec.structs.fields(kind)]
