"""Designs whose members stand on a hashed ring and keep lists for each other: the converged ring at once."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

from implicast.casting.designs import HOMES, Design
from implicast.casting.keeping.member import RingMember
from implicast.peer.contract import Peer
from implicast.peer.events import Registered
from implicast.world.plan import Plan
from implicast.world.populations.chord import assemble_chord
from implicast.world.populations.lists import Watcher, ring_trouble
from implicast.world.populations.population import Population, Sleepers
from implicast.world.populations.sleepers import RingSleepers


def assemble(design: Design, plan: Plan) -> list[Peer]:
    members = [
        member
        for address in range(plan.peers)
        if isinstance(member := plan.begin(design, address), RingMember)
    ]
    assemble_chord([member.chord for member in members])
    for member in members:
        member.tenure.stand()
    return list(members)


def enrol(plan: Plan, population: Sequence[Peer]) -> None:
    """Every entry at the node that answers for its value, and at those that keep its copies."""
    members = [peer for peer in population if isinstance(peer, RingMember)]
    ring = sorted(members, key=lambda member: member.links.me.place)
    keys = [member.chord.table.own for member in ring]
    copies = min(ring[0].share.settings.copies, len(ring) - 1)
    for member, description in zip(members, plan.descriptions, strict=False):
        member.stand_listed(description)
        for piece in member.entries(description):
            at = bisect_left(keys, piece.key) % len(ring)
            row = member.layings.stand(piece, ring[at].address)
            for step in range(copies + 1):
                ring[(at + step) % len(ring)].share.take((row,))
        member.host.deliver(Registered(member.version))


def sleepers(design: Design, plan: Plan) -> Sleepers:
    return RingSleepers(design, plan)


def population(design: Design) -> Population:
    later = partial(sleepers, design) if HOMES.get(design.name) == "dht" else None
    return Population(partial(assemble, design), ring_trouble, enrol, later, watcher=Watcher)
