"""The filters of a whole backbone, as they are when all updates have been propagated."""

from collections.abc import Mapping
from math import ceil

from implicast.language.bloom import Bloom, bits_for, hashes_for
from implicast.overlay.backbone.backbone import GROWTH, Backbone
from implicast.overlay.backbone.messages import CAPACITY_MAX
from implicast.overlay.backbone.table import ROOM
from implicast.peer.contract import Address
from implicast.world.populations.backbone import beyond_links, breadth_first


def assemble_filters(brokers: Mapping[Address, Backbone]) -> None:
    """Set every filter to exactly the tags beyond its link. Its size is that of a generation begun
    with all tags; if the initial size suffices, that.
    """
    tags = {address: tuple(broker.tags()) for address, broker in brokers.items()}
    distinct = len({tag for each in tags.values() for tag in each})
    some = next(iter(brokers.values()))
    capacity, growths = room_for(distinct, some.table.capacity)
    bits, hashes = bits_for(capacity, some.error), hashes_for(some.error)
    own = {address: _field(bits, hashes, each) for address, each in tags.items()}
    beyond = beyond_links(brokers, own, breadth_first(brokers))
    length = (bits + 7) // 8
    for address, broker in brokers.items():
        fields = {
            other: beyond[address, other].to_bytes(length, "little") for other in broker.neighbours
        }
        fields[address] = own[address].to_bytes(length, "little")
        broker.restore_filters(growths, capacity, fields)


def room_for(distinct: int, capacity: int) -> tuple[int, int]:
    """(capacity of the filters in tags, number of generations after the first)."""
    if distinct <= capacity * ROOM:
        return capacity, 0
    return min(CAPACITY_MAX, ceil(distinct * GROWTH)), 1


def _field(bits: int, hashes: int, tags: tuple[str, ...]) -> int:
    filter_ = Bloom(bits, hashes)
    filter_.update(tags)
    return int.from_bytes(filter_.to_bytes(), "little")
