"""What brokers tell each other: what is registered where, how far apart they are, which tree joins them.

All may be repeated. `Routed` answers each of the first three.
"""

from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Address, Message, StandingAlarm
from implicast.peer.fields import Micros, Payload, Text

BROKERS_MAX = 16_384
"""Brokers of one backbone: each measures the way to all others."""
CAPACITY_MAX = 1 << 20
"""Tags that filters can have room for."""
TAGS_MAX = 4_096
"""Tags that one message tells of."""
EPOCH_BITS, EPOCH_SHIFT = 38, 24
"""The number of a view; and how many bits of a generation or serial are left to count within one view."""

Epoch = Annotated[int, Meta(ge=0, lt=1 << EPOCH_BITS)]
Numbered = Annotated[int, Meta(ge=0, lt=1 << EPOCH_BITS + EPOCH_SHIFT)]
"""A generation or a serial: the number of its view, then a number within the view."""
Capacity = Annotated[int, Meta(ge=1, le=CAPACITY_MAX)]
Neighbours = Annotated[tuple[Address, ...], Meta(max_length=BROKERS_MAX)]


class Tell(Message):
    """These tags are registered on my side of our link."""

    wire = 0x0301
    serial: Numbered
    generation: Numbered
    """Of the newest filters that the sender knows of."""
    tags: Annotated[tuple[Text, ...], Meta(max_length=TAGS_MAX)]


class FiltersAnew(Message):
    """A new generation of filters begins, with room for `capacity` tags: build yours."""

    wire = 0x0302
    serial: Numbered
    generation: Numbered
    capacity: Capacity


class WholeFilter(Message):
    """The whole filter of my side of our link, in the new generation."""

    wire = 0x0303
    serial: Numbered
    generation: Numbered
    capacity: Capacity
    filter: Payload


class Routed(Message):
    """Every broker on my side of our link knows what your message `serial` said."""

    wire = 0x0304
    serial: Numbered


class Stale(Message):
    """To the broker that begins generations: much of what the filters of this generation say is no longer so."""

    wire = 0x0305
    generation: Numbered


class Beat(Message):
    """Are you there? I follow this view."""

    wire = 0x0306
    epoch: Epoch


class Beating(Message):
    """I am, and follow this view; 0: I have just come and know of none."""

    wire = 0x0307
    epoch: Epoch


class View(Message):
    """From now on these are your neighbours."""

    wire = 0x0308
    epoch: Epoch
    root: Address
    neighbours: Neighbours
    room: Capacity
    """For how many tags filters are to be made: all brokers' filters must have one size."""


class Gauge(Message):
    """A broker measures how long the way to another takes, there and back."""

    wire = 0x0309
    sent_us: Micros


class Gauged(Message):
    """The answer, at once."""

    wire = 0x030A
    sent_us: Micros


class Survey(Message):
    """The root asks a broker how far it is from these others."""

    wire = 0x030B
    members: Neighbours


class Surveyed(Message):
    """How long the way to each broker takes, there and back, in the order of their addresses; 0: not measured."""

    wire = 0x030C
    round_trips_us: Annotated[tuple[Micros, ...], Meta(max_length=BROKERS_MAX)]


class Speak(Message):
    """Rings when news have been gathered for long enough."""


class LookRound(StandingAlarm):
    """Rings when it is time to look for the other brokers."""


KINDS = (
    Tell,
    FiltersAnew,
    WholeFilter,
    Routed,
    Stale,
    Beat,
    Beating,
    View,
    Gauge,
    Gauged,
    Survey,
    Surveyed,
)
