"""The filters of a whole backbone, as they are when all updates have been propagated."""

from collections.abc import Iterable, Mapping
from math import ceil

from implicast.language.bloom import Bloom, bits_for, hashes_for
from implicast.overlay.backbone.backbone import GROWTH, WholeFilters
from implicast.overlay.backbone.fields import CAPACITY_MAX
from implicast.overlay.backbone.table import ROOM
from implicast.peer.contract import Address
from implicast.world.populations.backbone import Neighbours, beyond_links, breadth_first


def whole_filters(
    tree: Neighbours, tags: Mapping[Address, Iterable[str]], capacity: int, error: float
) -> dict[Address, WholeFilters]:
    """By broker, its filters: each has exactly the tags beyond its link. `tags` are those of each
    broker's own clients. The size of a filter is that of a generation begun with all tags; if the
    initial size, for `capacity` tags, suffices, that.
    """
    distinct = len({tag for each in tags.values() for tag in each})
    capacity, growths = room_for(distinct, capacity)
    bits, hashes = bits_for(capacity, error), hashes_for(error)
    own = {address: _field(bits, hashes, each) for address, each in tags.items()}
    beyond = beyond_links(tree, own, breadth_first(tree))
    length = (bits + 7) // 8
    found = {}
    for address, neighbours in tree.items():
        fields = {each: beyond[address, each].to_bytes(length, "little") for each in neighbours}
        fields[address] = own[address].to_bytes(length, "little")
        found[address] = WholeFilters(growths, capacity, fields)
    return found


def room_for(distinct: int, capacity: int) -> tuple[int, int]:
    """(capacity of the filters in tags, number of generations after the first)."""
    if distinct <= capacity * ROOM:
        return capacity, 0
    return min(CAPACITY_MAX, ceil(distinct * GROWTH)), 1


def _field(bits: int, hashes: int, tags: Iterable[str]) -> int:
    filter_ = Bloom(bits, hashes)
    filter_.update(tags)
    return int.from_bytes(filter_.to_bytes(), "little")
