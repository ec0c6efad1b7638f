"""Bounds and field types of the messages between brokers."""

from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Address

BROKERS_MAX = 16_384
"""Brokers of one backbone; each measures the round trip to all others."""
CAPACITY_MAX = 1 << 20
"""Largest capacity of a filter in tags."""
TAGS_MAX = 4_096
"""Tags in one message."""
EPOCH_BITS, EPOCH_SHIFT = 38, 24
"""Bits of a view's number, and bits of a generation or serial that count within one view."""

Epoch = Annotated[int, Meta(ge=0, lt=1 << EPOCH_BITS)]
Numbered = Annotated[int, Meta(ge=0, lt=1 << EPOCH_BITS + EPOCH_SHIFT)]
"""A generation or serial: the number of its view, then a number within the view."""
Capacity = Annotated[int, Meta(ge=1, le=CAPACITY_MAX)]
Neighbours = Annotated[tuple[Address, ...], Meta(max_length=BROKERS_MAX)]
