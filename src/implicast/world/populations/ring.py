"""Designs with replicated lists on a hashed ring: assembles the converged ring."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from implicast.casting.designs import DESIGN_MODULES, Design
from implicast.casting.replicated_lists.entries import ListEntry
from implicast.casting.replicated_lists.member import RingMember, RingMemberState
from implicast.casting.replicated_lists.own_table import OwnEntriesState
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
        member.restore(RingMemberState(serves=True))
    return list(members)


def preload(plan: Plan, population: Sequence[Peer]) -> None:
    """Store every entry at the node responsible for its value and at the holders of its copies."""
    members = [peer for peer in population if isinstance(peer, RingMember)]
    ring = sorted(members, key=lambda member: member.links.me.place)
    keys = [member.chord.table.own for member in ring]
    copies = min(ring[0].holder_state.settings.copies, len(ring) - 1)
    stored: list[list[ListEntry]] = [[] for _ in ring]
    for member, description in zip(members, plan.descriptions, strict=False):
        values = [(where[1], where[2]) for where, _, _ in member.entries_for(description)]
        places = [bisect_left(keys, member.key_of(*value)) % len(ring) for value in values]
        holders = tuple(ring[at].address for at in places)
        member.restore(RingMemberState(OwnEntriesState(description, holders=holders)))
        for at, entry in zip(places, member.own_entries.as_stored(), strict=True):
            for step in range(copies + 1):
                stored[(at + step) % len(ring)].append(entry)
        member.host.deliver(Registered(member.version))
    for member, entries in zip(ring, stored, strict=True):
        member.restore(RingMemberState(stored=entries))


def lazy_peers(design: Design, plan: Plan) -> LazyPeers:
    return LazyRingPeers(design, plan)


def population(design: Design) -> Population:
    lazily = partial(lazy_peers, design) if DESIGN_MODULES.get(design.name) == "dht" else None
    return Population(
        partial(assemble, design), ring_objections_with_lists, preload, lazily, watcher=Watcher
    )
