"""One scenario in the world and on loopback: who was told of what, and how many messages that took.

Both sides write a journal in the same columns, so both are counted by the same few lines; whom a
cast reached on loopback is read from the inboxes besides.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from implicast.lab.gather import Gatherer
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.net.storage.store import Store
from implicast.peer.contract import CastId
from implicast.peer.errors import ScenarioError
from implicast.peer.name import name_of, network_of
from implicast.workload.workload import workload
from implicast.world import journal as journals
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

TOLERANCE = 0.2
"""By how much messages for a cast may differ between the world and a network."""
WAIT_S = 45.0
REST_S = 10.0
"""After registration, until overlays have come to rest as they do in the world."""
ARRIVE_S = 1.0
"""After the last cast: what is under way arrives."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one of the two did."""

    pairs: frozenset[tuple[int, int]]
    """(cast, receiver), by number in the scenario."""
    messages: float
    """For one cast, on average."""
    twice: int = 0

    def described(self) -> dict[str, Any]:
        return {
            "deliveries": sorted(map(list, self.pairs)),
            "messages_per_cast": round(self.messages, 3),
            "twice": self.twice,
        }


def in_world(scenario: Scenario) -> Side:
    """As simulated, grown by joining as a network is."""
    with tempfile.TemporaryDirectory(prefix="implicast-parity-") as directory:
        simulate(scenario, Path(directory) / "journal")
        told = journals.read(Path(directory) / "journal", "notices", ["cast", "peer"])
        return Side(_pairs(told), _messages(Path(directory) / "journal", scenario.casts))


def on_loopback(
    scenario: Scenario, plain: bool = True, record: bool = False, directory: Path | None = None
) -> Side:
    """On this machine, over sockets, all nodes in this process; `record`: their inputs are kept in
    `directory`.
    """
    _refuse(scenario)
    if directory is not None:
        return asyncio.run(_lived(scenario, plain, record, directory))
    with tempfile.TemporaryDirectory(prefix="implicast-parity-") as made:
        return asyncio.run(_lived(scenario, plain, record, Path(made) / "net"))


def _refuse(scenario: Scenario) -> None:
    for name in ("faults", "churn", "changes", "warm_up"):
        value = getattr(scenario, name)
        if value and (name != "faults" or value.text()):
            raise ScenarioError(f"{name} is of the world alone: a scenario for both has none")


async def _lived(scenario: Scenario, plain: bool, record: bool, directory: Path) -> Side:
    drawn = workload(
        scenario.workload,
        seed=scenario.seed,
        peers=scenario.peers,
        casts=scenario.casts,
        **scenario.workload_parameters,
    )
    members = [
        MemberSpec(f"p{number:04d}", str(said)) for number, said in enumerate(drawn.described())
    ]
    found, parameters = scenario.settled()
    local = LocalNetwork(
        directory, scenario.design, members, dict(parameters), plain, limits=False, journal=True
    )
    local.create_folders()
    if plain and "authority" not in found.durable_types:
        _name(local, scenario.seed)
    tasks = InProcessNodes(local, record)
    casts: dict[CastId, int] = {}
    try:
        await tasks.start_all()
        await asyncio.sleep(REST_S + found.settling_us / 1e6)
        publishers = drawn.publishers(0, scenario.casts).tolist()
        for number, (publisher, target) in enumerate(
            zip(publishers, drawn.targeted(), strict=True)
        ):
            node = tasks.nodes[members[publisher].name]
            receipt = await node.cast(str(target), bytes(scenario.payload_bytes), wait=WAIT_S)
            casts[receipt.cast] = number
        await asyncio.sleep(ARRIVE_S)
        heard = [
            (casts[note.cast], number)
            for number, each in enumerate(members)
            async for note in tasks.nodes[each.name].inbox(follow=False)
        ]
    finally:
        await tasks.stop()
    gatherer = Gatherer(directory, directory / "lake", "parity")
    gatherer.take()
    gatherer.whole()
    messages = _messages(directory / "lake" / "run=parity", scenario.casts)
    return Side(frozenset(heard), messages, len(heard) - len(set(heard)))


def _name(local: LocalNetwork, seed: int) -> None:
    """Members are called as in the world, and so stand where they stand there: on a ring routes
    depend on it.
    """
    for number, folder in enumerate(local.folders()):
        store = Store(folder / "node.db")
        store.put_now("name", name_of(network_of(seed), number))
        store.close()


def _messages(journal: Path, casts: int) -> float:
    phase = journals.read(journal, "sends", ["phase"])["phase"].cast("string")
    return float(pc.sum(pc.equal(phase, "cast")).as_py() or 0) / max(1, casts)


def _pairs(told: Any) -> frozenset[tuple[int, int]]:
    return frozenset(zip(told["cast"].to_pylist(), told["peer"].to_pylist(), strict=True))


def objection(world: Side, live: Side, tolerance: float = TOLERANCE) -> str | None:
    """In what the two differ more than they may; None: in nothing."""
    if world.pairs != live.pairs or live.twice:
        return (
            f"{len(world.pairs - live.pairs)} deliveries of the world are missing on the network, "
            f"{len(live.pairs - world.pairs)} are only there, {live.twice} came twice"
        )
    apart = abs(live.messages - world.messages) / world.messages if world.messages else 0.0
    if apart > tolerance:
        return f"{live.messages:.1f} messages for a cast on the network, {world.messages:.1f} in the world"
    return None
