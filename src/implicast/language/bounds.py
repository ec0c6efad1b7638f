"""Bounds of the language's values in messages. Decoding refuses what exceeds them.

They follow from the default limits of texts (`limits.py`): raising those limits for local texts
does not allow longer messages.
"""

from typing import Annotated, TypeVar

from msgspec import Meta

from implicast.language.limits import LIMITS

BYTES_MAX = 1 << 16
"""Bytes of one filter, bitmap or user-defined value."""
PARTS_MAX = 256
"""Values or queries combined in one."""
POSITIONS_MAX = 4_096
"""Bits of a filter that one query tests."""

T = TypeVar("T")

Word = Annotated[str, Meta(max_length=LIMITS.tag_characters)]
"""A tag, the name of an attribute, or a text that is its value."""
Step = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""A whole number of grid steps: what MessagePack carries."""
Index = Annotated[int, Meta(ge=0, le=BYTES_MAX * 8)]
"""A bit of a filter or a bitmap, a part of a bundle."""
Bits = Annotated[bytes, Meta(max_length=BYTES_MAX)]
Described = Annotated[tuple[T, ...], Meta(max_length=LIMITS.tags_per_description)]
"""What one description holds."""
Termed = Annotated[tuple[T, ...], Meta(max_length=LIMITS.tags_per_term)]
"""What one term holds."""
Terms = Annotated[tuple[T, ...], Meta(max_length=LIMITS.terms)]
Parts = Annotated[tuple[T, ...], Meta(max_length=PARTS_MAX)]
Positions = Annotated[tuple[Index, ...], Meta(max_length=POSITIONS_MAX)]
