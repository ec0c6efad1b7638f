"""For every design that survives them: sleepers that wake when their place is taken, and partitions that heal.

Judged twice: by the world, and here by trying every target on every description.
"""

from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from implicast.casting.designs import Design, designs
from implicast.language.parse import parse
from implicast.language.target import Description
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.invariants import NEVER_US
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate

PEERS = 20
BEGIN_S = 5
TAIL_S = 20
FREEZING = [name for name, each in designs().items() if "freezes" in each.survives]
PARTING = [name for name, each in designs().items() if "partitions" in each.survives]


def run(
    design: Design, deed: str, until_s: float, directory: Path, seed: int = 1, loss: float = 0.0
) -> SimulationOutcome:
    scenario = Scenario(
        design.name,
        peers=PEERS,
        casts=int(until_s + design.repair_us / 1e6 + TAIL_S),
        seed=seed,
        workload="groups",
        workload_parameters={"share": 0.5},
        parameters=dict(design.trial),
        network="national",
        faults=Faults(loss=loss),
        churn=Churn.parse(f"event={BEGIN_S}..{until_s:.0f}:{deed}"),
    )
    return simulate(scenario, directory)


@dataclass
class Trace:
    """Who was told of what, and who should have been, by brute force: nobody changes its description in these runs."""

    directory: Path

    def __post_init__(self) -> None:
        self.casts = read(self.directory, "casts").to_pylist()
        self.start_us = read(self.directory, "timeline").to_pylist()[0]["from_us"]
        rows = read(self.directory, "registrations").to_pylist()
        self.described = {row["peer"]: Description(tuple(row["tags"])) for row in rows}
        self.told: dict[int, dict[int, int]] = {}
        for row in read(self.directory, "notices").to_pylist():
            self.told.setdefault(row["cast"], {})[row["peer"]] = row["time_us"]

    def between(self, from_s: float, to_s: float) -> list[dict]:
        """Casts made in this time."""
        since_us, until_us = self.start_us + from_s * 1e6, self.start_us + to_s * 1e6
        return [cast for cast in self.casts if since_us <= cast["time_us"] < until_us]

    def selected(self, cast: dict, among: set[int]) -> set[int]:
        target = parse(cast["target"])
        return {peer for peer in among if target.selects(self.described[peer])}

    def reached(self, casts: list[dict], among: set[int]) -> float:
        """Of those selected among these peers, the share that was told."""
        pairs = [(cast["cast"], peer) for cast in casts for peer in self.selected(cast, among)]
        assert len(pairs) > 5, "too little is asked for to say anything"
        return sum(peer in self.told.get(cast, {}) for cast, peer in pairs) / len(pairs)


@pytest.mark.parametrize("name", FREEZING)
@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_a_sleeper_that_wakes_when_its_place_is_taken_does_no_harm(name, seed, tmp_path):
    design = designs()[name]
    repair_s = design.repair_us / 1e6
    sleepers = {3, 11}
    wake_s = BEGIN_S + repair_s + 20

    outcome = run(
        design, f"freeze:{'+'.join(map(str, sorted(sleepers)))}", wake_s, tmp_path / "run", seed
    )

    assert outcome.contract_held, (
        outcome.change,
        outcome.objections[:3],
        outcome.scenario.command(),
    )
    trace, others = Trace(tmp_path / "run"), set(range(PEERS)) - sleepers
    assert trace.reached(trace.between(BEGIN_S + repair_s, wake_s), others) == 1, (
        "the others went on without them"
    )
    assert trace.reached(trace.between(wake_s + repair_s, 1e6), others | sleepers) == 1, (
        "and all are together again"
    )


@pytest.mark.parametrize("name", PARTING)
@pytest.mark.parametrize(
    "seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
def test_a_partition_answers_on_both_sides_only_what_it_may_and_heals(name, seed, tmp_path):
    design = designs()[name]
    repair_s = design.repair_us / 1e6
    infrastructure = design.infrastructure(PEERS, design.settle(design.trial))
    side = {*range(PEERS * 2 // 5), *(PEERS + each for each in range(infrastructure // 2))}
    heal_s = BEGIN_S + repair_s + 20

    outcome = run(
        design,
        f"split:{'+'.join(map(str, sorted(side)))}",
        heal_s,
        tmp_path / "run",
        seed,
        loss=0.01,
    )

    assert outcome.contract_held, (
        outcome.change,
        outcome.objections[:3],
        outcome.scenario.command(),
    )
    trace, everybody = Trace(tmp_path / "run"), set(range(PEERS))
    for cast in trace.between(BEGIN_S + 0.5, heal_s - 1):
        across = everybody - side if cast["publisher"] in side else everybody & side
        told = trace.told.get(cast["cast"], {})
        assert not [
            peer for peer in across if told.get(peer, NEVER_US) < trace.start_us + heal_s * 1e6
        ]
    assert trace.reached(trace.between(heal_s + repair_s, 1e6), everybody) == 1, (
        "both sides are one again"
    )
    alone = infrastructure == 1  # a side without the one server can only wait
    for mine in (everybody - side,) if alone else (everybody - side, everybody & side):
        apart = [
            cast
            for cast in trace.between(BEGIN_S + repair_s, heal_s - 1)
            if cast["publisher"] in mine
        ]
        assert trace.reached(apart, mine) > 0.95, "a side that stands by itself goes on by itself"


LONG = pytest.mark.long


@pytest.mark.parametrize("name", PARTING)
@pytest.mark.parametrize(
    ("lasts_s", "seed"),
    [
        (75, 4),
        (200, 2),
        *[
            pytest.param(lasts_s, seed, marks=LONG)
            for lasts_s in (25, 40, 55, 75, 90, 130, 420)
            for seed in range(3, 7)
        ],
    ],
)
def test_a_partition_heals_however_long_it_lasted_and_whoever_is_on_which_side(
    name, lasts_s, seed, tmp_path
):
    """Between the patience of one rule and that of the next, each may rely on what the other has just given up."""
    design = designs()[name]
    drawn = sorted(Random(seed * 1000 + lasts_s).sample(range(PEERS), PEERS // 2))

    outcome = run(
        design, f"split:{'+'.join(map(str, drawn))}", BEGIN_S + lasts_s, tmp_path / "run", seed
    )

    assert outcome.contract_held, (
        outcome.change,
        outcome.objections[:3],
        outcome.scenario.command(),
    )
    healed_s = BEGIN_S + lasts_s + design.repair_us / 1e6
    trace = Trace(tmp_path / "run")
    assert trace.reached(trace.between(healed_s, 1e6), set(range(PEERS))) == 1, (
        "both sides are one again"
    )
