"""The compiled core and the readable one write the same journal, byte for byte."""

from hashlib import sha256

import pytest

from implicast import Scenario, simulate
from implicast.casting.designs import designs
from implicast.space.digest import stream
from implicast.world.churn import Churn
from implicast.world.core import COMPILED, PYTHON, CoreError, core, new_world
from implicast.world.faults import Faults
from implicast.world.world import World

CHURN = "joins=4,leaves=2,crashes=2,freezes=1,slow=1,cuts=1,splits=1,drift=0.01,over_s=15"
RARE = "outages=1,oneway=1,deaf=1,jumps=3,jumps_back=true,mass_leaves=1,flash=1,disk=torn,over_s=15"
FAULTS = "loss=0.03,duplicate=0.03,reorder=0.2"


@pytest.fixture
def both(monkeypatch):
    """Sets the core; skips where the compiled one was not built."""
    monkeypatch.delenv("IMPLICAST_CORE", raising=False)
    if core() != COMPILED:
        pytest.skip("the compiled core was not built here: there is no C compiler")
    return lambda name: monkeypatch.setenv("IMPLICAST_CORE", name)


def journal_of(scenario, directory):
    simulate(scenario, directory)
    return sha256(
        b"".join(path.read_bytes() for path in sorted(directory.glob("*.parquet")))
    ).hexdigest()


def both_journals(both, scenario, directory):
    found = []
    for name in (PYTHON, COMPILED):
        both(name)
        found.append(journal_of(scenario, directory / name))
    return found


def a_scenario(design, seed):
    """A random one: assembled or joined, kind or hostile, strict or not."""
    chance = stream(seed, "cores", design)
    unkind = chance.random() < 0.6
    few = {"tags": 12, "tags_per_peer": 3}
    return Scenario(
        design,
        peers=chance.randint(4, 24),
        casts=chance.randint(1, 25),
        seed=seed,
        parameters={"signatures": "stand-in"} if design == "bft" else {},
        workload_parameters=few,
        start=chance.choice(("assembled", "joined")),
        strict=chance.random() < 0.3,
        faults=Faults.parse(FAULTS) if unkind else Faults(),
        changes=chance.choice((0, 5)),
        churn=Churn.parse(CHURN) if unkind and chance.random() < 0.7 else Churn(),
    )


@pytest.mark.parametrize("design", ["spice", "spice-unloaded"])
@pytest.mark.parametrize(
    ("peers", "dimensions", "workload"),
    [
        (150, 3, {"tags": 9, "tags_per_peer": 3}),
        (60, 2, {"tags": 5, "tags_per_peer": 2, "terms": 2, "negated": 1}),
    ],
)
def test_walks_without_receipts_are_the_same_compiled(
    both, design, peers, dimensions, workload, tmp_path
):
    given = {"assurance": "none", "dimensions": dimensions}
    given |= {"replication": "beforehand", "storage_limit": 4} if design == "spice-unloaded" else {}
    scenario = Scenario(
        design, peers=peers, casts=60, parameters=given, workload_parameters=workload
    )

    one, other = both_journals(both, scenario, tmp_path)

    assert one == other


@pytest.mark.parametrize("design", list(designs()))
def test_both_cores_write_the_same_journal(both, design, tmp_path):
    for seed in (1, 2):
        one, other = both_journals(both, a_scenario(design, seed), tmp_path / str(seed))
        assert one == other, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 23))
@pytest.mark.parametrize("design", list(designs()))
def test_both_cores_write_the_same_journal_of_many_random_scenarios(both, design, seed, tmp_path):
    one, other = both_journals(both, a_scenario(design, seed), tmp_path)

    assert one == other


def test_the_core_is_chosen_by_name(monkeypatch):
    monkeypatch.setenv("IMPLICAST_CORE", PYTHON)
    assert core() == PYTHON
    monkeypatch.setenv("IMPLICAST_CORE", "quantum")
    with pytest.raises(CoreError, match="python or compiled"):
        core()


class Flat:
    def latency_us(self, a, b):
        return 10


def test_a_world_that_is_closed_lets_go_of_what_waits(both):
    both(COMPILED)
    world = new_world(Flat())
    assert not isinstance(world, World)
    waiting = object()
    for number in range(3000):
        world.at(number, -1, lambda: waiting)

    world.close()

    assert not world.step()


@pytest.mark.parametrize("drift", ["", ",drift=0.02"])
def test_the_rarer_events_are_the_same_in_both(both, tmp_path, drift):
    scenario = Scenario(
        "dht",
        peers=12,
        casts=30,
        seed=5,
        workload_parameters={"tags": 12, "tags_per_peer": 3},
        churn=Churn.parse(RARE + drift),
    )
    one, other = both_journals(both, scenario, tmp_path)

    assert one == other
