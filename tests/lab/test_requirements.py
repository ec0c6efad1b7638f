"""Thresholds of a sweep: every run must meet them."""

from pathlib import Path

import pyarrow as pa
import pytest

from implicast.lab import dataset
from implicast.lab.dictionary import CONTRACT, MEASURES
from implicast.lab.experiment import experiment
from implicast.lab.folder import Folder
from implicast.lab.requirements import requirements, unmet
from implicast.lab.storage import Location
from implicast.peer.errors import LocalError
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from implicast.world.tally import NAMES


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(Location.of(tmp_path), "peers")
    measures, contract = (
        {name: [0.0, 0.0] for name in MEASURES},
        {name: [0, 0] for name in CONTRACT},
    )
    dataset.store(made, "measures", pa.table({**measures, "run": ["a", "b"], "RTH": [2.0, 7.0]}))
    dataset.store(made, "contract", pa.table({**contract, "run": ["a", "b"], "missing": [1, 0]}))
    return made


def test_every_run_must_meet_every_threshold(folder: Folder) -> None:
    wanted = requirements(["RTH < 5", "missing == 0"], [experiment("peers")])

    assert unmet(folder, ["a", "b"], wanted) == [
        "a: required missing == 0, but it is 1",
        "b: required RTH < 5, but it is 7",
    ]
    assert unmet(folder, ["a"], wanted[:1]) == []


def test_a_figure_that_no_run_has_is_refused_before_the_sweep() -> None:
    with pytest.raises(LocalError, match="did you mean RTH"):
        requirements(["RHT < 5"], [experiment("peers")])


def test_what_may_be_required_is_what_is_measured() -> None:
    measured = simulate(Scenario("centralised", peers=8, casts=2)).measures

    assert set(NAMES) == set(measured) == set(MEASURES)
