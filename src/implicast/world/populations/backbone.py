"""The backbone seen from outside, at rest: is it a tree, and do the filters cover what lies beyond each link?"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from implicast.language.bloom import Bloom
from implicast.overlay.backbone.backbone import Backbone
from implicast.overlay.backbone.table import FilterTable, places
from implicast.peer.contract import Address

LOOKED_AT_MAX = 256
"""Filters that are remembered from look to look; the one not looked at for longest goes first."""


def objections(
    brokers: Mapping[Address, Backbone], tags: Mapping[Address, Iterable[str]]
) -> list[str]:
    """What is wrong, in sentences; `tags` are those that each broker's own clients hold."""
    order = breadth_first(brokers)
    links = sum(len(broker.neighbours) for broker in brokers.values())
    if len(order) != len(brokers) or links != 2 * (len(brokers) - 1):
        return [
            f"the backbone is no tree: {len(order)} of {len(brokers)} brokers reached, {links} ends of links"
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


def breadth_first(brokers: Mapping[Address, Backbone]) -> dict[Address, Address | None]:
    """All brokers that can be reached from the first, each after its parent."""
    first = next(iter(brokers))
    order: dict[Address, Address | None] = {first: None}
    found = [first]
    for address in found:
        for neighbour in brokers[address].neighbours:
            if (
                neighbour in brokers
                and neighbour not in order
                and address in brokers[neighbour].neighbours
            ):
                order[neighbour] = address
                found.append(neighbour)
    return order


@lru_cache(maxsize=LOOKED_AT_MAX)
def _bits(bits: int, hashes: int, tags: tuple[str, ...]) -> int:
    """What a filter of these tags looks like. From one look to the next most brokers hold the same tags: without memory
    the looks took half of a run in which things change."""
    fresh = Bloom(bits, hashes)
    fresh.update(tags)
    return int.from_bytes(fresh.to_bytes(), "little")


def _uncovered(
    brokers: Mapping[Address, Backbone],
    own: Mapping[Address, int],
    order: Mapping[Address, Address | None],
) -> list[str]:
    """Links whose filter lacks a bit of what lies beyond."""
    beyond = beyond_links(brokers, own, order)
    return [
        f"broker {at} would not send to {neighbour} what somebody beyond it registered for"
        for (at, neighbour), bits in beyond.items()
        if _lacks(
            brokers[at].table, neighbour, bits.to_bytes((brokers[at].table.bits + 7) // 8, "little")
        )
    ]


def _lacks(table: FilterTable, neighbour: Address, beyond: bytes) -> bool:
    """Is there a bit of this filter, of the common size, that the neighbour's filter does not have?"""
    mine = table.filters[neighbour]
    wanted = places(beyond, mine.whole) * mine.bits // mine.whole
    has = np.unpackbits(
        np.frombuffer(mine.to_bytes(), np.uint8), count=mine.bits, bitorder="little"
    )
    return not has[wanted].all()


def beyond_links(
    brokers: Mapping[Address, Backbone],
    own: Mapping[Address, int],
    order: Mapping[Address, Address | None],
) -> dict[tuple[Address, Address], int]:
    """By broker and neighbour, the filter of what lies beyond: once from the leaves inwards, once from the root
    outwards."""
    beyond: dict[tuple[Address, Address], int] = {}
    inwards = [
        (child, parent) for child, parent in reversed(list(order.items())) if parent is not None
    ]
    outwards = [(parent, child) for child, parent in order.items() if parent is not None]
    for source, target in inwards + outwards:
        bits = own[source]
        for other in brokers[source].neighbours:
            if other != target:
                bits |= beyond[source, other]
        beyond[target, source] = bits
    return beyond
