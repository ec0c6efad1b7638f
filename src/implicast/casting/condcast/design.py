"""condcast as a design: how a population is set up, and what can be wrong with one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from implicast.casting.condcast.condcast import Condcast, KeptCondcast
from implicast.casting.condcast.formulas import flows_needed
from implicast.casting.condcast.messages import KINDS
from implicast.casting.condcast.place import distinct, key_of, landmarks
from implicast.casting.condcast.settings import PARAMETERS
from implicast.casting.designs import Design, Plan, enrol_by_verb
from implicast.language.portrait import portrait
from implicast.overlay import chord_sharp
from implicast.overlay.links import LINK_KINDS
from implicast.peer.contract import Name, Peer


def common_tags(plan: Plan, name: Name, role: str) -> tuple[str, ...]:
    """What a network agrees on that lets peers stand by their tags."""
    return landmarks(plan.descriptions) if plan.parameters["place"] == "tags" else ()


def assemble(plan: Plan) -> list[Peer]:
    """The ring at once. Settled: tables hold what members will say of themselves. Else unknown, with F_min flows."""
    common, plan = common_tags(plan, b"", "member"), replace(plan, credentials=None)
    sites = [replace(plan.site(address), credentials=common) for address in range(plan.peers)]
    described = [*plan.descriptions[: plan.peers], *[None] * (plan.peers - len(plan.descriptions))]
    keys = [key_of(site.network, site.name, each, common) for site, each in zip(sites, described, strict=True)]
    peers = [Condcast(site, key) for site, key in zip(sites, distinct(keys), strict=True)]
    settled = plan.parameters["settle"] == "assembled"
    if settled:
        for peer, each in zip(peers, described, strict=True):
            if each is not None:
                peer.stand(portrait(each, peer.settings.bits, peer.settings.hashes))
    ring = chord_sharp.assemble([peer.ring for peer in peers])
    if not settled:
        _start_flows(ring, {peer.ring: peer for peer in peers})
    return list(peers)


def _start_flows(ring: list[chord_sharp.ChordSharp], peers: dict[chord_sharp.ChordSharp, Condcast]) -> None:
    chosen = peers[ring[0]].settings.flows
    flows = flows_needed(len(ring), chosen.period_us, chosen.hold_us)
    for index, node in enumerate(ring):
        peers[node].flows.start_in_step(first=index * flows // len(ring) != (index + 1) * flows // len(ring))


def objections(population: Sequence[Peer]) -> list[str]:
    """The ring, the fingers; and, where they grow old, aggregates that lack somebody."""
    rings: dict[Any, Condcast] = {peer.ring: peer for peer in population if isinstance(peer, Condcast)}
    if any(ring.settings.rounds for ring in rings):
        return chord_sharp.sound_objections(list(rings), lambda ring: rings[ring].promises.is_due)
    return chord_sharp.objections(list(rings))


DESIGNS = (
    Design(
        name="condcast",
        summary="A ring in key order whose finger tables carry aggregates; a cast goes only where somebody may match.",
        paper="Conditional multicast on Chord# (K. Abe)",
        assemble=assemble,
        enrol=enrol_by_verb,
        member=Condcast,
        kept={"member": KeptCondcast},
        credentials=common_tags,
        kinds=(*LINK_KINDS, *chord_sharp.KINDS, *KINDS),
        parameters=PARAMETERS,
        languages=("tags", "attributes"),
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "returns", "loss", "partitions", "freezes"}),
        quick={"check_s": 1.0, "tries": 5, "round_s": 8.0, "slack_s": 3.0, "merge_s": 15.0},
        patience=(
            {"check_s": 20.0, "round_s": 60.0, "merge_s": 90.0},
            {"check_s": 4.0, "tries": 5, "round_s": 16.0, "slack_s": 6.0, "merge_s": 30.0},
            {"check_s": 2.0, "tries": 5, "round_s": 12.0, "slack_s": 5.0, "merge_s": 20.0},
        ),
    ),
)
