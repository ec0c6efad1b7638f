"""Wide campaigns: scenarios far from the usual ones, with many kinds of trouble (`troubles.py`).

A scenario is a function of design, seed and choices: the kinds of trouble that are in it, and how
often each was drawn again. The choices are a function of design, seed and number. Each kind has its
own random stream, so that one choice can be changed and the others stay.

Swarm: each scenario leaves whole kinds out. A kind is in with the same probability as all others of
its scenario, one half or less. Few kinds together show what many hide.

A scenario is sized by an estimate of its messages (`estimated_messages`): first fewer peers, then
a shorter time of change, then fewer casts, until it takes a few seconds of CPU time.
"""

from dataclasses import dataclass, replace
from math import comb
from random import Random
from typing import Any

from implicast.casting.designs import Design
from implicast.space.digest import digest_bits, stream
from implicast.trials.campaign import FEW_TAGS, MAPS, TAIL_S, CampaignOptions, language_of
from implicast.trials.troubles import TROUBLES, WideDraft, log_uniform, possible, whole
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.liars.liars import Liars
from implicast.world.promised_times import FOUNDING_S, factor_of
from implicast.world.scenario import Scenario

PEERS = (2, 512)
OVER_S = (10.0, 120.0)
PROBABILITIES = (0.05, 0.1, 0.2, 0.35, 0.5)
"""Probability of each kind in a scenario; drawn for the scenario."""
SIZE = "size"
"""The choice of peers, duration and network."""
MESSAGES = 150_000
"""Estimated messages of a scenario, at most: two to four seconds of CPU time."""
LEAST_PEERS = 4
CASTS = (40, 15_000)
"""Casts of a scenario: at least and at most."""
CAST_SHARE = 0.6
"""Share of the messages that casts may take where fewer peers do not suffice."""
GROUP_TAGS = 18
"""Tags of a member in the workload `groups`. More casts have more tags each, not members more."""
UPKEEP = 1.5
"""Messages a second of each peer, over a run with repair."""
JOIN = 200
"""Messages of a member that joins and registers, and of what moves to it."""
PER_MEMBER = {"bft": 24.0}
"""Messages of a cast for each member that it selects; 5 in all other designs."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a scenario is drawn from."""

    number: int
    kinds: tuple[str, ...]
    """Kinds of trouble, in the order of `TROUBLES`."""
    turns: tuple[tuple[str, int], ...] = ()
    """Of kinds that were drawn again, and of `SIZE`: how often, by name in order."""

    def turn(self, kind: str) -> int:
        return dict(self.turns).get(kind, 0)


def choices_of(
    design: Design, seed: int, number: int, options: CampaignOptions | None = None
) -> Choices:
    """The kinds of trouble of this number. At least one of them is churn."""
    options = options or CampaignOptions()
    chance = stream(seed, "wide", design.name, number, "kinds")
    kinds = possible(design, language_of(design, seed, number, options.language))
    probability = chance.choice(PROBABILITIES)
    drawn = {kind for kind in kinds if chance.random() < probability * TROUBLES[kind].weight}
    chosen = drawn | set(_forced(options))
    if not any(TROUBLES[kind].changes for kind in kinds if kind in chosen):
        chosen.add(chance.choice([kind for kind in kinds if TROUBLES[kind].changes]))
    return Choices(number, tuple(kind for kind in kinds if kind in chosen))


def _forced(options: CampaignOptions) -> list[str]:
    """Kinds that the options of the campaign put into every scenario."""
    forced = {
        "blackout": options.blackout,
        "returns": options.returning,
        "registrations": options.changing,
        "partition": options.lasting,
        "freezes": options.lasting,
    }
    return [kind for kind, wanted in forced.items() if wanted]


def mutated(design: Design, language: str, choices: Choices, chance: Random) -> Choices:
    """The same choices but for one: a kind is put in, left out or drawn again."""
    kinds = possible(design, language)
    what = chance.choice(("in", "out", "again", "again"))
    if what == "in":
        chosen = {*choices.kinds, chance.choice(kinds)}
    elif what == "out" and len(choices.kinds) > 1:
        chosen = {*choices.kinds} - {chance.choice(choices.kinds)}
    else:
        again = chance.choice((SIZE, *choices.kinds))
        turns = {**dict(choices.turns), again: choices.turn(again) + 1}
        return replace(choices, turns=tuple(sorted(turns.items())))
    if not any(TROUBLES[kind].changes for kind in kinds if kind in chosen):
        return choices
    return replace(choices, kinds=tuple(kind for kind in kinds if kind in chosen))


def wide_scenario(
    design: Design, seed: int, choices: Choices, options: CampaignOptions | None = None
) -> Scenario:
    """The scenario of these choices, sized."""
    options = options or CampaignOptions()
    language = language_of(design, seed, choices.number, options.language)
    chance = _stream(design, seed, choices, SIZE)
    peers, over_s = whole(chance, *PEERS), log_uniform(chance, *OVER_S)
    network = chance.choice(("flat", "flat", "national", *MAPS))
    draft = _drafted(design, seed, choices, language, peers, over_s)
    while estimated_messages(draft) > MESSAGES and (peers > LEAST_PEERS or over_s > OVER_S[0]):
        if peers > LEAST_PEERS:
            peers = max(LEAST_PEERS, int(peers * 0.8))
        else:
            over_s = max(OVER_S[0], over_s * 0.8)
        draft = _drafted(design, seed, choices, language, peers, over_s)
    liars = Liars.parse(draft.liars) if options.liars is None else options.liars
    return Scenario(
        design.name,
        peers=draft.peers,
        casts=_casts(draft),
        seed=digest_bits(31, seed, "wide", choices.number, choices.turn(SIZE)),
        parameters=_valid(design, {**design.trial, **draft.parameters}),
        network=network,
        interval_ms=_interval_ms(draft),
        payload_bytes=draft.payload_bytes,
        start=draft.start,  # type: ignore[arg-type]
        register=draft.register,  # type: ignore[arg-type]
        changes=draft.changes,
        faults=Faults(**draft.faults),
        churn=Churn(**draft.churn, over_s=round(over_s, 1), events=tuple(draft.events)),
        strict=chance.random() < 0.1,
        liars=liars,
        **_workload(draft),
    )


def _stream(design: Design, seed: int, choices: Choices, kind: str) -> Random:
    return stream(seed, "wide", design.name, choices.number, kind, choices.turn(kind))


def _drafted(
    design: Design, seed: int, choices: Choices, language: str, peers: int, over_s: float
) -> WideDraft:
    draft = WideDraft(design, language, peers, round(over_s, 1))
    for kind in choices.kinds:
        TROUBLES[kind].draw(_stream(design, seed, choices, kind), draft)
    return draft


def _valid(design: Design, parameters: dict[str, Any]) -> dict[str, Any]:
    design.settle(parameters)
    return parameters


def lasts_s(draft: WideDraft) -> float:
    """Time from the first cast to the last, which lies in the quiet period."""
    loss = draft.faults.get("loss", 0.0)
    repair_s = factor_of(loss) * (draft.design.repair_us / 1e6 + FOUNDING_S)
    return draft.over_s + draft.longest_s + repair_s + TAIL_S


def _interval_ms(draft: WideDraft) -> int:
    """The drawn interval; longer where there would be too many casts, or too many messages."""
    most = min(CASTS[1], max(CASTS[0], int(CAST_SHARE * MESSAGES / _per_cast(draft))))
    return max(draft.interval_ms, int(1000 * lasts_s(draft) / most))


def _casts(draft: WideDraft) -> int:
    return int(lasts_s(draft) * 1000 / _interval_ms(draft)) + 1


def _per_cast(draft: WideDraft) -> float:
    selected = draft.share * draft.peers * draft.factor
    each = PER_MEMBER.get(draft.design.name, 5.0)
    return (5 + selected * each + 4 * draft.terms) * (1 + draft.payload_bytes / 8192)


def estimated_messages(draft: WideDraft) -> float:
    """Messages of a scenario: upkeep, joins and casts; of invariants, what checking them costs."""
    members = draft.peers * draft.factor
    upkeep = members * lasts_s(draft) * UPKEEP
    faster = 2.0 if draft.parameters else 1.0
    joining = JOIN * (draft.joining + draft.peers * (draft.start == "joined"))
    wanted = min(CASTS[1], lasts_s(draft) * 1000 / draft.interval_ms)
    casts = wanted if draft.peers > LEAST_PEERS else _casts(draft)
    return upkeep * faster + joining + (casts + draft.burst_casts) * _per_cast(draft)


def _workload(draft: WideDraft) -> dict[str, Any]:
    if draft.language == "attributes":
        return {"workload": "attributes", "workload_parameters": {"share": draft.share}}
    if draft.share == 1.0 and (draft.design.few_tags or draft.terms > 1):
        one = {"tags": 1, "tags_per_peer": 1, "tags_per_cast": 1}
        return {"workload": "zipf", "workload_parameters": one}
    if draft.design.few_tags or draft.terms > 1:
        return {"workload": "zipf", "workload_parameters": {**FEW_TAGS, "terms": draft.terms}}
    casts, each = _casts(draft), 2
    while comb(GROUP_TAGS, each) < casts:
        each += 1
    given = {"share": draft.share, "tags_per_cast": each}
    return {"workload": "groups", "workload_parameters": given}
