"""condcast as a design: its parameters, and how a population is set up."""

from collections.abc import Sequence
from typing import cast

from implicast.casting.condcast.flows import FlowSettings
from implicast.casting.condcast.formulas import flows_needed
from implicast.casting.condcast.messages import KINDS
from implicast.casting.condcast.peer import CondcastPeer, CondcastSettings
from implicast.casting.condcast.place import KEY_BITS, at_random, by_tags, landmarks
from implicast.casting.designs import Design, Plan
from implicast.language.parameters import Parameter, Parameters
from implicast.language.portrait import portrait
from implicast.overlay import chord_sharp
from implicast.overlay.links import LINK_KINDS
from implicast.peer.contract import Peer

PARAMETERS = (
    Parameter(
        "bits", 4096, "width of the Bloom filter of tags; wider prunes more, and makes tables and answers larger",
        8, 1 << 16, unit="bits",
    ),
    Parameter("hashes", 4, "bits per tag in the filter", 1, 16),
    Parameter(
        "settle", "assembled",
        "assembled: values settled before the run, flows rest and cost nothing, changes are broadcast; "
        "flows: aggregates start unknown and are kept by update flows",
        choices=("assembled", "flows"),
    ),
    Parameter("place", "random", "where peers stand: at random, or by common tags", choices=("random", "tags")),
    Parameter("period_s", 30.0, "P, time wanted between two refreshes of one table", 0.1, 86_400, unit="s"),
    Parameter("hold_s", 2.0, "M, least time a peer holds an update", 0.001, 3_600, unit="s"),
    Parameter("grace_s", 5.0, "G, how late an update may be before it counts as lost", 0.0, 3_600, unit="s"),
    Parameter("alpha", 0.2, "weight of the period against the least hold", 0.0, 1.0),
    Parameter("del_flow_thres", 3, "long holds in a row that mean too many flows", 1, 100),
    Parameter("del_flow_poss", 0.1, "chance of swallowing a flow then", 0.0, 1.0),
    Parameter("delta_margin", 1.2, "how much longer than normal a long hold is", 1.0, 100.0),
    Parameter("piggyback", True, "answers travel with updates and save calls"),
)  # fmt: skip


def settings(parameters: Parameters) -> CondcastSettings:
    """The parameters as peers know them."""
    seconds = {name: int(cast(float, parameters[name]) * 1e6) for name in ("period_s", "hold_s", "grace_s")}
    flows = FlowSettings(
        seconds["period_s"],
        seconds["hold_s"],
        seconds["grace_s"],
        cast(float, parameters["alpha"]),
        cast(int, parameters["del_flow_thres"]),
        cast(float, parameters["del_flow_poss"]),
        cast(float, parameters["delta_margin"]),
        cast(bool, parameters["piggyback"]),
    )
    bits = -(-cast(int, parameters["bits"]) // 8) * 8
    return CondcastSettings(bits, cast(int, parameters["hashes"]), flows, resting=parameters["settle"] == "assembled")


def places(plan: Plan, addresses: Sequence[int]) -> list[int]:
    """The keys of peers."""
    if plan.parameters["place"] == "random" or not plan.descriptions:
        return [at_random(plan.seed, address) for address in addresses]
    common = landmarks(plan.descriptions)
    return [by_tags(plan.seed, address, plan.descriptions[address], common) for address in addresses]


def newcomer(plan: Plan, address: int) -> CondcastPeer:
    """A peer that is not yet on the ring."""
    return CondcastPeer(address, plan.host(address), places(plan, [address])[0], settings(plan.parameters))


def assemble(plan: Plan) -> list[Peer]:
    """The ring at once. Settled: tables hold what members will say of themselves. Else unknown, with F_min flows."""
    chosen = settings(plan.parameters)
    keys = _distinct(places(plan, range(plan.peers)))
    peers = [CondcastPeer(address, plan.host(address), key, chosen) for address, key in enumerate(keys)]
    if chosen.resting:
        for peer, description in zip(peers, plan.descriptions, strict=False):
            peer.own = portrait(description, chosen.bits, chosen.hashes)
            # Version 0 is what the tables hold from the start.
    ring = chord_sharp.assemble([peer.ring for peer in peers])
    if not chosen.resting:
        flows = flows_needed(plan.peers, chosen.flows.period_us, chosen.flows.hold_us)
        for index, node in enumerate(ring):
            peer = peers[cast(int, node.address)]
            peer.flows.start_in_step(first=index * flows // len(ring) != (index + 1) * flows // len(ring))
    return list(peers)


def _distinct(keys: Sequence[int]) -> list[int]:
    """The same keys; where two peers chose one, the later steps aside."""
    taken: dict[int, None] = {}
    for key in keys:
        while key in taken:
            key = (key + 1) % (1 << KEY_BITS)
        taken[key] = None
    return list(taken)


def objections(population: Sequence[Peer]) -> list[str]:
    return chord_sharp.objections([peer.ring for peer in population if isinstance(peer, CondcastPeer)])


DESIGNS = (
    Design(
        name="condcast",
        summary="A ring in key order whose finger tables carry aggregates; a cast goes only where somebody may match.",
        paper="Conditional multicast on Chord# (K. Abe)",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(*LINK_KINDS, *chord_sharp.KINDS, *KINDS),
        parameters=PARAMETERS,
        languages=("tags", "attributes"),
        objections=objections,
    ),
)
