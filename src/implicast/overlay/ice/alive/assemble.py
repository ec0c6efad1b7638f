"""A converged living surface at once: every peer with its piece, its neighbours, its heirs, and theirs with copies."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from implicast.overlay.ice.alive.ice import LivingIce
from implicast.overlay.ice.assemble import LatencyUs, Tiling, adjacency
from implicast.overlay.ice.atlas import sibling
from implicast.overlay.ice.messages import Title
from implicast.peer.contract import Address
from implicast.space.digest import digest_bits


def settle_alive(tiles: Tiling, surfaces: Sequence[LivingIce], latency_us: LatencyUs) -> None:
    """Place surface i on tile i. Everybody knows its neighbours and their heirs; greetings are spread over a period."""
    one, other = adjacency(tiles)
    titles = [
        Title(low, bits, 0, surface.address)
        for surface, low, bits in zip(surfaces, tiles.low.tolist(), tiles.bits.tolist(), strict=True)
    ]
    ends = np.searchsorted(one, np.arange(tiles.peers + 1)).tolist()
    around = [[int(each) for each in other[start:stop]] for start, stop in pairwise(ends)]
    for peer, surface in enumerate(surfaces):
        others = [titles[each] for each in around[peer]]
        surface.settle_into(titles[peer], others, first_heirs(titles[peer], others, surface.life.heirs))
    for peer, surface in enumerate(surfaces):
        for each in around[peer]:
            _acquaint(surface, surfaces[each], max(1, 2 * int(latency_us(peer, each))))
    by_address = {surface.address: surface for surface in surfaces}
    for surface in surfaces:
        for heir in surface.heirs:
            by_address[heir].inherit_from(surface)


def first_heirs(title: Title, others: list[Title], count: int) -> tuple[Address, ...]:
    """The owner of the sibling, then the smallest tracts, then the smallest ids: as living peers choose."""

    def preference(each: Title) -> tuple[bool, int, Address]:
        is_sibling = each.bits == title.bits and title.bits > 0 and each.low == sibling(title.low, title.bits)
        return not is_sibling, -each.bits, each.owner

    return tuple(each.owner for each in sorted(others, key=preference)[:count])


def _acquaint(surface: LivingIce, other: LivingIce, trip_us: int) -> None:
    news = surface.concern(other.address)
    news.mark, news.heirs, news.heard_us = other.mark, other.heirs, surface.host.now_us
    surface._around = None
    news.take_trip(trip_us)
    pair = sorted((repr(surface.address), repr(other.address)))
    phase = digest_bits(16, "greeting", *pair) / 2**16
    later = 0.1 * (pair[0] != repr(surface.address))
    news.next_us = surface.host.now_us + int((phase + later) * surface.life.hello_us)
    news.echo_us = surface.host.now_us if other.address in surface.heirs else -1
