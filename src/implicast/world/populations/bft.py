"""BFT: assembles members with their places, and checks every list of every place."""

from collections.abc import Sequence
from dataclasses import replace

from implicast.casting.bft import roles
from implicast.casting.bft.authority_peer import AuthorityPeer
from implicast.casting.bft.keys import realms
from implicast.casting.bft.member import Bft
from implicast.casting.bft.settings import BftSettings
from implicast.casting.bft.validator import ALL_CHECKS
from implicast.casting.designs import Design
from implicast.overlay.skip_graph.graph import AssembledPlaces
from implicast.peer.authority import GrantDeclined
from implicast.peer.contract import Peer
from implicast.peer.identity import Certificate
from implicast.world.plan import Plan
from implicast.world.populations.assembled_graph import AssembledGraph
from implicast.world.populations.keys import credentials
from implicast.world.populations.population import Population, preload_by_verb
from implicast.world.populations.skip_graph import objections as list_objections


def assemble(plan: Plan, checks: frozenset[int] = ALL_CHECKS) -> list[Peer]:
    """Members that hold the places of their descriptions, and the authority peer. Everything after
    that is done by messages.
    """
    plan = replace(plan, roles=roles(plan.peers, 1), credentials=credentials)
    authority = AuthorityPeer(plan.site(plan.peers, "authority"))
    members = [Bft(plan.site(address), checks) for address in range(plan.peers)]
    if plan.start == "joined":
        return [*members, authority]
    granted = [_granted(plan, authority, address, member) for address, member in enumerate(members)]
    settings = BftSettings.of(plan.parameters)
    assembled = AssembledGraph(
        settings.k, settings.vectors, [each for some in granted for each in some]
    )
    for member, certificates in zip(members, granted, strict=True):
        member.restore(AssembledPlaces(certificates, assembled))
    return [*members, authority]


def _granted(plan: Plan, authority: AuthorityPeer, address: int, member: Bft) -> list[Certificate]:
    """The certificates for a member's description; only for its home if it asks for more than an
    applicant may have.
    """
    description = (
        plan.descriptions[address]
        if plan.parameters["placing"] == "assembled" and plan.descriptions
        else None
    )
    try:
        return authority.grant(address, member.name, realms(description), member.public)
    except GrantDeclined:
        return authority.grant(address, member.name, realms(None), member.public)


def objections(population: Sequence[Peer]) -> list[str]:
    """Compare every list of every place with the definition over all places."""
    members = [peer for peer in population if isinstance(peer, Bft)]
    own = [place for member in members for _, place in sorted(member.graph.places.held.items())]
    if not own:
        return []
    return list_objections(
        tuple([place.certificate for place in own]),
        lambda index: own[index].table,
        own[0].k,
        own[0].vectors,
        lambda index: f"peer {own[index].certificate.address}, place {own[index].key!r}",
    )


def population(design: Design) -> Population:
    return Population(assemble, objections, preload_by_verb, credentials=credentials)
