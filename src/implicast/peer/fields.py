"""Bounded field types of messages. Decoding refuses a message that exceeds a bound.

    class Chunk(Message):
        part: Count
        packed: Payload

Conditions between fields (such as part < parts) are checked by the handler.
"""

from typing import Annotated

from msgspec import Meta

COUNT_MAX = 1 << 20
"""Upper bound of anything that a message counts: parts, items, members notified."""
ITEMS_MAX = 1 << 16
"""Values in one field of a message."""
TEXT_MAX = 4_096
"""Characters of a name, a tag or a sentence in one field."""

Flag = Annotated[int, Meta(ge=0, le=255)]
"""A small choice."""
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Token = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number whose meaning only its sender knows."""
Micros = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
"""A time or a duration in microseconds."""
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
Payload = Annotated[bytes, Meta(max_length=1 << 20)]
"""A publisher's payload, or values packed by the sender; at most the size of a message."""
Digest = Annotated[bytes, Meta(max_length=64)]
"""A hash, a key or a signature."""
