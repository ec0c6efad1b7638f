"""Bounds of the fields of messages: declared where the field is, and refused by decoding when they are passed.

    class Part(Message):
        part: Count
        packed: Payload

What no bound of one field can say (this part below those parts) is checked by the handler.
"""

from typing import Annotated

from msgspec import Meta

COUNT_MAX = 1 << 20
"""How many there can be of anything that a message counts: parts, items, members told."""
ITEMS_MAX = 1 << 16
"""How many values one message carries in one field."""
TEXT_MAX = 4_096
"""Characters of a name, a tag or a sentence in one field."""

Flag = Annotated[int, Meta(ge=0, le=255)]
"""A small choice."""
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Token = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number that only its sender understands."""
Micros = Annotated[int, Meta(ge=0, le=(1 << 62) - 1)]
"""A moment or a span in microseconds."""
Text = Annotated[str, Meta(max_length=TEXT_MAX)]
Payload = Annotated[bytes, Meta(max_length=1 << 20)]
"""What a publisher sends, or values packed by the sender: never longer than a message may be."""
Digest = Annotated[bytes, Meta(max_length=64)]
"""A hash, a key or a signature."""
