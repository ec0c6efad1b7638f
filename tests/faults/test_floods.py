"""Memory stays flat under a flood: casts, new descriptions and newcomers without end, for every surviving design.

A flood lasts longer than anything is kept for on purpose. What peers hold is weighed from outside four times, and so is
the world's own agenda: what is held and what waits in the second half is no more than in the first. Tables that
remember single casts have their bounds lowered (`LOWERED`), so that a short flood meets them. Newcomers that die leave
a trace in tables bounded by the number of peers that one knows: the long form lets some sixty of them pass by.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from weight import weight

from implicast.casting import inbox
from implicast.casting.designs import Design, designs
from implicast.world.campaign import FEW_TAGS
from implicast.world.churn import Churn
from implicast.world.deeds import Deed
from implicast.world.faults import Faults
from implicast.world.journal import CHUNK_ROWS, UPKEEP, Journal
from implicast.world.run import Run, silent
from implicast.world.scenario import Scenario

ALIVE = [name for name, each in designs().items() if each.survives]
FLAT = 1.1
"""How much more peers may hold in the second half than in the first: descriptions come and go, so it wavers."""
MOMENTS = (0.25, 0.5, 0.75, 0.98)
LEASE_S = 60.0
LOWERED = {
    "implicast.casting.inbox:PUBLISHERS_MAX": 16,
    "implicast.casting.broker.routes:ROUTES_MAX": 64,
    "implicast.casting.condcast.coverage:TASKS_MAX": 64,
    "implicast.overlay.ice.alive.settings:Life.seen_max": 32,
    "implicast.overlay.links.settings:LinkSettings.passed_max": 16,
    "implicast.overlay.chord.living:PASSED_MAX": 16,
    "implicast.overlay.skip_graph.listing:PASSERS_MAX": 2,
    "implicast.overlay.skip_graph.graph:LEFT_MAX": 24,
    "implicast.overlay.skip_graph.belief:GONE_MAX": 256,
    "implicast.overlay.skip_graph.losing:LOST_MAX": 24,
    "implicast.overlay.detector:DetectorSettings.known_max": 48,
    "implicast.casting.bft:CHECKED_MAX": 24,
}
"""Bounds on what is remembered of single casts, publishers or messages: constants, or defaults of settings.

Not below what is needed: farewells (`GONE_MAX`) have to be remembered for longer than somebody may be searching who
heard of the places before they were left; in a flood some ninety places are left in a minute."""


@dataclass
class Flood:
    """One flood, and what was weighed in it."""

    name: str
    directory: Path
    peers: int
    seconds: int
    casts_per_s: int
    newcomers: bool = False
    bytes: list[int] = field(default_factory=list)
    population: list[int] = field(default_factory=list)
    agenda: list[int] = field(default_factory=list)

    def go(self) -> "Flood":
        design = designs()[self.name]
        scenario = Scenario(
            self.name, peers=self.peers, casts=self.seconds * self.casts_per_s, **self.load(),
            interval_ms=1000 // self.casts_per_s, parameters=self.parameters(design), changes=self.seconds // 2,
            faults=Faults(loss=0.01),
            churn=self.passers_by(self.peers + design.infrastructure(self.peers, design.settle(design.alive))),
        )  # fmt: skip
        self.run = Run(scenario, *scenario.settled(), self.directory)
        self.run.set_up(silent)
        self.run.register(silent)
        for share in MOMENTS:
            self.weigh_at(self.run.world.now_us + int(share * self.seconds * 1e6))
        self.run.cast(silent)
        self.run.journal.discard()
        return self

    def parameters(self, design: Design) -> dict[str, Any]:
        """With short leases, so that the flood lasts longer."""
        known = [each.name for each in design.parameters if each.name == "lease_s"]
        return {**design.alive, **dict.fromkeys(known, LEASE_S)}

    def load(self) -> dict[str, Any]:
        """Where every tag is a place of its own, few tags are enough."""
        if designs()[self.name].few_tags:
            return {"workload": "zipf", "workload_parameters": dict(FEW_TAGS)}
        return {"workload": "groups", "workload_parameters": {"share": 0.3, "tags_per_cast": 3}}

    def weigh_at(self, time_us: int) -> None:
        """Shortly before, everybody says again what it is: else one weighs how many have just withdrawn."""
        for peer in range(self.peers):
            self.run.application.register(time_us - 5_000_000 + peer, peer, self.run.descriptions[peer])
        self.run.world.at(time_us, UPKEEP, self.weigh)

    def passers_by(self, first: int) -> Churn:
        """Every ten seconds somebody comes, tells what it is, casts, and dies after forty: always as many are there."""
        deeds = [Deed(0, self.seconds, "slow", (0,), 1.0)]
        for number, come_s in enumerate(range(0, self.seconds if self.newcomers else 0, 10)):
            deeds += [Deed(come_s, come_s, "join", (first + number,))]
            deeds += [Deed(come_s + 40, come_s + 40, "crash", (first + number,))]
        return Churn(deeds=tuple(deeds))

    def weigh(self) -> None:
        present = self.run.upheaval.present()
        self.population.append(len(present))
        self.bytes.append(weight(present))
        agenda = self.run.world.agenda
        waiting = [*agenda._open, *agenda._late, *(each for later in agenda._later.values() for each in later)]
        self.agenda.append(sum(what[0] is not None for _, _, what in waiting))


def check(flood: Flood) -> None:
    assert len(set(flood.population)) == 1, "else nothing can be compared"
    assert len(flood.bytes) == len(MOMENTS)
    assert min(flood.bytes[2:]) < FLAT * max(flood.bytes[:2]), f"{flood.name}: peers hold {flood.bytes} bytes"
    most = FLAT * max(flood.agenda[:2]) + 10 * flood.peers
    assert min(flood.agenda[2:]) < most, f"{flood.name}: {flood.agenda} inputs waiting"


def lower(put: Callable[[Any, str, Any], None]) -> None:
    for place, value in LOWERED.items():
        module, _, name = place.partition(":")
        owner, _, field_name = name.partition(".")
        if field_name:
            init = getattr(importlib.import_module(module), owner).__init__
            names = list(inspect.signature(init).parameters)[-len(init.__defaults__) :]
            defaults = dict(zip(names, init.__defaults__, strict=True)) | {field_name: value}
            put(init, "__defaults__", tuple(defaults.values()))
        else:
            put(importlib.import_module(module), name, value)


@pytest.fixture
def lowered(monkeypatch):
    lower(monkeypatch.setattr)


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", ALIVE)
def test_a_flood_leaves_memory_flat(name, tmp_path):
    check(Flood(name, tmp_path / "run", peers=8, seconds=900, casts_per_s=1).go())


@pytest.mark.long
@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", ALIVE)
def test_a_long_flood_of_many_and_of_newcomers_leaves_memory_flat(name, tmp_path):
    check(Flood(name, tmp_path / "run", peers=24, seconds=600, casts_per_s=4, newcomers=True).go())


def test_the_scale_weighs_what_peers_hold_and_nothing_else():
    class Holder:
        def __init__(self) -> None:
            self.table: dict[int, bytes] = {}

    holder = Holder()
    empty = weight([holder])
    for number in range(1000):
        holder.table[number] = bytes(1000)
    full = weight([holder])

    assert full - empty > 1_000_000
    holder.table.clear()
    assert weight([holder]) < empty + 1000


def test_a_flood_that_is_remembered_is_caught(tmp_path, monkeypatch):
    """The mistake: nothing is ever forgotten of what was cast."""
    remembered = []
    first = inbox.Seen.first

    def hoard(self, cast):
        remembered.append(cast)
        self._publishers[-len(remembered)] = (len(remembered), 1 << 4000)  # a table that only grows
        return first(self, cast)

    monkeypatch.setattr(inbox.Seen, "first", hoard)
    flood = Flood("centralised", tmp_path / "run", peers=8, seconds=900, casts_per_s=1).go()

    with pytest.raises(AssertionError, match="peers hold"):
        check(flood)


def test_the_journals_buffers_do_not_grow_with_messages(tmp_path):
    journal = Journal(tmp_path / "run")
    journal.kinds.append("Word")
    sizes = []
    for serial in range(2 * CHUNK_ROWS + 10):
        journal.send(serial, 0, serial, serial, 0, 1, UPKEEP, 1, 5, 0)
        if serial % CHUNK_ROWS == 7:
            sizes.append(len(journal.sends) + len(journal._notices))
    journal.discard()

    assert len(set(sizes)) == 1
