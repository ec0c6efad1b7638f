"""Parameters of condcast, and the settings computed from them."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from implicast.casting.condcast.flows import FlowSettings
from implicast.casting.designs import ASSURANCE
from implicast.language.parameters import Parameter, Parameters
from implicast.overlay.chord_sharp import ON_DEMAND, SharpSettings
from implicast.overlay.links import LinkSettings

PARAMETERS = (
    ASSURANCE,
    Parameter(
        "bits",
        4096,
        "width of the Bloom filter of tags; a wider one prunes more but enlarges tables",
        8,
        1 << 16,
        unit="bits",
    ),
    Parameter("hashes", 4, "bits per tag in the filter", 1, 16),
    Parameter(
        "place",
        "random",
        "ring keys of peers: random, or by frequent tags",
        choices=("random", "tags"),
    ),
    Parameter(
        "settle",
        "assembled",
        "assembled: aggregates are complete before the run; then, with receipts, tables are "
        "refreshed in rounds, without receipts never, and changes are broadcast. flows: aggregates "
        "start unknown and are refreshed by the paper's update flows",
        choices=("assembled", "flows"),
    ),
    Parameter(
        "round_s", 22.0, "time from one refresh of all tables to the next", 0.5, 3_600, unit="s"
    ),
    Parameter(
        "slack_s",
        7.0,
        "longest duration of a refresh: an aggregate older than round_s + slack_s is not used",
        0.5,
        600,
        unit="s",
    ),
    Parameter("check_s", 8.0, "period of checking the predecessor", 0.2, 3_600, unit="s"),
    Parameter(
        "merge_s",
        45.0,
        "period of looking for a second ring after a partition",
        0.5,
        3_600,
        unit="s",
    ),
    Parameter("tries", 7, "unanswered requests before a neighbour is suspected", 2, 20),
    Parameter(
        "period_s",
        30.0,
        "flows: P, target time between two refreshes of one table",
        0.1,
        86_400,
        unit="s",
    ),
    Parameter("hold_s", 2.0, "flows: M, least time a peer holds an update", 0.001, 3_600, unit="s"),
    Parameter(
        "grace_s",
        5.0,
        "flows: G, how late an update may be before it counts as lost",
        0.0,
        3_600,
        unit="s",
    ),
    Parameter("alpha", 0.2, "flows: weight of the period against the least hold", 0.0, 1.0),
    Parameter(
        "del_flow_thres", 3, "flows: consecutive long holds that indicate too many flows", 1, 100
    ),
    Parameter("del_flow_poss", 0.1, "flows: probability of dropping a flow in that case", 0.0, 1.0),
    Parameter(
        "delta_margin",
        1.2,
        "flows: ratio to the normal hold above which a hold is long",
        1.0,
        100.0,
    ),
    Parameter("piggyback", True, "flows: answers travel with updates and save calls"),
)


@dataclass(frozen=True, slots=True)
class CondcastSettings:
    """Settings of one population, from its parameters."""

    bits: int = 4096
    hashes: int = 4
    assured: bool = False
    links: LinkSettings = field(default_factory=LinkSettings)
    sharp: SharpSettings = ON_DEMAND
    flows: FlowSettings = field(default_factory=FlowSettings)


def settings_of(parameters: Parameters, resting: bool) -> CondcastSettings:
    """Return the settings, the same object for all peers of a population."""
    return _settings(tuple(parameters.items()), resting)


@lru_cache(maxsize=16)
def _settings(items: tuple[tuple[str, Any], ...], resting: bool) -> CondcastSettings:
    given = dict(items)
    assured = given["assurance"] != "none"
    return CondcastSettings(
        -(-given["bits"] // 8) * 8,
        given["hashes"],
        assured,
        _links(given, resting) if assured else LinkSettings(),
        _rounds(given, resting) if assured and given["settle"] == "assembled" else ON_DEMAND,
        FlowSettings(
            _us(given["period_s"]),
            _us(given["hold_s"]),
            _us(given["grace_s"]),
            given["alpha"],
            given["del_flow_thres"],
            given["del_flow_poss"],
            given["delta_margin"],
            given["piggyback"],
        ),
    )


def _links(given: dict[str, Any], resting: bool) -> LinkSettings:
    return LinkSettings.with_crashes(
        _us(given["check_s"]), given["tries"], _us(given["merge_s"]), resting
    )


def _rounds(given: dict[str, Any], resting: bool) -> SharpSettings:
    """Return the settings of refresh rounds: what does not arrive is requested after an eighth of
    the slack.
    """
    round_us, slack_us = _us(given["round_s"]), _us(given["slack_s"])
    return SharpSettings(
        round_us, round_us + slack_us, slack_us // 8, slack_us // 20, slack_us // 8, resting=resting
    )


def _us(seconds: float) -> int:
    return int(seconds * 1e6)
