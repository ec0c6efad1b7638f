"""Joins and leaves at once, in random schedules: when all is quiet every list is what the rule gives."""

import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "overlay"))
from test_skip_graph_joining import Town


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
    town.world.run()
    return town.objections()


def test_lists_are_exact_after_random_joins_and_leaves() -> None:
    for seed in range(12):
        assert run(seed) == [], f"replay: seed {seed}"


@pytest.mark.long
def test_lists_are_exact_after_hundreds_of_random_schedules() -> None:
    for seed in range(12, 400):
        assert run(seed) == [], f"replay: seed {seed}"
