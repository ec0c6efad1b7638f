"""Completed registrations outlive any one peer, and any two: tried with every peer and every pair of a small world.

Whoever dies takes along what it kept of others. Nobody may have to say again what it is: leases are too long to be
renewed here, and the calls by which lost ground asks for its registrations back must not be heard.
"""

from itertools import combinations
from pathlib import Path

import pytest

from implicast.casting.designs import Design, designs
from implicast.world.churn import Churn
from implicast.world.journal import read
from implicast.world.scenario import Scenario
from implicast.world.scripted_events import ScriptedEvent
from implicast.world.simulate import SimulationOutcome, simulate

PEERS = 12
CRASH_S = 2.0
TAIL_S = 8
LEASE_S = 86_400.0
KEEPING = {
    "spice": "ReregisterRequest",
    "spice-unloaded": "ReregisterRequest",
    "dht": "RangeLost",
    "dht-naive": "RangeLost",
    "chord-pubsub": "RangeLost",
    "opchord-pubsub": "RangeLost",
}
"""Designs whose peers keep registrations for each other, and the call that says that some are lost."""
PAIRS = list(combinations(range(PEERS), 2))


def lost(
    design: Design,
    dying: tuple[int, ...],
    directory: Path,
    lease_s: float = LEASE_S,
    tail_s: int = TAIL_S,
) -> SimulationOutcome:
    """A run in which these die in the same moment."""
    leases = {each.name: lease_s for each in design.parameters if each.name == "lease_s"}
    scenario = Scenario(
        design.name,
        peers=PEERS,
        casts=int(CRASH_S + design.repair_us / 1e6 + tail_s),
        workload="groups",
        workload_parameters={"share": 0.5},
        parameters={**design.trial, **leases},
        churn=Churn(events=(ScriptedEvent(CRASH_S, CRASH_S, "crash", dying),)),
    )
    return simulate(scenario, directory)


def assert_nothing_is_lost(name: str, dying: tuple[int, ...], directory: Path) -> None:
    outcome = lost(designs()[name], dying, directory)

    assert outcome.contract_held, (dying, outcome.change, outcome.objections[:3])
    assert outcome.change is not None
    assert outcome.change.after.expected > 10
    called = set(read(directory, "sends", ["kind"])["kind"].to_pylist())
    assert KEEPING.get(name) not in called, (
        f"{name}: {dying} took something along that had to be said again"
    )


@pytest.mark.parametrize(
    "name", [name for name, each in designs().items() if "crashes" in each.survives]
)
@pytest.mark.parametrize("who", range(0, PEERS, 3))
def test_one_peer_may_die(name, who, tmp_path):
    assert_nothing_is_lost(name, (who,), tmp_path / "run")


@pytest.mark.parametrize("name", sorted(KEEPING))
def test_any_two_peers_may_die_at_once(name, tmp_path):
    for number, pair in enumerate(PAIRS[::13]):
        assert_nothing_is_lost(name, pair, tmp_path / str(number))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(KEEPING))
def test_any_one_and_any_two_of_all_may_die_at_once(name, tmp_path):
    for number, dying in enumerate([*((who,) for who in range(PEERS)), *PAIRS]):
        assert_nothing_is_lost(name, dying, tmp_path / str(number))


@pytest.mark.parametrize(("name", "number"), [("spice", 3), ("dht", 6)])
def test_many_may_be_too_many(name, number, tmp_path):
    """Else the call would be looked for in vain above. What they took along is said again, and found."""
    called = set()
    for dying in combinations(range(number + 2), number):
        assert lost(designs()[name], dying, tmp_path / str(dying)).contract_held, dying
        called |= set(read(tmp_path / str(dying), "sends", ["kind"])["kind"].to_pylist())

    assert KEEPING[name] in called


@pytest.mark.parametrize("name", sorted(KEEPING))
def test_leases_are_renewed_at_whoever_inherited(name, tmp_path):
    """Over several leases: the keeper that confirmed a registration is dead, its heir must hear of it in time."""
    outcome = lost(designs()[name], (1, 2), tmp_path / "run", lease_s=90.0, tail_s=240)

    assert outcome.contract_held, (outcome.change, outcome.objections[:3])
    calm_us = read(tmp_path / "run", "timeline")["calm_us"][0].as_py()
    late = [
        look["first"]
        for look in read(tmp_path / "run", "health").to_pylist()
        if look["time_us"] > calm_us
    ]
    assert len(late) > 20
    assert late == [None] * len(late)
