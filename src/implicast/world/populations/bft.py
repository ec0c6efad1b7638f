"""BFT: members at their places at once, and every list of every place against the rule."""

from collections.abc import Sequence
from dataclasses import replace

from implicast.casting.bft import roles
from implicast.casting.bft.gate import ALL_CHECKS
from implicast.casting.bft.keys import realms
from implicast.casting.bft.member import Bft
from implicast.casting.bft.office import Office
from implicast.casting.bft.settings import BftSettings
from implicast.casting.designs import Design
from implicast.peer.authority import GrantDeclined
from implicast.peer.contract import Peer
from implicast.peer.identity import Certificate
from implicast.world.plan import Plan
from implicast.world.populations.keys import credentials
from implicast.world.populations.population import Population, enrol_by_verb
from implicast.world.populations.skip_graph import objections as list_objections
from implicast.world.populations.standing import Standing


def assemble(plan: Plan, checks: frozenset[int] = ALL_CHECKS) -> list[Peer]:
    """Members at their places, as if they had joined and described themselves long ago, and the authority's office;
    from now on by messages."""
    plan = replace(plan, roles=roles(plan.peers, 1), credentials=credentials)
    office = Office(plan.site(plan.peers, "authority"))
    members = [Bft(plan.site(address), checks) for address in range(plan.peers)]
    if plan.start == "joined":
        return [*members, office]
    granted = [_granted(plan, office, address, member) for address, member in enumerate(members)]
    settings = BftSettings.of(plan.parameters)
    standing = Standing(settings.k, settings.vectors, [each for some in granted for each in some])
    for member, certificates in zip(members, granted, strict=True):
        for certificate in certificates:
            member.stand(certificate, standing)
    return [*members, office]


def _granted(plan: Plan, office: Office, address: int, member: Bft) -> list[Certificate]:
    """The places of what a member will say of itself; only its home if that is more than an applicant may have."""
    said = (
        plan.descriptions[address]
        if plan.parameters["placing"] == "assembled" and plan.descriptions
        else None
    )
    try:
        return office.grant(address, member.name, realms(said), member.public)
    except GrantDeclined:
        return office.grant(address, member.name, realms(None), member.public)


def objections(population: Sequence[Peer]) -> list[str]:
    """Every list of every place against the rule over all places."""
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
    return Population(assemble, objections, enrol_by_verb, credentials=credentials)
