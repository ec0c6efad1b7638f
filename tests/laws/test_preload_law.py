"""Registered at once or by messages: the same placement, the same storage, the same casts, in every design."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from implicast import Scenario, simulate
from implicast.casting.broker.broker import Broker
from implicast.casting.designs import designs
from implicast.casting.spice.spice import Spice
from implicast.overlay.backbone.backbone import GROWTH
from implicast.peer.contract import Peer
from implicast.world import journal as journals
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.populations.broker import objections as broker_objections
from implicast.world.run import Run, silent
from implicast.world.scenario import ASSEMBLED, MESSAGES

SCENARIOS = (
    {"peers": 48, "casts": 24, "workload": {"tags": 40, "tags_per_peer": 6}},
    {"peers": 90, "casts": 30, "workload": {"tags": 8, "tags_per_peer": 3}},
    {"peers": 1, "casts": 3, "workload": {"tags": 4, "tags_per_peer": 2}},
)


def scenario_of(design: str, each: dict[str, Any], register: str, **parameters: Any) -> Scenario:
    given = {**parameters, **({"signatures": "stand-in"} if design == "bft" else {})}
    return Scenario(
        design,
        peers=each["peers"],
        casts=each["casts"],
        seed=each.get("seed", 5),
        parameters=given,
        workload_parameters=each["workload"],
        register=register,
    )


def rest(scenario: Scenario, directory: Any) -> tuple[list[Peer], list[bytes]]:
    """The population when all are registered, and what each of them holds."""
    design, parameters = scenario.settled()
    run = Run(scenario, design, parameters, directory)
    run.set_up(silent)
    run.register(silent)
    run.world.close()
    run.journal.discard()
    return run.population, [canonical(held(peer)) for peer in run.population]


def held(peer: Peer) -> Any:
    """Of SPICE with receipts what a peer answers for: heirs forget a record that moved with the next batch only."""
    return (
        (peer.registries.holdings(), peer.levels.holdings())
        if isinstance(peer, Spice)
        else peer.holdings()
    )


def canonical(value: Any) -> bytes:
    """The order in which things came does not matter."""
    return msgspec.msgpack.encode(_sorted(msgspec.to_builtins(value, builtin_types=(bytes,))))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        value = list(value.items())
    if isinstance(value, list | tuple | set):
        return sorted((_sorted(each) for each in value), key=repr)
    return value


def casts_of(
    scenario: Scenario, directory: Any
) -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    """Every message of every cast, and every notice, by the time since its cast."""
    outcome = simulate(scenario, directory)
    assert outcome.contract_held
    assert not outcome.objections
    begun = {row["cast"]: row["time_us"] for row in journals.read(directory, "casts").to_pylist()}
    sends = [
        row for row in journals.read(directory, "sends").to_pylist() if row["cast"] is not None
    ]
    names = ("cast", "sender", "receiver", "kind", "bytes", "depth")
    sent = Counter(
        (*(row[name] for name in names), row["sent_us"] - begun[row["cast"]]) for row in sends
    )
    told = Counter(
        (row["cast"], row["peer"], row["time_us"] - begun[row["cast"]], row["depth"])
        for row in journals.read(directory, "notices").to_pylist()
    )
    return sent, told


@pytest.mark.parametrize("assurance", ["none", "receipts"])
@pytest.mark.parametrize("design", list(designs()))
def test_registered_at_once_or_by_messages_the_same_is_held_everywhere(design, assurance, tmp_path):
    for number, each in enumerate(SCENARIOS):
        at_once = rest(
            scenario_of(design, each, ASSEMBLED, assurance=assurance), tmp_path / f"{number}a"
        )
        by_messages = rest(
            scenario_of(design, each, MESSAGES, assurance=assurance), tmp_path / f"{number}m"
        )

        assert at_once[1] == by_messages[1], f"scenario {number}"


@pytest.mark.parametrize("design", list(designs()))
def test_registered_at_once_or_by_messages_casts_go_the_same_ways(design, tmp_path):
    for number, each in enumerate(SCENARIOS):
        at_once = casts_of(
            scenario_of(design, each, ASSEMBLED, assurance="none"), tmp_path / f"{number}a"
        )
        by_messages = casts_of(
            scenario_of(design, each, MESSAGES, assurance="none"), tmp_path / f"{number}m"
        )

        assert at_once == by_messages, f"scenario {number}"


def test_copies_computed_beforehand_are_placed_alike(tmp_path):
    each = {"peers": 60, "casts": 40, "workload": {"tags": 5, "tags_per_peer": 2}}
    told = {
        "assurance": "none",
        "replication": "beforehand",
        "storage_limit": 6,
        "choose": "rarest",
    }
    at_once = rest(scenario_of("spice-unloaded", each, ASSEMBLED, **told), tmp_path / "a")
    by_messages = rest(scenario_of("spice-unloaded", each, MESSAGES, **told), tmp_path / "m")

    assert at_once[1] == by_messages[1]
    assert any(
        registry.closed for peer in at_once[0] for registry in peer.registries.by_key.values()
    )


def test_filters_that_were_outgrown_cover_the_same_and_have_about_the_same_room(tmp_path):
    """How large they become by messages depends on how many tags come together: they grow once more or less, or in two
    steps instead of one."""
    each = {"peers": 120, "casts": 0, "workload": {"tags": 600, "tags_per_peer": 6}}
    at_once, _ = rest(scenario_of("broker", each, ASSEMBLED, expected_tags=64), tmp_path / "a")
    by_messages, _ = rest(scenario_of("broker", each, MESSAGES, expected_tags=64), tmp_path / "m")

    (one, *_), (other, *_) = (
        [peer for peer in some if isinstance(peer, Broker)] for some in (at_once, by_messages)
    )
    assert abs(one.backbone.table.generation - other.backbone.table.generation) <= 2
    assert (
        1 / (1.1 * GROWTH)
        < one.backbone.table.capacity / other.backbone.table.capacity
        < 1.1 * GROWTH
    )
    assert not broker_objections(at_once)


@pytest.mark.parametrize("design", list(designs()))
def test_who_was_registered_at_once_lives_through_change(design, tmp_path):
    """Leases, copies and heirs begin as if all had been said by messages."""
    if design == "bft":
        pytest.skip("its places are assembled in any case")
    outcome = simulate(
        Scenario(
            design,
            peers=20,
            casts=30,
            seed=3,
            register=ASSEMBLED,
            workload_parameters={"tags": 12, "tags_per_peer": 3},
            faults=Faults.parse("loss=0.02"),
            churn=Churn.parse("joins=2,leaves=2,crashes=2,returns=2,over_s=15"),
        )
    )

    assert outcome.contract_held, outcome.change
