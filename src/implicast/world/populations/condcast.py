"""condcast: assembles its ring, and checks the ring and its aggregates."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import Any

from implicast.casting.condcast.condcast import Condcast
from implicast.casting.condcast.place import KEY_BITS, LANDMARKS, key_of
from implicast.casting.designs import Design
from implicast.language.aggregate import aggregate_of
from implicast.language.target import Description
from implicast.overlay.chord_sharp import ChordSharp
from implicast.peer.contract import Name, Peer
from implicast.peer.policy import UNLIMITED, policy_of
from implicast.space.built import built
from implicast.world.plan import Plan
from implicast.world.populations.aggregates import sound_objections
from implicast.world.populations.chord_sharp import assemble as assemble_sharp
from implicast.world.populations.chord_sharp import objections as ring_objections
from implicast.world.populations.population import LazyPeers, Population, preload_by_verb

LAZY_FROM = 4_000
"""Number of peers from which on lazy peers are used: half of the time of making all peers, at
65,536 peers a quarter.
"""
SAMPLE = 1024
"""Descriptions from which the common tags are determined."""


def landmarks(descriptions: Sequence[Description]) -> tuple[str, ...]:
    """The most frequent tags of the first descriptions; equally frequent ones in alphabetical
    order.
    """
    counts = Counter(chain.from_iterable(each.tags for each in descriptions[:SAMPLE]))
    return tuple(sorted(counts, key=lambda tag: (-counts[tag], tag))[:LANDMARKS])


def common_tags(plan: Plan, name: Name, role: str) -> tuple[str, ...]:
    """The landmark tags that all peers know, if keys depend on tags."""
    return landmarks(plan.descriptions) if plan.parameters["place"] == "tags" else ()


def distinct(keys: Sequence[int]) -> list[int]:
    """The same keys, made distinct: of two equal keys the later one is increased."""
    taken: dict[int, None] = {}
    for key in keys:
        while key in taken:
            key = (key + 1) % (1 << KEY_BITS)
        taken[key] = None
    return list(taken)


def assemble(plan: Plan) -> list[Peer]:
    """Assemble the ring. With `settle=assembled` the tables hold the descriptions that members will
    register; otherwise they are empty, and F_min flows circulate.
    """
    common, plan = common_tags(plan, b"", "member"), replace(plan, credentials=None)
    sites = [replace(plan.site(address), credentials=common) for address in range(plan.peers)]
    described = [*plan.descriptions[: plan.peers], *[None] * (plan.peers - len(plan.descriptions))]
    keys = [
        key_of(site.network, site.name, each, common)
        for site, each in zip(sites, described, strict=True)
    ]
    peers = [Condcast(site, key) for site, key in zip(sites, distinct(keys), strict=True)]
    settled = plan.parameters["settle"] == "assembled"
    if settled:
        for peer, each in zip(peers, described, strict=True):
            if each is not None:
                peer.restore(aggregate_of(each, peer.settings.bits, peer.settings.hashes))
    ring = assemble_sharp([peer.ring for peer in peers])
    if not settled:
        _start_flows(ring, {peer.ring: peer for peer in peers})
    return list(peers)


def lazy_peers(plan: Plan) -> LazyPeers | None:
    """The same network with lazy peers. None if aggregates are unknown, descriptions have values,
    a policy limits the casts of others, or the compiled code is missing.
    """
    if plan.parameters["settle"] != "assembled" or built("world._lanes") is None:
        return None
    if policy_of(plan.parameters) is not UNLIMITED or any(
        each.values for each in plan.descriptions
    ):
        return None
    from implicast.world.populations.lazy_sharp import (
        LazySharpPeers,
    )  # needs the compiled package

    return LazySharpPeers(plan, common_tags(plan, b"", "member"), distinct)


def flows_needed(nodes: int, period: float, hold: float) -> int:
    """F_min (9): one round of a flow takes at least n M; each node is to be reached every P."""
    return max(1, ceil(hold * nodes / period))


def _start_flows(ring: list[ChordSharp], peers: dict[ChordSharp, Condcast]) -> None:
    chosen = peers[ring[0]].settings.flows
    flows = flows_needed(len(ring), chosen.period_us, chosen.hold_us)
    for index, node in enumerate(ring):
        peers[node].flows.restore(
            first=index * flows // len(ring) != (index + 1) * flows // len(ring)
        )


def objections(population: Sequence[Peer]) -> list[str]:
    """Violations of the ring and the fingers; and, if aggregates expire, aggregates that lack a
    value.
    """
    rings: dict[Any, Condcast] = {
        peer.ring: peer for peer in population if isinstance(peer, Condcast)
    }
    if any(ring.settings.rounds for ring in rings):
        return sound_objections(list(rings), lambda ring: rings[ring].visibility.is_due)
    return ring_objections(list(rings))


def population(design: Design) -> Population:
    return Population(
        assemble, objections, preload_by_verb, lazy_peers, LAZY_FROM, credentials=common_tags
    )
