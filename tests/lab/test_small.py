"""A small journal is measured in the task that made it: the same as the world's tally, and as Spark finds."""

from pathlib import Path

import pytest
from random_journal import Made, random_journal

from implicast.lab import tables
from implicast.lab.measures import small
from implicast.world.invariants import Judge
from implicast.world.simulate import notices
from implicast.world.tally import messages, tally

SEEDS = (3, 6, 9, 12)
"""Those in which nothing changes."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    base = tmp_path_factory.mktemp("small")
    return [random_journal(base / f"run=r{seed}", seed) for seed in SEEDS]


def test_every_measure_equals_the_tally(made: list[Made]) -> None:
    for each in made:
        found, expected = small.measured(small.reader(each.directory))["measures"][0], tally(each.directory)

        assert set(found) == set(tables.MEASURES)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_the_contract_is_judged_as_the_world_judges_it(made: list[Made]) -> None:
    for each in made:
        verdict = Judge(each.casts, each.registrations, notices(each.directory), each.away, exact=True).verdict()

        found = small.measured(small.reader(each.directory))["contract"][0]

        assert found == {name: getattr(verdict, name) for name in tables.CONTRACT}
        assert verdict.missing
        assert verdict.uninvited
        assert verdict.misreported


def test_costs_are_those_of_each_phase(made: list[Made]) -> None:
    for each in made:
        costs = small.measured(small.reader(each.directory))["costs"]

        assert {row["phase"]: row["messages"] for row in costs} == messages(each.directory)["messages"]


def test_a_journal_without_casts_has_measures_of_zero(tmp_path: Path) -> None:
    made = random_journal(tmp_path / "run=none", 3, casts=0)

    found = small.measured(small.reader(made.directory))

    assert found["measures"][0]["RTH"] == 0.0
    assert found["contract"][0]["notified"] >= 0


def test_what_changed_or_is_large_is_left_to_spark() -> None:
    assert small.is_small(small.ROWS_MAX, changed=False)
    assert not small.is_small(small.ROWS_MAX, changed=True)
    assert not small.is_small(small.ROWS_MAX + 1, changed=False)
