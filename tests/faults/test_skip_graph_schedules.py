"""Joins and leaves at once, in random schedules: when all is quiet every list is what the rule gives."""

import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "overlay"))
from test_skip_graph_joining import Town

MET = (
    42,
    56,
    85,
    89,
    284,
    296,
    301,
    427,
    667,
    772,
    962,
    1057,
    1252,
    1422,
    1482,
    1524,
    1547,
    1608,
    1791,
    1806,
    1886,
    1887,
    1898,
    3460,
    3833,
)
"""Schedules that found faults: witnesses that answered from old lists in the middle of their own search, leavers that
knew nobody for a newcomer, leavers that forgot whom they had asked, gaps hidden by later newcomers, rings taken for
whole because so few of them were left, peers without any place that did not answer for the one they had left."""


def run(seed: int) -> list[str]:
    """A town of up to 25 in which up to 20 newcomers and leavers follow each other within milliseconds."""
    rng = Random(seed)
    town = Town(rng.randint(2, 5), seed=seed)
    town.grow(rng.randint(1, 25), 5_000_000)
    for _ in range(rng.randint(1, 20)):
        gap_us = rng.choice([0, 1_000, 10_000, 40_000])
        arrived = [person for person in town.people if town.arrived_at(person)]
        if rng.random() < 0.5 or len(arrived) <= 3:
            known = tuple(person.address for person in rng.sample(arrived, min(3, len(arrived))))
            town.do(partial(town.move_in, town.inhabitant(), known), gap_us)
        else:
            town.leave([rng.choice(arrived)])
            town.world.run(town.world.now_us + gap_us)
    town.rest()
    return town.objections()


def test_lists_are_exact_after_random_joins_and_leaves() -> None:
    for seed in (*range(12), *MET):
        assert run(seed) == [], f"replay: seed {seed}"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_lists_are_exact_after_thousands_of_random_schedules() -> None:
    for seed in range(12, 4_000):
        assert run(seed) == [], f"replay: seed {seed}"
