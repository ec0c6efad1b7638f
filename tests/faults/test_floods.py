"""Memory stays flat under a flood: casts, new descriptions and newcomers without end, for every surviving design.

A flood lasts longer than anything is kept for on purpose. What peers hold is weighed from outside, and so is what waits
in the world's own agenda. Tables that remember single casts have their bounds lowered (`LOWERED`), so that a short
flood meets them.

- *Tides* of casts alone: many in a short time, then rest until all work is done, and then the scale. Nothing else
  changes, so it shows the least that is left behind: what peers gain from tide to tide, in the second half of the
  flood, is less than half an entry of fifty bytes for each cast that somebody heard. The control is that very leak, for
  every design.
- Casts, and descriptions that change all the time: what is held wavers with them, so the last third is compared with
  the one before it, and only a coarse leak shows. Newcomers that die leave a trace in tables bounded by the number of
  peers that one knows: the long form lets 180 of them pass by. It takes ten minutes until SPICE has as many replicas
  as such a flood asks for.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from weight import weight

from implicast.casting import inbox
from implicast.casting.designs import Design, designs
from implicast.trials.campaign import FEW_TAGS
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.journal import CHUNK_ROWS, UPKEEP, Journal
from implicast.world.run import QUIET_US, Run, silent
from implicast.world.scenario import Scenario
from implicast.world.scripted_events import ScriptedEvent

ALIVE = [name for name, each in designs().items() if each.survives]
FLAT = 1.1
"""How much more peers may hold in the last third than in the second: descriptions come and go, so it wavers."""
MOMENTS = tuple((each + 0.99) / 12 for each in range(12))
TIDES, TIDE_S, HIGH_S = 6, 180, 45
"""So often casts come in a row for some time, and then none: for longer than a cast is worked on and a lease lasts."""
ENTRY = bytes(17)
"""Fifty bytes: what a careless design keeps of each cast that it heard. Of half of it nobody may be suspected."""
LEASE_S = 60.0
VALIDITY_S = 180.0
"""Not shorter: certificates are looked at once a minute, and renewed in the last third of their time."""
pytestmark = pytest.mark.usefixtures("readable_core")

LOWERED = {
    "implicast.peer.memory:HORIZON_US": 100_000_000,
    "implicast.casting.forwarding:ENDED_MAX": 64,
    "implicast.casting.broker.client:NOTIFIED_BY_MAX": 16,
    "implicast.casting.condcast.tasks:TASKS_MAX": 64,
    "implicast.casting.replicated_lists.holder_state:ABSENT_MAX": 16,
    "implicast.overlay.chord.broadcast:KNOWN_MAX": 32,
    "implicast.casting.replicated_lists.anti_entropy:CONFIRMED_MAX": 16,
    "implicast.casting.spice.casts:COUNTED_MAX": 32,
    "implicast.casting.spice.design:WINDOW_CASTS": 2,
    "implicast.casting.spice.receiver:NOTIFIERS_MAX": 16,
    "implicast.casting.spice.casts:SILENT_MAX": 16,
    "implicast.casting.spice.pushes:COPIED_MAX": 64,
    "implicast.casting.spice.stores:LAST_HOLDERS_MAX": 64,
    "implicast.overlay.chord.routing:SENDERS_MAX": 32,
    "implicast.overlay.ice.settings:Timers.seen_max": 32,
    "implicast.overlay.ice.settings:Timers.members_max": 48,
    "implicast.overlay.links.settings:LinkSettings.passed_max": 16,
    "implicast.overlay.chord.routing:PASSED_MAX": 16,
    "implicast.overlay.skip_graph.place:CANDIDATES_MAX": 2,
    "implicast.overlay.skip_graph.departures:LEFT_MAX": 24,
    "implicast.overlay.skip_graph.places:GONE_MAX": 256,
    "implicast.overlay.skip_graph.members:LOST_MAX": 24,
    "implicast.overlay.skip_graph.members:FOUND_MAX": 24,
    "implicast.peer.detector:DetectorSettings.known_max": 48,
    "implicast.world.populations.keys:SHARED_MAX": 24,
    "implicast.casting.bft.step_delivery:COUNTED_MAX": 24,
    "implicast.casting.bft.digest_exchange:REMEMBERED_MAX": 24,
}
"""Bounds on what is remembered of single casts, publishers, members or messages: constants, or defaults of settings.

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
    changes: bool = True
    bytes: list[int] = field(default_factory=list)
    population: list[int] = field(default_factory=list)
    agenda: list[int] = field(default_factory=list)

    def go(self) -> "Flood":
        design = designs()[self.name]
        scenario = Scenario(
            self.name,
            peers=self.peers,
            casts=self.seconds * self.casts_per_s,
            **self.load(),
            interval_ms=1000 // self.casts_per_s,
            parameters=self.parameters(design),
            changes=self.seconds // 2 if self.changes else 0,
            faults=Faults(loss=0.01),
            churn=self.passers_by(
                self.peers + design.infrastructure(self.peers, design.settle(design.trial))
            ),
        )
        self.run = Run(scenario, *scenario.settled(), self.directory)
        self.run.set_up(silent)
        self.run.register(silent)
        self.plan()
        self.run.cast(silent)
        self.run.journal.discard()
        return self

    def plan(self) -> None:
        """When to weigh."""
        for share in MOMENTS:
            self.weigh_at(self.run.world.now_us + int(share * self.seconds * 1e6))

    def parameters(self, design: Design) -> dict[str, Any]:
        """With short leases, so that the flood lasts longer, and certificates that are revoked for a short time."""
        known = {each.name for each in design.parameters}
        short = {"lease_s": LEASE_S, "validity_s": VALIDITY_S}
        return {**design.trial, **{name: value for name, value in short.items() if name in known}}

    def load(self) -> dict[str, Any]:
        """Where every tag is a place of its own, few tags are enough."""
        if designs()[self.name].few_tags:
            return {"workload": "zipf", "workload_parameters": dict(FEW_TAGS)}
        return {"workload": "groups", "workload_parameters": {"share": 0.3, "tags_per_cast": 3}}

    def weigh_at(self, time_us: int) -> None:
        """Shortly before, everybody says again what it is: else one weighs how many have just withdrawn."""
        for peer in range(self.peers):
            self.run.application.register(
                time_us - 5_000_000 + peer, peer, self.run.descriptions[peer]
            )
        self.run.world.at(time_us, UPKEEP, self.weigh)

    def passers_by(self, first: int) -> Churn:
        """Every ten seconds somebody comes, tells what it is, casts, and dies after forty: always as many are there."""
        events = [ScriptedEvent(0, self.seconds, "slow", (0,), 1.0)]
        for number, come_s in enumerate(range(0, self.seconds if self.newcomers else 0, 10)):
            events += [ScriptedEvent(come_s, come_s, "join", (first + number,))]
            events += [ScriptedEvent(come_s + 40, come_s + 40, "crash", (first + number,))]
        return Churn(events=tuple(events))

    def weigh(self) -> None:
        present = self.run.injector.present()
        self.population.append(len(present))
        self.bytes.append(weight(present))
        agenda = self.run.world.agenda
        waiting = [
            *agenda._open,
            *agenda._late,
            *(each for later in agenda._later.values() for each in later),
        ]
        self.agenda.append(sum(what[0] is not None for _, _, what in waiting))


class Tides(Flood):
    """Casts that come in tides; weighed at the end of each ebb. What was heard is hoarded aside, for the control."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(
            name, directory, peers=8, seconds=TIDES * TIDE_S, casts_per_s=2, changes=False
        )
        self.hoard: list[bytes] = []
        self.heard: list[int] = []
        self.leaky: list[int] = []

    def plan(self) -> None:
        application, journal, begin_us = (
            self.run.application,
            self.run.journal,
            self.run.world.now_us + QUIET_US,
        )
        cast, notice = application.cast, journal.notice

        def in_tides(time_us: int, *what: Any) -> None:
            tide, within_us = divmod(time_us - begin_us, TIDE_S * 1_000_000)
            cast(begin_us + tide * TIDE_S * 1_000_000 + within_us * HIGH_S // TIDE_S, *what)

        def heard(*what: Any) -> None:
            self.hoard.append(bytes(bytearray(ENTRY)))  # each a value of its own
            notice(*what)

        application.cast, journal.notice = in_tides, heard
        for tide in range(TIDES):
            self.run.world.at(begin_us + ((tide + 1) * TIDE_S - 1) * 1_000_000, UPKEEP, self.weigh)

    def weigh(self) -> None:
        super().weigh()
        self.heard.append(len(self.hoard))
        self.leaky.append(self.bytes[-1] + weight([self.hoard]))


def gain(heard: list[int], held: list[int]) -> float:
    """Bytes that are held more for each cast that was heard, in the second half of a flood: the slope of a line."""
    half = len(held) // 2 - 1
    slope, _ = np.polyfit(heard[half:], held[half:], 1)
    return float(slope)


def check_tides(flood: Tides, held: list[int]) -> None:
    assert len(held) == TIDES
    assert set(flood.population) == {len(flood.run.population)}, "else nothing can be compared"
    each = gain(flood.heard, held)
    assert each < sys.getsizeof(ENTRY) / 2, (
        f"{flood.name}: {each:.0f} bytes are kept of each cast; peers hold {held}"
    )


def check(flood: Flood) -> None:
    assert len(set(flood.population)) == 1, "else nothing can be compared"
    assert len(flood.bytes) == len(MOMENTS)
    before, last = fmean(flood.bytes[4:8]), fmean(flood.bytes[8:])
    assert last < FLAT * before, f"{flood.name}: peers hold {flood.bytes} bytes"
    before, last = fmean(flood.agenda[4:8]), fmean(flood.agenda[8:])
    assert last < FLAT * before + 10 * flood.peers, f"{flood.name}: {flood.agenda} inputs waiting"


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
def test_of_a_cast_that_was_heard_nothing_stays_and_fifty_bytes_that_stayed_would_be_caught(
    name, tmp_path
):
    flood = Tides(name, tmp_path / "run").go()

    check_tides(flood, flood.bytes)
    with pytest.raises(AssertionError, match="bytes are kept of each cast"):
        check_tides(flood, flood.leaky)


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", ALIVE)
def test_a_flood_leaves_memory_flat(name, tmp_path):
    check(Flood(name, tmp_path / "run", peers=8, seconds=900, casts_per_s=1).go())


@pytest.mark.long
@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("name", ALIVE)
def test_a_long_flood_of_many_and_of_newcomers_leaves_memory_flat(name, tmp_path):
    check(Flood(name, tmp_path / "run", peers=24, seconds=1800, casts_per_s=4, newcomers=True).go())


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


@pytest.mark.usefixtures("lowered")
def test_a_flood_that_is_remembered_is_caught(tmp_path, monkeypatch):
    """The mistake: a small entry is kept of every cast that a member has heard."""
    first = inbox.Seen.first

    class Hoard(int):
        """A number that cannot help remembering."""

        def __init__(self, number: int) -> None:
            self.hoard: list[bytes] = []

    def hoard(self, *given):
        if not hasattr(self._bound, "hoard"):
            self._bound = Hoard(self._bound)
        self._bound.hoard.append(bytes(bytearray(ENTRY)))
        return first(self, *given)

    monkeypatch.setattr(inbox.Seen, "first", hoard)
    flood = Tides("centralised", tmp_path / "run").go()

    with pytest.raises(AssertionError, match="bytes are kept of each cast"):
        check_tides(flood, flood.bytes)


def test_a_line_through_the_second_half_shows_what_every_cast_leaves_behind():
    heard = [100 * tide for tide in range(1, TIDES + 1)]
    filling = [9_000, 20_000, 20_000, 20_100, 19_900, 20_000]

    assert abs(gain(heard, filling)) < 1, "tables that fill and then are full"
    assert gain(
        heard, [one + 50 * each for one, each in zip(filling, heard, strict=True)]
    ) == pytest.approx(50, abs=1)


def test_the_journals_buffers_do_not_grow_with_messages(tmp_path):
    journal = Journal(tmp_path / "run")
    journal.kinds.append("Word")
    sizes = []
    for serial in range(2 * CHUNK_ROWS + 10):
        journal.send(serial, 0, serial, serial, 0, 1, UPKEEP, 1, 5, 0)
        if serial % CHUNK_ROWS == 7:
            sizes.append(len(journal.sends) + len(journal.notices))
    journal.discard()

    assert len(set(sizes)) == 1
