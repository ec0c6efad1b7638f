"""condcast as a design: its parameters, and how a population is set up."""

from collections.abc import Sequence
from typing import cast

from implicast.casting.condcast.flows import FlowSettings
from implicast.casting.condcast.formulas import flows_needed
from implicast.casting.condcast.living import LivingCondcast, LivingSettings
from implicast.casting.condcast.living_messages import LIVING_KINDS
from implicast.casting.condcast.messages import KINDS
from implicast.casting.condcast.peer import CondcastPeer, CondcastSettings
from implicast.casting.condcast.place import KEY_BITS, at_random, by_tags, landmarks
from implicast.casting.designs import Design, Plan
from implicast.language.parameters import Parameter, Parameters
from implicast.language.portrait import portrait
from implicast.overlay import chord_sharp
from implicast.overlay.chord_sharp import RoundSettings
from implicast.overlay.detector import DETECTOR_KINDS
from implicast.overlay.links import LINK_KINDS, LinkSettings
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
        choices=("assembled", "flows"), only="kind",
    ),
    Parameter("place", "random", "where peers stand: at random, or by common tags", choices=("random", "tags")),
    Parameter("period_s", 30.0, "P, time wanted between two refreshes of one table", 0.1, 86_400, unit="s",
              only="kind"),
    Parameter("hold_s", 2.0, "M, least time a peer holds an update", 0.001, 3_600, unit="s", only="kind"),
    Parameter("grace_s", 5.0, "G, how late an update may be before it counts as lost", 0.0, 3_600, unit="s",
              only="kind"),
    Parameter("alpha", 0.2, "weight of the period against the least hold", 0.0, 1.0, only="kind"),
    Parameter("del_flow_thres", 3, "long holds in a row that mean too many flows", 1, 100, only="kind"),
    Parameter("del_flow_poss", 0.1, "chance of swallowing a flow then", 0.0, 1.0, only="kind"),
    Parameter("delta_margin", 1.2, "how much longer than normal a long hold is", 1.0, 100.0, only="kind"),
    Parameter("piggyback", True, "answers travel with updates and save calls", only="kind"),
    Parameter(
        "alive", False,
        "the ring heals, tables are kept in rounds, aggregates expire, casts are carried until every arc is covered; "
        "for networks and machines that fail",
    ),
    Parameter("round_s", 24.0, "time from one refresh of all tables to the next", 0.5, 3_600, unit="s", only="alive"),
    Parameter(
        "slack_s", 8.0, "what a refresh may take: an aggregate older than round_s + slack_s is not used",
        0.5, 600, unit="s", only="alive",
    ),
    Parameter("check_s", 8.0, "how often a peer looks at its left neighbour", 0.2, 3_600, unit="s", only="alive"),
    Parameter("merge_s", 45.0, "how often it looks for a ring beside its own", 0.5, 3_600, unit="s", only="alive"),
    Parameter("tries", 7, "questions in vain before a neighbour is believed lost", 2, 20, only="alive"),
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


def living_settings(parameters: Parameters) -> LivingSettings:
    """The parameters as living peers know them. What does not come is asked for after an eighth of the slack."""
    round_us, slack_us, check_us, merge_us = (
        int(cast(float, parameters[name]) * 1e6) for name in ("round_s", "slack_s", "check_s", "merge_s")
    )
    rounds = RoundSettings(round_us, round_us + slack_us, slack_us // 8, slack_us // 20, slack_us // 8)
    links = LinkSettings.living(check_us, cast(int, parameters["tries"]), merge_us)
    kind = settings(parameters)
    return LivingSettings(kind.bits, kind.hashes, links, rounds)


def places(plan: Plan, addresses: Sequence[int]) -> list[int]:
    """The keys of peers."""
    if plan.parameters["place"] == "random" or not plan.descriptions:
        return [at_random(plan.seed, address) for address in addresses]
    common = landmarks(plan.descriptions)
    return [by_tags(plan.seed, address, plan.descriptions[address], common) for address in addresses]


def newcomer(plan: Plan, address: int) -> CondcastPeer | LivingCondcast:
    """A peer that is not yet on the ring."""
    host, [key] = plan.host(address), places(plan, [address])
    if plan.parameters["alive"]:
        return LivingCondcast(address, host, key, living_settings(plan.parameters))
    return CondcastPeer(address, host, key, settings(plan.parameters))


def assemble(plan: Plan) -> list[Peer]:
    """The ring at once. Settled: tables hold what members will say of themselves. Else unknown, with F_min flows."""
    return _assemble_living(plan) if plan.parameters["alive"] else _assemble_kind(plan)


def _assemble_living(plan: Plan) -> list[Peer]:
    chosen = living_settings(plan.parameters)
    keys = _distinct(places(plan, range(plan.peers)))
    peers = [LivingCondcast(address, plan.host(address), key, chosen) for address, key in enumerate(keys)]
    for peer, description in zip(peers, plan.descriptions, strict=False):
        peer.own = portrait(description, chosen.bits, chosen.hashes)
    chord_sharp.assemble_living([peer.ring for peer in peers])
    return list(peers)


def _assemble_kind(plan: Plan) -> list[Peer]:
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
    living = {peer.ring: peer for peer in population if isinstance(peer, LivingCondcast)}
    if living:
        return chord_sharp.living_objections(list(living), lambda ring: living[ring].is_promised)
    return chord_sharp.objections([peer.ring for peer in population if isinstance(peer, CondcastPeer)])


DESIGNS = (
    Design(
        name="condcast",
        summary="A ring in key order whose finger tables carry aggregates; a cast goes only where somebody may match.",
        paper="Conditional multicast on Chord# (K. Abe)",
        assemble=assemble,
        newcomer=newcomer,
        kinds=(*LINK_KINDS, *chord_sharp.KINDS, *chord_sharp.LIVING_KINDS, *DETECTOR_KINDS, *KINDS, *LIVING_KINDS),
        parameters=PARAMETERS,
        languages=("tags", "attributes"),
        objections=objections,
        survives=frozenset({"joins", "leaves", "crashes", "loss", "partitions", "freezes"}),
        alive={"alive": True},
        quick={"check_s": 1.0, "tries": 5, "round_s": 8.0, "slack_s": 3.0, "merge_s": 15.0},
        patience=(
            {"check_s": 20.0, "round_s": 60.0, "merge_s": 90.0},
            {"check_s": 4.0, "tries": 5, "round_s": 16.0, "slack_s": 6.0, "merge_s": 30.0},
            {"check_s": 2.0, "tries": 5, "round_s": 12.0, "slack_s": 5.0, "merge_s": 20.0},
        ),
    ),
)
