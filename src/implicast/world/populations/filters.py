"""The filters of a whole backbone at once, as they are when all that was said has been heard everywhere."""

from collections.abc import Mapping
from math import ceil

from implicast.language.bloom import Bloom
from implicast.overlay.backbone.backbone import GROWTH, Backbone
from implicast.overlay.backbone.messages import CAPACITY_MAX
from implicast.peer.contract import Address
from implicast.world.populations.backbone import beyond_links, breadth_first


def assemble_filters(brokers: Mapping[Address, Backbone]) -> None:
    """Every filter holds exactly the tags beyond it. Filters are as large as if tags had come one by one: each time
    that they are outgrown, a new generation begins."""
    tags = {address: broker.own_tags() for address, broker in brokers.items()}
    distinct = len({tag for each in tags.values() for tag in each})
    some = next(iter(brokers.values()))
    capacity, growths = room_for(distinct, some.table.capacity)
    bits, hashes = some.new_filter_size(capacity)
    own = {address: _field(bits, hashes, each) for address, each in tags.items()}
    beyond = beyond_links(brokers, own, breadth_first(brokers))
    length = (bits + 7) // 8
    for address, broker in brokers.items():
        fields = {other: beyond[address, other].to_bytes(length, "little") for other in broker.neighbours}
        fields[address] = own[address].to_bytes(length, "little")
        broker.stand_filled(growths, capacity, fields, distinct)


def room_for(distinct: int, capacity: int) -> tuple[int, int]:
    """For how many tags filters have room at last, and how often they were outgrown."""
    growths = 0
    while capacity < distinct and capacity < CAPACITY_MAX:
        capacity, growths = min(CAPACITY_MAX, ceil((capacity + 1) * GROWTH)), growths + 1
    return capacity, growths


def _field(bits: int, hashes: int, tags: tuple[str, ...]) -> int:
    filter_ = Bloom(bits, hashes)
    filter_.update(tags)
    return int.from_bytes(filter_.to_bytes(), "little")
