"""What a network's authority protects and allows: trust policy, admissions and rights."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from implicast.language.target import Description, Scalar
from implicast.peer.contract import Message, Name
from implicast.peer.fields import Micros, Text
from implicast.peer.signatures import SIGNATURE_BYTES, Signer

TIME_BYTES = 8
RIGHTS_MAX = 64
"""Rights in one proof."""
encode_signed = msgspec.msgpack.Encoder().encode
"""Encoding of texts that are signed."""


class Right(Message):
    """The authority's permission for a name to describe itself with this value. An empty attribute
    stands for a tag.
    """

    attribute: Text
    value: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] | Text
    until_us: Micros
    signature: Annotated[bytes, Meta(max_length=SIGNATURE_BYTES)]

    def text(self, name: Name) -> bytes:
        """The text that the authority signs."""
        return encode_signed(("right", name, self.attribute, self.value, self.until_us))


def admission(authority: Signer, name: Name, until_us: int) -> bytes:
    """The authority's statement that a name belongs to its network until `until_us`."""
    return until_us.to_bytes(TIME_BYTES, "big") + authority.sign(
        encode_signed(("member", name, until_us))
    )


decode_rights = msgspec.msgpack.Decoder(
    Annotated[tuple[Right, ...], Meta(max_length=RIGHTS_MAX)]
).decode


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """The authority's public key, and what needs its permission. Without a key every name belongs
    to the network.
    """

    authority: bytes = b""
    attributes: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, authority: bytes, protected: Iterable[str]) -> "TrustPolicy":
        """`protected`: names of attributes, and tag prefixes followed by a star (`staff:*`)."""
        names = [each.strip() for each in protected if each.strip()]
        prefixes = tuple(each[:-1] for each in names if each.endswith("*"))
        return cls(authority, frozenset(each for each in names if not each.endswith("*")), prefixes)

    def protected(self, description: Description) -> list[tuple[str, Scalar]]:
        """The parts of a description that need a right."""
        tags = [
            ("", tag) for tag in description.tags if self.prefixes and tag.startswith(self.prefixes)
        ]
        return [
            *tags,
            *(
                (each.attribute, each.value)
                for each in description.values
                if each.attribute in self.attributes
            ),
        ]
