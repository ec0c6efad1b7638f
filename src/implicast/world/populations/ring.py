"""Designs whose members stand on a hashed ring and keep lists for each other: the converged ring at once."""

from functools import partial

from implicast.casting.designs import Design
from implicast.casting.keeping.member import RingMember
from implicast.peer.contract import Peer
from implicast.world.plan import Plan
from implicast.world.populations.chord import assemble_chord
from implicast.world.populations.lists import Watcher, ring_trouble
from implicast.world.populations.population import Population


def assemble(design: Design, plan: Plan) -> list[Peer]:
    members = [member for address in range(plan.peers) if isinstance(member := plan.begin(design, address), RingMember)]
    assemble_chord([member.chord for member in members])
    for member in members:
        member.tenure.stand()
    return list(members)


def population(design: Design) -> Population:
    return Population(partial(assemble, design), ring_trouble, Watcher)
