"""Designs with replicated lists on a hashed ring: assembles the converged ring."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from implicast.casting.designs import DESIGN_MODULES, Design
from implicast.casting.replicated_lists.member import RingMember
from implicast.peer.contract import Peer
from implicast.peer.events import Registered
from implicast.world.plan import Plan
from implicast.world.populations.chord import assemble_chord
from implicast.world.populations.lazy_ring import LazyRingPeers
from implicast.world.populations.lists import Watcher, ring_objections_with_lists
from implicast.world.populations.population import LazyPeers, Population


def assemble(design: Design, plan: Plan) -> list[Peer]:
    members = [
        member
        for address in range(plan.peers)
        if isinstance(member := plan.new_member(design, address), RingMember)
    ]
    assemble_chord([member.chord for member in members])
    for member in members:
        member.range_handoff.restore()
    return list(members)


def preload(plan: Plan, population: Sequence[Peer]) -> None:
    """Store every entry at the node responsible for its value and at the holders of its copies."""
    members = [peer for peer in population if isinstance(peer, RingMember)]
    ring = sorted(members, key=lambda member: member.links.me.place)
    keys = [member.chord.table.own for member in ring]
    copies = min(ring[0].holder_state.settings.copies, len(ring) - 1)
    for member, description in zip(members, plan.descriptions, strict=False):
        member.restore_listed(description)
        for piece in member.entries_for(description):
            at = bisect_left(keys, piece.key) % len(ring)
            row = member.own_entries.restore_put(piece, ring[at].address)
            for step in range(copies + 1):
                ring[(at + step) % len(ring)].holder_state.store((row,))
        member.host.deliver(Registered(member.version))


def lazy_peers(design: Design, plan: Plan) -> LazyPeers:
    return LazyRingPeers(design, plan)


def population(design: Design) -> Population:
    lazily = partial(lazy_peers, design) if DESIGN_MODULES.get(design.name) == "dht" else None
    return Population(
        partial(assemble, design), ring_objections_with_lists, preload, lazily, watcher=Watcher
    )
