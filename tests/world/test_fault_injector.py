"""Deeds in a running world: newcomers take part, the dead are silent, those who stood still go on where they were."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from implicast.casting.designs import designs
from implicast.casting.dht.member import Dht
from implicast.peer.contract import Address, Host, Message, Peer, handles
from implicast.peer.errors import ScenarioError
from implicast.peer.wire import Codec
from implicast.world.application import Application
from implicast.world.churn import Churn
from implicast.world.clocks import allow_jumps, jump
from implicast.world.fault_injector import CHECK_US, LAST_CHECKS, FaultInjector
from implicast.world.faults import Faults
from implicast.world.frozen import MAIL_MAX, freeze, thaw
from implicast.world.journal import JOIN, UPKEEP
from implicast.world.link_faults import LinkFaults
from implicast.world.plan import Plan
from implicast.world.run import Run
from implicast.world.scenario import Scenario
from implicast.world.scripted_events import ScriptedEvent
from implicast.world.simulate import simulate
from implicast.world.world import World


class Word(Message):
    wire = 0x7001

    number: int


class Tick(Message):
    """Rings once."""


class Listener(Peer):
    def __init__(self, address: Address, host: Host) -> None:
        super().__init__(address, host)
        self.heard: list[tuple[int, object]] = []

    @handles(Word)
    def on_word(self, sender: Address, word: Word) -> None:
        self.heard.append((self.host.now_us, word.number))

    @handles(Tick)
    def on_tick(self, alarm: Tick) -> None:
        self.heard.append((self.host.now_us, "tick"))


class Even:
    def latency_us(self, a: int, b: int) -> int:
        return 10


def two(
    rates: dict[int, float] | None = None, jumps: tuple[int, ...] = (), **options
) -> tuple[World, Listener, Listener]:
    world = World(Even(), **options)
    world.rates = rates or {}
    if jumps:
        allow_jumps(world, [ScriptedEvent(0, 0, "jump", jumps, 1)])
    peers = [Listener(address, world.host(address)) for address in range(2)]
    for address, peer in enumerate(peers):
        world.place(address, peer)
    return world, *peers


def run(churn: str, directory: Path | None = None, **more):
    base = Scenario("centralised", peers=24, casts=60, seed=5, workload="groups")
    return simulate(replace(base, churn=Churn.parse(churn), **more), directory)


# --- standing still


@pytest.mark.parametrize("codec", [None, Codec([Word])])
def test_a_frozen_peer_handles_everything_when_it_wakes_in_order(codec):
    world, frozen_peer, other = two(codec=codec)
    world.at(0, JOIN, lambda: frozen_peer.host.after(50, Tick()))
    world.at(5, UPKEEP, lambda: freeze(world, 0))
    for number in (1, 2):
        world.at(number * 30, JOIN, lambda number=number: other.host.send(0, Word(number)))
    world.at(500, UPKEEP, lambda: thaw(world, 0))
    world.run(1000)

    assert frozen_peer.heard == [(500, 1), (500, "tick"), (500, 2)]


def test_a_frozen_mailbox_is_bounded():
    world, frozen_peer, other = two()
    freeze(world, 0)
    for number in range(MAIL_MAX + 10):
        world.at(number, JOIN, lambda number=number: other.host.send(0, Word(number)))
    world.run(MAIL_MAX + 100)
    thaw(world, 0)
    world.run(MAIL_MAX + 200)

    assert len(frozen_peer.heard) == MAIL_MAX


def test_a_frozen_peer_can_die():
    world, frozen_peer, other = two()
    freeze(world, 0)
    world.at(0, JOIN, lambda: other.host.send(0, Word(1)))
    world.run(50)
    world.crash(0)
    thaw(world, 0)
    world.run(100)

    assert not frozen_peer.heard


# --- events that overlap


class Disk(Message):
    incarnation: int


class Stayer(Listener):
    """Keeps nothing on disk, and comes back when it is revived."""

    def durable_state(self) -> Disk:
        return Disk(7)


def injector(script: str) -> tuple[World, Listener]:
    """Two peers, 0 and 1, to whom a script happens; 1 is sent its number by 0 every second."""
    world = World(Even())
    for address in range(2):
        world.place(address, Stayer(address, world.host(address)))
    listener, heard = world.peers[1], world.peers[1].heard

    def fixture(site, role):
        assert site.durable_state == Disk(7)
        revived = Stayer(site.address, site.host)
        revived.heard = heard
        return revived

    design = replace(designs()["centralised"], fixture=fixture, objections=lambda population: [])
    plan = Plan(2, 0, {}, 1, world.host, lambda a, b: 10, roles={"server": (1,)})
    events = tuple(sorted(Churn.parse(script).events))
    FaultInjector(events, world, Application(world), LinkFaults(None), design, plan, {}).schedule(0)
    for second in range(40):
        at_us = second * 1_000_000 + 500_000
        world.at(at_us, JOIN, lambda second=second: world.peers[0].host.send(1, Word(second)))
    world.run(40_000_000)
    return world, listener


def heard_during(script: str) -> list[int]:
    """The seconds in which a word was heard."""
    return [at_us // 1_000_000 for at_us, _ in injector(script)[1].heard]


SECONDS = list(range(40))


@pytest.mark.parametrize(
    ("script", "still"),
    [
        ("event=5..9:freeze:1", range(5, 9)),
        ("event=5..9:freeze:1,event=6..25:freeze:1", range(5, 25)),
        ("event=5..25:freeze:1,event=6..9:freeze:1", range(5, 25)),
        ("event=5..9:freeze:1,event=5..9:freeze:1", range(5, 9)),
        ("event=5..9:freeze:1,event=9..12:freeze:1", range(5, 12)),
    ],
)
def test_whoever_stands_still_for_two_reasons_wakes_when_both_are_over(script, still):
    heard = heard_during(script)

    assert [second for second in heard if second not in still] == sorted(
        [second for second in SECONDS if second not in still] + [still.stop] * len(still)
    )
    assert not set(heard) & set(still)


@pytest.mark.parametrize(
    ("script", "down"),
    [
        ("event=5..9:restart:1", range(5, 9)),
        ("event=5..9:restart:1,event=6..25:restart:1", range(5, 25)),
        ("event=5..25:restart:1,event=6..9:restart:1", range(5, 25)),
        ("event=5..9:restart:1,event=7:fail:1", range(5, 40)),
        ("event=5:fail:1,event=20..30:restart:1", range(5, 40)),
        ("event=5:fail:1,event=20..30:freeze:1", range(5, 40)),
        ("event=5..9:restart:1,event=6..25:freeze:1", range(5, 9)),
        ("event=5..20:freeze:1,event=7..9:restart:1", range(5, 9)),
    ],
)
def test_who_has_failed_never_comes_back_and_who_restarts_comes_back_once(script, down):
    assert heard_during(script) == [second for second in SECONDS if second not in down]


def test_a_freeze_from_before_a_restart_does_not_wake_who_is_frozen_after_it():
    heard = heard_during("event=5..22:freeze:1,event=7..9:restart:1,event=20..25:freeze:1")

    assert set(SECONDS) - set(heard) == {*range(5, 9), *range(20, 25)}


def test_overlapping_cuts_splits_and_slowness_end_one_by_one():
    link_faults = LinkFaults(None)
    for _ in range(2):
        link_faults.cut((0, 1))
        link_faults.split(frozenset({2}))
        link_faults.slow(3, 500)
    link_faults.mend((0, 1))
    link_faults.heal(frozenset({2}))
    link_faults.slow(3, -500)

    assert [link_faults.copy_delays_us(0, *link, 10) for link in ((0, 1), (2, 1), (3, 1))] == [
        (),
        (),
        (510,),
    ]
    link_faults.mend((0, 1))
    link_faults.heal(frozenset({2}))
    link_faults.slow(3, -500)
    assert [link_faults.copy_delays_us(0, *link, 10) for link in ((0, 1), (2, 1), (3, 1))] == [
        (10,)
    ] * 3


# --- clocks


@pytest.mark.parametrize("rate", [0.5, 0.99, 1.0137, 1.5])
def test_a_drifting_clock_moves_alarms_and_never_rings_early_by_itself(rate):
    world, drifter, _ = two(rates={0: rate})
    world.at(1_000_003, JOIN, lambda: drifter.host.after(1_000_000, Tick()))
    begun_us = int(1_000_003 / rate)
    world.run()

    assert abs(world.now_us - 1_000_003 - 1_000_000 * rate) <= 2
    assert 0 <= drifter.heard[0][0] - begun_us - 1_000_000 <= 2


# --- links


def test_a_cut_link_is_dead_one_way_until_it_is_mended():
    link_faults = LinkFaults(None)
    link_faults.cut((0, 1))

    assert link_faults.copy_delays_us(0, 0, 1, 10) == ()
    assert link_faults.copy_delays_us(0, 1, 0, 10) == (10,)
    link_faults.mend((0, 1))
    assert link_faults.copy_delays_us(0, 0, 1, 10) == (10,)


def test_a_flapping_link_works_in_turns():
    link_faults = LinkFaults(None)
    link_faults.cut((0, 1), turn_us=100)

    assert [
        len(link_faults.copy_delays_us(now_us, 0, 1, 10)) for now_us in (0, 50, 100, 199, 200, 300)
    ] == [
        0,
        0,
        1,
        1,
        0,
        1,
    ]


def test_nothing_crosses_a_partition():
    link_faults = LinkFaults(None)
    link_faults.split(frozenset({0, 1}))
    link_faults.split(frozenset({1, 2}))

    assert link_faults.copy_delays_us(0, 0, 1, 10) == ()
    link_faults.heal(frozenset({1, 2}))
    assert link_faults.copy_delays_us(0, 0, 1, 10) == (10,)
    assert link_faults.copy_delays_us(0, 1, 2, 10) == ()


def test_a_partition_in_one_direction_and_a_deaf_host_lose_only_what_they_name():
    faults = LinkFaults(None)

    def passes(sender: int, receiver: int) -> bool:
        return faults.copy_delays_us(0, sender, receiver, 5) == (5,)

    faults.mute(frozenset({1, 2}))
    assert [passes(1, 0), passes(0, 1), passes(1, 2)] == [False, True, True]
    faults.deafen(frozenset({0}))
    faults.unmute(frozenset({1, 2}))
    assert [passes(1, 0), passes(0, 1), passes(2, 0)] == [False, True, False]
    assert not faults.meet(0, 0, 1)
    faults.undeafen(frozenset({0}))
    assert passes(1, 0)


@pytest.mark.parametrize("rate", [1.0, 1.25])
def test_a_clock_jumps_ahead_at_once_and_back_at_the_next_start(rate):
    world, one, _ = two({0: rate, 1: rate}, jumps=(0,))
    world.run(10_000_000)
    before_us = one.host.now_us
    one.host.after(1_000_000, Tick())
    jump(world, ScriptedEvent.parse("10:jump~20:0"))

    assert one.host.now_us == before_us + 20_000_000
    world.run(int(10_000_000 + 1_000_000 * rate) + 1)
    assert [what for _, what in one.heard] == ["tick"], "a jump moves no armed alarm"
    after_us = one.host.now_us
    jump(world, ScriptedEvent.parse("10:jump~25:0:back"))
    assert one.host.now_us == after_us
    world.crash(0)
    assert world.host(0).now_us == after_us - 25_000_000


def test_a_slow_peer_is_slow_both_ways():
    link_faults = LinkFaults(None)
    link_faults.slow(0, 500)

    assert (
        link_faults.copy_delays_us(0, 0, 1, 10),
        link_faults.copy_delays_us(0, 1, 0, 10),
        link_faults.copy_delays_us(0, 1, 2, 10),
    ) == (
        (510,),
        (510,),
        (10,),
    )
    link_faults.slow(0, -500)
    assert link_faults.copy_delays_us(0, 0, 1, 10) == (10,)


# --- whole runs


def rows(directory: Path, table: str) -> list[dict]:
    return pq.read_table(directory / f"{table}.parquet").to_pylist()


def test_newcomers_join_register_hear_and_cast(tmp_path):
    outcome = run("joins=12,over_s=20", tmp_path / "run")
    newcomers = set(range(25, 37))

    registered = {
        row["peer"] for row in rows(tmp_path / "run", "registrations") if row["completed_us"]
    }
    heard = {row["peer"] for row in rows(tmp_path / "run", "notices")}
    assert newcomers <= registered
    assert newcomers & heard
    assert newcomers & {row["publisher"] for row in rows(tmp_path / "run", "casts")}
    assert outcome.contract_held


def test_the_gone_neither_send_nor_hear_nor_are_missed(tmp_path):
    outcome = run("event=5:crash:3+4,event=6:leave:5", tmp_path / "run")
    incarnations = {row["peer"]: row for row in rows(tmp_path / "run", "incarnations")}
    start_us = min(row["from_us"] for row in rows(tmp_path / "run", "scripted_events")) - 5_000_000

    assert [incarnations[peer]["end"] for peer in (3, 4, 5, 6)] == [
        "crashed",
        "crashed",
        "left",
        "stayed",
    ]
    sends = [
        row for row in rows(tmp_path / "run", "sends") if row["sent_us"] > start_us + 5_000_000
    ]
    assert not [row for row in sends if row["sender"] in (3, 4)]
    notices = [
        row for row in rows(tmp_path / "run", "notices") if row["time_us"] > start_us + 5_000_000
    ]
    assert not [row for row in notices if row["peer"] in (3, 4)]
    assert outcome.contract.missing == 0
    assert outcome.contract_held


def test_a_partition_is_outlived_by_repeats():
    outcome = run("event=2..22:split:0+1+2+3+4+5")

    assert outcome.contract.missing == 0
    assert outcome.contract.late > 0


def test_same_scenario_same_journal_and_a_spelled_script_is_the_same_run(tmp_path):
    text = "joins=6,leaves=3,crashes=3,freezes=2,cuts=2,flaps=2,splits=1,restarts=1,slow=2,drift=0.01,over_s=30"
    spelled = Churn.parse(text).spelled(5, 24, 1).text()
    faults = Faults.parse("loss=0.03,duplicate=0.03")
    digests = []
    for number, churn in enumerate((text, text, spelled)):
        run(churn, tmp_path / str(number), faults=faults)
        files = sorted(
            path for path in (tmp_path / str(number)).iterdir() if path.name != "scenario.json"
        )
        digests.append(hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest())

    assert len(set(digests)) == 1


def test_a_scenario_with_churn_says_how_to_replay_it():
    scenario = Scenario("centralised", churn=Churn.parse("event=1..2:cut:3>4,joins=2"))

    assert "--churn 'joins=2,event=1..2:cut:3>4'" in scenario.command()
    assert scenario.described()["churn"] == "joins=2,event=1..2:cut:3>4"
    assert "churn" not in Scenario("centralised").described()


@pytest.mark.parametrize(
    ("churn", "says"),
    [
        ("event=5:crash:24", "is no peer"),
        ("event=5..6:restart:3", "only servers and brokers"),
        ("event=5:join:7", "newcomers have addresses from 25"),
        ("event=5:crash:25", "there is no 25"),
        ("event=5:join:25,event=6:join:25", "25 joins already"),
    ],
)
def test_impossible_events_are_refused(churn, says):
    with pytest.raises(ScenarioError, match=says):
        run(churn)


ALL = "+".join(map(str, range(24)))


@pytest.mark.parametrize(
    ("event", "unmade"),
    [(f"5:crash:{ALL}", 54), (f"5:leave:{ALL}", 54), (f"5.5..9.5:freeze:{ALL}", 4)],
)
def test_where_nobody_is_there_no_cast_is_made_and_that_is_said(event, unmade, tmp_path):
    outcome = run(f"event={event}", tmp_path / "run")

    assert outcome.notes[:1] == [
        f"{unmade} of 60 casts were not made: no member was present and able to cast"
    ]
    assert [row["cast"] for row in rows(tmp_path / "run", "casts")] == list(range(60 - unmade))
    assert {row["cast"] for row in rows(tmp_path / "run", "notices")} <= set(range(60 - unmade))
    assert outcome.contract_held


def test_a_newcomer_that_finds_everybody_asleep_joins_when_they_wake():
    base = Scenario("dht", peers=16, casts=40, seed=5, workload="groups")
    everybody = "+".join(map(str, range(16)))
    outcome = simulate(
        replace(base, churn=Churn.parse(f"event=5..9:freeze:{everybody},event=7:join:16"))
    )

    assert outcome.contract_held, outcome.objections


def test_less_than_was_asked_for_is_said():
    assert (
        run("leaves=100,over_s=20")
        .notes[0]
        .startswith("churn: 18 of 100 leaves: 0.25 of the first number of peers")
    )
    assert run("leaves=3,over_s=20", casts=90).notes == []


def test_where_no_cast_came_after_all_was_quiet_that_is_said():
    early, late = run("event=5:crash:3", casts=35), run("event=5:crash:3", casts=36)

    assert early.notes == [
        "no cast came after all was quiet, 35 s after the first: what follows is not judged"
    ]
    assert late.notes == []


# --- leavers and their casts


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = Dht.leave

    def forget_and_leave(self):
        self.reads.open.clear()
        leave(self)

    monkeypatch.setattr(Dht, "leave", forget_and_leave)


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_a_leaver_in_peace_owes_its_casts_and_is_excused_under_faults(monkeypatch, loss, tmp_path):
    base = Scenario("dht", peers=24, casts=20, seed=5, workload="groups")
    base = replace(base, faults=Faults(loss=loss))
    simulate(replace(base, churn=Churn.parse("event=19:leave:1")), tmp_path / "run")
    caster = rows(tmp_path / "run", "casts")[6]["publisher"]
    leaving = replace(base, churn=Churn.parse(f"event=6.001:leave:{caster}"))

    assert simulate(leaving).contract_held
    forgetful(monkeypatch)
    outcome = simulate(leaving)
    lost = outcome.contract.missing or outcome.contract.excused
    assert lost > 0
    assert outcome.contract_held == (loss > 0)
    expected = [f"{caster} left, and its cast 6 missed {lost}"] if not loss else []
    assert outcome.change.complaints == expected


# --- the end


@pytest.mark.parametrize(("looks", "waits"), [(0, 0), (1, 1), (4, 4), (99, LAST_CHECKS)])
def test_what_is_wrong_at_the_very_end_is_looked_at_until_it_is_right_or_no_matter_of_the_moment(
    monkeypatch, looks, waits
):
    judged_us = []

    def violations(injector: FaultInjector) -> list[str]:
        passed_us = injector.world.now_us - injector.watched_until_us
        return ["a copy is on its way"] if 0 <= passed_us < looks * CHECK_US else []

    def judged(run: Run) -> list[str]:
        judged_us.append(run.world.now_us - run.timeline.end_us)
        return []

    monkeypatch.setattr(FaultInjector, "violations", violations)
    monkeypatch.setattr("implicast.world.simulate.network_objections", judged)
    run("crashes=1")

    assert judged_us == [waits * CHECK_US]
