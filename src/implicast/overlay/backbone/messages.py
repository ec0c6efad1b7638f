"""Messages between brokers: registered tags, round-trip times, and the tree.

All are idempotent. `CoverageAck` answers each of the first three.
"""

from typing import Annotated

from msgspec import Meta

from implicast.peer.contract import Address, Message, StandingAlarm
from implicast.peer.fields import Micros, Payload, Text

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


class TagUpdate(Message):
    """These tags are registered on the sender's side of the edge."""

    wire = 0x0301
    serial: Numbered
    generation: Numbered
    """The newest generation that the sender knows."""
    tags: Annotated[tuple[Text, ...], Meta(max_length=TAGS_MAX)]


class NewGeneration(Message):
    """A new generation of filters with this capacity begins; the receiver builds its own."""

    wire = 0x0302
    serial: Numbered
    generation: Numbered
    capacity: Capacity


class WholeFilter(Message):
    """The complete filter of the sender's side of the edge, in the new generation."""

    wire = 0x0303
    serial: Numbered
    generation: Numbered
    capacity: Capacity
    filter: Payload


class CoverageAck(Message):
    """Every broker on the sender's side of the edge has the update `serial`."""

    wire = 0x0304
    serial: Numbered


class GenerationRequest(Message):
    """Asks the root for a new generation, because the filters of this one are outgrown or largely
    out of date.
    """

    wire = 0x0305
    generation: Numbered


class BrokerPing(Message):
    """Liveness probe; the sender follows this view."""

    wire = 0x0306
    epoch: Epoch


class BrokerPong(Message):
    """Answer to a probe; the sender follows this view. 0: it has just started and knows none."""

    wire = 0x0307
    epoch: Epoch


class View(Message):
    """A new view: its number, its root, and the receiver's neighbours in the tree."""

    wire = 0x0308
    epoch: Epoch
    root: Address
    neighbours: Neighbours
    room: Capacity
    """Capacity of the filters in tags; all brokers' filters have the same size."""
    lost: Neighbours = ()
    """Configured brokers that are not in the tree."""
    recovering: Neighbours = ()
    """Brokers that restarted lately: their clients may not have registered again."""


class RttProbe(Message):
    """Measures the round trip to another broker."""

    wire = 0x0309
    sent_us: Micros


class RttReply(Message):
    """Immediate answer to `RttProbe`."""

    wire = 0x030A
    sent_us: Micros


class RttRequest(Message):
    """The root asks a broker for its round trips to these members."""

    wire = 0x030B
    members: Neighbours


class RttReport(Message):
    """Round trips to all brokers in the order of their addresses; 0: not measured."""

    wire = 0x030C
    round_trips_us: Annotated[tuple[Micros, ...], Meta(max_length=BROKERS_MAX)]


class FlushDue(Message):
    """Fires when tags have been collected for `FLUSH_US`."""


class CheckBrokers(StandingAlarm):
    """Fires when the other brokers are to be checked."""


KINDS = (
    TagUpdate,
    NewGeneration,
    WholeFilter,
    CoverageAck,
    GenerationRequest,
    BrokerPing,
    BrokerPong,
    View,
    RttProbe,
    RttReply,
    RttRequest,
    RttReport,
)
