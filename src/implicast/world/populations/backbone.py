"""Invariants of the brokers' backbone at rest: it is a tree, and filters cover the tags beyond each
link.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from implicast.language.bloom import Bloom
from implicast.overlay.backbone.backbone import Backbone
from implicast.overlay.backbone.table import FilterTable, set_bits
from implicast.peer.contract import Address

CACHED_FILTERS = 256
"""Filters cached between checks; the least recently used is dropped first."""


Neighbours = Mapping[Address, Sequence[Address]]
"""By broker, its neighbours in the tree."""


def objections(
    brokers: Mapping[Address, Backbone], tags: Mapping[Address, Iterable[str]]
) -> list[str]:
    """Violations; `tags` are those of each broker's own clients."""
    tree = {address: broker.neighbours for address, broker in brokers.items()}
    order = breadth_first(tree)
    links = sum(len(broker.neighbours) for broker in brokers.values())
    if len(order) != len(brokers) or links != 2 * (len(brokers) - 1):
        return [
            f"the backbone is no tree: {len(order)} of {len(brokers)} brokers reached, "
            f"{links} ends of links"
        ]
    generations = sorted({broker.table.generation for broker in brokers.values()})
    under_way = [address for address, broker in brokers.items() if broker.next is not None]
    if len(generations) > 1 or under_way:
        return [
            f"the brokers are in generations {generations}, {len(under_way)} of them between two"
        ]
    held = {address: tuple(tags[address]) for address in brokers}
    own = {
        address: _bits(each.table.bits, each.table.hashes, held[address])
        for address, each in brokers.items()
    }
    return _uncovered(brokers, own, order)


def breadth_first(tree: Neighbours) -> dict[Address, Address | None]:
    """All brokers reachable from the first, each after its parent."""
    first = next(iter(tree))
    order: dict[Address, Address | None] = {first: None}
    found = [first]
    for address in found:
        for neighbour in tree[address]:
            if neighbour in tree and neighbour not in order and address in tree[neighbour]:
                order[neighbour] = address
                found.append(neighbour)
    return order


@lru_cache(maxsize=CACHED_FILTERS)
def _bits(bits: int, hashes: int, tags: tuple[str, ...]) -> int:
    """The filter of these tags. Most brokers have the same tags at the next check; without the
    cache, checks took half of a run with churn.
    """
    fresh = Bloom(bits, hashes)
    fresh.update(tags)
    return int.from_bytes(fresh.to_bytes(), "little")


def _uncovered(
    brokers: Mapping[Address, Backbone],
    own: Mapping[Address, int],
    order: Mapping[Address, Address | None],
) -> list[str]:
    """Links whose filter lacks a bit of a tag beyond."""
    tree = {address: broker.neighbours for address, broker in brokers.items()}
    beyond = beyond_links(tree, own, order)
    return [
        f"broker {at} would not send to {neighbour} a tag registered beyond it"
        for (at, neighbour), bits in beyond.items()
        if _lacks(
            brokers[at].table, neighbour, bits.to_bytes((brokers[at].table.bits + 7) // 8, "little")
        )
    ]


def _lacks(table: FilterTable, neighbour: Address, beyond: bytes) -> bool:
    """Whether the neighbour's filter lacks a bit of this filter, which has the common size."""
    mine = table.filters[neighbour]
    wanted = set_bits(beyond, mine.whole) * mine.bits // mine.whole
    has = np.unpackbits(
        np.frombuffer(mine.to_bytes(), np.uint8), count=mine.bits, bitorder="little"
    )
    return not has[wanted].all()


def beyond_links(
    tree: Neighbours,
    own: Mapping[Address, int],
    order: Mapping[Address, Address | None],
) -> dict[tuple[Address, Address], int]:
    """By broker and neighbour, the filter of the tags beyond that link: one pass from the leaves
    inwards, one from the root outwards.
    """
    beyond: dict[tuple[Address, Address], int] = {}
    inwards = [
        (child, parent) for child, parent in reversed(list(order.items())) if parent is not None
    ]
    outwards = [(parent, child) for child, parent in order.items() if parent is not None]
    for source, target in inwards + outwards:
        bits = own[source]
        for other in tree[source]:
            if other != target:
                bits |= beyond[source, other]
        beyond[target, source] = bits
    return beyond
