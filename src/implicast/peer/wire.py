"""Encoding of messages: two bytes for the kind, then the fields in MessagePack.

Each kind declares its wire number (`Message.wire`), which never changes. Two nodes compare a digest
of what both must share: the design, the shapes of its message kinds, and the parameters that both
ends use. Input that cannot be decoded raises `RemoteError` and no other error.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import inspect

from implicast.peer.contract import Message
from implicast.peer.errors import ParameterError, RemoteError

MESSAGE_BYTES_MAX = 1 << 20
"""Longest message that is accepted; a guard against memory attacks, not a limit of any design."""
KIND_BYTES = 2
FEW, MANY = 1 << 4, 1 << 16
"""MessagePack encodes the length of a list within the first byte below `FEW`, in two further bytes
below `MANY`, else in four.
"""
DIGEST_BYTES = 16

UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Exceptions that decoding raises on malformed input. Text that is not UTF-8 raises a plain
`ValueError`, and too deep nesting a `RecursionError`.
"""

pack = msgspec.msgpack.Encoder().encode
"""Encode a value."""


def list_size(count: int, total: int) -> int:
    """Encoded size of a list of `count` values that take `total` bytes; 0 if it is empty."""
    head = 1 if count < FEW else 3 if count < MANY else 5
    return head + total if count else 0


def size(value: object) -> int:
    """Encoded size of a value, 0 if it is empty: the measure of storage."""
    return len(pack(value)) if value else 0


class Codec:
    """Encodes and decodes a closed set of message kinds: those of a design, or those that one role
    handles.
    """

    __slots__ = ("_codes", "_decoders", "kinds")

    def __init__(self, kinds: Iterable[type[Message]]) -> None:
        self.kinds: list[type[Message]] = sorted(
            set(kinds), key=lambda kind: (kind.wire, kind.__name__)
        )
        for kind in self.kinds:
            if not kind.wire:
                raise ParameterError(
                    f"{kind.__name__} has no wire number; set a free one, such as wire = 0x7001"
                )
        numbers = {kind: kind.wire for kind in self.kinds}
        assert len(set(numbers.values())) == len(numbers), (
            f"two kinds of message share a number: {numbers}"
        )
        self._codes = {kind: number.to_bytes(KIND_BYTES, "big") for kind, number in numbers.items()}
        self._decoders = {
            code: (kind, msgspec.msgpack.Decoder(kind)) for kind, code in self._codes.items()
        }

    def encode(self, message: Message) -> bytes:
        return self._codes[type(message)] + pack(message)

    def decode(self, data: bytes) -> Message:
        if not KIND_BYTES <= len(data) <= MESSAGE_BYTES_MAX:
            raise RemoteError(
                f"message of {len(data)} bytes; {KIND_BYTES} to {MESSAGE_BYTES_MAX} are accepted"
            )
        found = self._decoders.get(data[:KIND_BYTES])
        if found is None:
            raise RemoteError(
                f"unknown message kind {data[:KIND_BYTES].hex()}; "
                f"this role accepts {len(self.kinds)} kinds"
            )
        kind, decoder = found
        try:
            return decoder.decode(data[KIND_BYTES:])  # a copy is cheaper than a memoryview
        except UNREADABLE as error:
            raise RemoteError(f"malformed {kind.__name__}: {error}") from None

    def digest(self, design: str, parameters: Mapping[str, object]) -> bytes:
        """Protocol digest: two nodes understand each other if and only if their digests are equal.

        It covers the design, the shape of every message kind and the parameters that all nodes
        share. A shape holds the wire number, the number of fields and their types with bounds. It
        holds no name of a class or module, so renaming or moving a class leaves the digest
        unchanged.
        """
        kinds = [(self._codes[kind].hex(), shape(kind)) for kind in self.kinds]
        agreed = msgspec.json.encode(
            [design, kinds, sorted((name, str(value)) for name, value in parameters.items())]
        )
        return blake2b(agreed, digest_size=DIGEST_BYTES).digest()


Shape = list[Any]
"""Nested lists of type names, bounds and counts: plain values that encode to the same bytes on
every node.
"""

_BOUNDS: dict[type[inspect.Type], tuple[str, tuple[str, ...]]] = {
    inspect.NoneType: ("none", ()),
    inspect.BoolType: ("bool", ()),
    inspect.IntType: ("int", ("gt", "ge", "lt", "le", "multiple_of")),
    inspect.FloatType: ("float", ("gt", "ge", "lt", "le", "multiple_of")),
    inspect.StrType: ("str", ("min_length", "max_length", "pattern")),
    inspect.BytesType: ("bytes", ("min_length", "max_length")),
}
"""The name and the bounds of each scalar type that a message may carry."""


def shape(kind: type[Any]) -> Shape:
    """The structure of a message kind as it is encoded: its fields in order, each with type, bounds
    and default.
    """
    return _shape(inspect.type_info(kind), ())


def _shape(info: inspect.Type, outer: tuple[type, ...]) -> Shape:
    """`outer`: the structs around this type. A recursive struct is named by nesting distance."""
    scalar = _BOUNDS.get(type(info))
    if scalar is not None:
        type_name, bounds = scalar
        return [type_name, *(getattr(info, bound) for bound in bounds)]
    if isinstance(info, inspect.StructType):
        if info.cls in outer:
            return ["outer", outer[::-1].index(info.cls)]
        inner = (*outer, info.cls)
        # A struct that is encoded as a map puts the names of its fields on the wire.
        keys = ["" if info.array_like else each.encode_name for each in info.fields]
        fields = [
            [key, _shape(each.type, inner), each.required]
            for key, each in zip(keys, info.fields, strict=True)
        ]
        return ["struct", info.array_like, info.tag, fields]
    if isinstance(info, inspect.TupleType):
        return ["tuple", [_shape(each, outer) for each in info.item_types]]
    if isinstance(info, inspect.VarTupleType | inspect.ListType):
        return ["list", info.min_length, info.max_length, _shape(info.item_type, outer)]
    if isinstance(info, inspect.DictType):
        inside = [_shape(info.key_type, outer), _shape(info.value_type, outer)]
        return ["map", info.min_length, info.max_length, *inside]
    if isinstance(info, inspect.EnumType):
        return ["choice", sorted(each.value for each in info.cls)]
    if isinstance(info, inspect.UnionType):
        return [
            "union",
            sorted((_shape(each, outer) for each in info.types), key=msgspec.json.encode),
        ]
    raise ParameterError(f"a field of type {type(info).__name__} cannot be part of a message")
