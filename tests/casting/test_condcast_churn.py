"""condcast where peers come, go and crash: promises, coverage, sleepers, and what pruning still saves."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from implicast.casting.condcast import DESIGNS, tasks
from implicast.casting.condcast.arc_coverage import ArcCoverage
from implicast.casting.condcast.condcast import Condcast
from implicast.casting.condcast.messages import ArcsCovered, ForwardCast
from implicast.casting.condcast.visibility import VisibilityDelay
from implicast.casting.coverage import Split
from implicast.language.aggregate import TargetQuery, aggregate_of
from implicast.language.target import Description, Target, Term, Value
from implicast.overlay.chord_sharp import Table
from implicast.overlay.chord_sharp.messages import LevelUpdate
from implicast.overlay.links.membership import Membership
from implicast.peer.contract import CastId, Message
from implicast.peer.events import Joined, Left, Notice, Registered, Settled
from implicast.peer.name import network_of
from implicast.peer.site import Site
from implicast.peer.wire import Codec
from implicast.space.digest import stream
from implicast.space.ring import Arc
from implicast.trials.campaign import check, scenario_of
from implicast.workload.stated import CASTS, REGISTRATIONS
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.frozen import freeze, thaw
from implicast.world.journal import JOIN, LEAVE, REGISTER, UPKEEP
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.populations.links import ring_objections
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate
from implicast.world.world import World
from sites import sealed

DESIGN = DESIGNS[0]
SECOND_US = 1_000_000
GIVEN = DESIGNS[0].settle({})
AGE_S = 1.05 * (GIVEN["round_s"] + GIVEN["slack_s"])
"""No aggregate in use is older, by any clock."""
A, B = Description(("a",)), Description(("b",))
Carries = Callable[[int, int, Message], bool]


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Net(World):
    """A world in which a test may say what is not carried, and which counts."""

    lets: Carries = staticmethod(lambda sender, to, message: True)  # type: ignore[assignment]
    kinds: dict[str, int]

    def carry(self, sender: int, to: int, message: Message) -> None:
        self.kinds[type(message).__name__] = self.kinds.get(type(message).__name__, 0) + 1
        if self.lets(sender, to, message):
            super().carry(sender, to, message)


def _population(described: Sequence[Description], newcomers: int = 0) -> tuple[Net, list[Condcast]]:
    """A living ring of these, all registered, and so many that have yet to join."""
    world = Net(Flat(), codec=Codec(DESIGN.kinds))
    world.kinds = {}
    count = len(described)
    plan = Plan(
        count, 0, DESIGN.settle({}), 1, world.host, world.latency_us, descriptions=described
    )
    peers = [
        *population(DESIGN).assemble(plan),
        *(Condcast(plan.site(count + number)) for number in range(newcomers)),
    ]
    for address, peer in enumerate(peers):
        world.place(address, peer)
    for peer, each in zip(peers, described, strict=False):
        peer.register(each)  # type: ignore[attr-defined]
    return world, peers  # type: ignore[return-value]


def _at(world: World, seconds: float, verb: Callable[[], object], purpose: int = UPKEEP) -> None:
    world.at(int(seconds * SECOND_US), purpose, verb)


def _run(world: World, seconds: float) -> None:
    world.run(int(seconds * SECOND_US))


def _told(world: World) -> list[int]:
    return sorted(address for _, address, event in world.events if isinstance(event, Notice))


def _events(world: World, kind: type) -> list[Any]:
    return [
        (time_us, address, event)
        for time_us, address, event in world.events
        if isinstance(event, kind)
    ]


def _to(*tags: str) -> Target:
    return Target((Term(tags),))


# --- promises


def test_a_newcomer_is_promised_after_the_age_of_aggregates_and_found_by_everybody() -> None:
    world, peers = _population([A] * 30, newcomers=1)
    late = peers[30]
    _at(world, 3, lambda: late.join((0, 5)), JOIN)
    _at(world, 4, lambda: late.register(B), REGISTER)
    _run(world, 60)

    [(joined_us, _, _)], [(promised_us, _, registered)] = (
        _events(world, Joined),
        _events(world, Registered)[30:],
    )
    assert joined_us < 4 * SECOND_US
    assert registered == Registered(late.version)
    assert AGE_S - 0.5 <= (promised_us - 4 * SECOND_US) / SECOND_US <= AGE_S + 4.5
    for peer in peers:
        peer.cast(_to("b"), b"")
    _run(world, 65)
    assert _told(world) == [30] * 31


def test_a_promise_is_kept_by_tables_that_hear_nothing_any_more() -> None:
    """One peer hears nothing of its fingers while another joins: what it knows of the arc grows too old to be used."""
    assert _reached_from_the_deaf()


def test_aggregates_that_do_not_expire_hide_a_newcomer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "expire", lambda self, now_us: None)

    assert not _reached_from_the_deaf()


def _reached_from_the_deaf() -> bool:
    """Whether a newcomer, once registered, is reached from a peer that is told nothing of levels."""
    world, peers = _population([A] * 30, newcomers=1)
    late, right = peers[30], peers[0].links.right.address
    ring = sorted(range(31), key=lambda at: peers[at].links.me.key)
    deaf = ring[(ring.index(30) - 12) % 31]  # so that the newcomer is in one of its upper levels
    right = peers[deaf].links.right.address
    world.lets = lambda sender, to, message: (
        not (isinstance(message, LevelUpdate) and to == deaf and sender != right)
    )  # type: ignore[assignment]
    _at(world, 3, lambda: late.join((0, 5)), JOIN)
    _at(world, 4, lambda: late.register(B), REGISTER)
    _run(world, 45)
    assert len(_events(world, Registered)) == 31
    _at(world, 45, lambda: peers[deaf].cast(_to("b"), b""))
    _run(world, 46)
    return _told(world) == [30]


JOINS = Scenario(
    "condcast",
    peers=48,
    casts=120,
    seed=3,
    workload="groups",
    interval_ms=500,
    churn=Churn.parse("joins=24,over_s=30"),
    changes=12,
)


def test_while_peers_only_come_and_change_nothing_is_missed_at_any_time() -> None:
    outcome = simulate(JOINS)

    assert outcome.contract_held
    assert outcome.contract.clean
    assert outcome.contract.expected > 200


def test_a_promise_that_does_not_wait_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VisibilityDelay, "age_us", lambda self: 0)

    assert simulate(JOINS).contract.missing > 0


def test_a_peer_that_was_passed_over_begins_to_wait_anew() -> None:
    world, peers = _population([A] * 8, newcomers=1)
    late = peers[8]
    _at(world, 3, lambda: late.join((0,)), JOIN)
    _at(world, 4, lambda: late.register(B), REGISTER)
    _at(world, 20, late.on_bypassed)
    _run(world, 50)
    assert len(_events(world, Registered)) == 8
    _run(world, 56)
    assert len(_events(world, Registered)) == 9


def _late(settle_s: float = 5) -> tuple[Net, list[Condcast], int, int, int]:
    """A ring with a newcomer that registers at 4 s; it, its left and its right neighbour."""
    world, peers = _population([A] * 20, newcomers=1)
    late = peers[20]
    _at(world, 3, lambda: late.join((0,)), JOIN)
    _at(world, 4, lambda: late.register(B), REGISTER)
    _run(world, settle_s)
    return world, peers, 20, int(str(late.links.left.address)), int(str(late.links.right.address))


def _promised_s(world: World) -> float:
    [time_us] = [time_us for time_us, address, _ in _events(world, Registered) if address == 20]
    return time_us / SECOND_US


def test_the_death_of_a_left_neighbour_does_not_make_a_peer_wait_anew() -> None:
    """Nobody had spoken for its place meanwhile."""
    world, _, _, left, _ = _late()
    _at(world, 25, lambda: world.crash(left))
    _run(world, 80)

    assert 3.5 <= _promised_s(world) - AGE_S <= 5.5


def _passed_over(world: Net, peers: list[Condcast], late: int, left: int, right: int) -> float:
    """The right neighbour hears nothing of the newcomer until it has closed the ring over it. When that was."""
    world.lets = lambda sender, to, message: {sender, to} != {late, right}
    now_s = 12.0
    while peers[left].links.right.address != right:
        now_s += 0.1
        assert now_s < 60, "it is passed over in the end"
        _run(world, now_s)
    world.lets = lambda sender, to, message: True
    return now_s


def test_a_peer_that_its_right_neighbour_passed_over_waits_anew() -> None:
    world, peers, late, left, right = _late()
    passed_s = _passed_over(world, peers, late, left, right)
    _run(world, 120)

    assert _promised_s(world) >= passed_s + AGE_S - 0.5
    assert ring_objections([peer.links for peer in peers]) == []


def test_it_does_so_too_when_its_left_neighbour_dies_before_it_could_say_so() -> None:
    world, peers, late, left, right = _late()
    passed_s = _passed_over(world, peers, late, left, right)
    world.crash(left)
    _run(world, 120)

    assert _promised_s(world) >= passed_s + AGE_S - 0.5
    assert ring_objections([peer.links for at, peer in enumerate(peers) if at != left]) == []


# --- coverage


def test_the_publisher_learns_how_many_were_told() -> None:
    world, peers = _population([A if at % 3 else B for at in range(40)])
    _at(world, 1, lambda: peers[7].cast(_to("b"), b""))
    _run(world, 3)

    due = [at for at in range(40) if at % 3 == 0]
    assert _told(world) == due
    assert [(address, event) for _, address, event in _events(world, Settled)] == [
        (7, Settled(CastId(peers[7].name, peers[7].incarnation, 1), len(due)))
    ]


def _dead_in_the_middle() -> tuple[Net, list[Condcast], int, int]:
    """A cast is under way when the farthest finger of its publisher dies, with half of the ring behind it."""
    world, peers = _population([A] * 32)
    middle = peers[4].ring.table.nodes[-1].address
    assert isinstance(middle, int)
    _at(world, 1, lambda: peers[4].cast(_to("a"), b""))
    _at(world, 1.021, lambda: world.crash(middle))  # it has just passed it on
    return world, peers, 4, middle


def test_a_crash_in_the_middle_of_the_tree_loses_nobody_else() -> None:
    world, _, publisher, middle = _dead_in_the_middle()
    world.lets = lambda sender, to, message: (
        not (isinstance(message, ForwardCast) and sender == middle)
    )  # type: ignore[assignment]
    _run(world, 46)

    assert [at for at in range(32) if at not in _told(world)] in ([], [middle])
    assert len(set(_told(world))) == len(_told(world)), "nobody twice"
    [(_, by, settled)] = _events(world, Settled)
    assert (by, settled.unreachable) == (publisher, 0)
    assert settled.notified == 31


def test_covered_said_too_early_loses_all_behind_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    split = ArcCoverage.split

    def hasty(self: ArcCoverage, task: tasks.Task, arcs: tuple[Arc, ...]) -> Split[Arc]:
        if task.requester is not None:
            self.host.send(task.requester[0], ArcsCovered(task.cast, task.requester[1], 0, 0))
        return split(self, task, arcs)

    monkeypatch.setattr(ArcCoverage, "split", hasty)
    world, _, _, middle = _dead_in_the_middle()
    world.lets = lambda sender, to, message: (
        not (isinstance(message, ForwardCast) and sender == middle)
    )  # type: ignore[assignment]
    _run(world, 46)

    assert len(_told(world)) < 20


def test_what_lies_beyond_dead_neighbours_waits_until_the_ring_has_closed() -> None:
    world, peers = _population([A] * 12)
    dead = [node.address for node in peers[2].ring.table.nodes[:2]]
    hidden = next(peer for peer in peers if peer.links.left.address == dead[1])
    for address in dead:
        world.crash(address)  # type: ignore[arg-type]
    _at(world, 1, lambda: peers[2].cast(_to("a"), b""))
    _run(world, 3)
    assert _told(world) == [at for at in range(12) if at not in (*dead, hidden.address)]

    _run(world, 45)
    assert _told(world) == [at for at in range(12) if at not in dead]


def test_a_leaver_hands_its_share_of_a_cast_back() -> None:
    world, peers = _population([A] * 32)
    middle = peers[4].ring.table.nodes[-1].address
    assert isinstance(middle, int)
    world.lets = lambda sender, to, message: (
        not (isinstance(message, ForwardCast) and sender == middle)
    )  # type: ignore[assignment]
    _at(world, 1, lambda: peers[4].cast(_to("a"), b""))
    _at(world, 1.1, peers[middle].leave, LEAVE)
    _run(world, 10)

    assert [address for _, address, _ in _events(world, Left)] == [middle]
    assert _told(world) == list(range(32)), "the leaver had been told before"
    assert len(_events(world, Settled)) == 1


def test_a_cast_is_given_up_when_patience_is_over_and_the_publisher_is_told() -> None:
    world, peers = _population([A] * 6)
    alone = 3
    world.lets = lambda sender, to, message: not (isinstance(message, ForwardCast) and to == alone)  # type: ignore[assignment]
    _at(world, 1, lambda: peers[0].cast(_to("a"), b""))
    _run(world, 60)

    assert _told(world) == [at for at in range(6) if at != alone]
    [(time_us, _, settled)] = _events(world, Settled)
    assert settled.uncertain > 0
    assert time_us >= tasks.FORWARD_MAX_US


def test_a_repeated_request_is_carried_once_and_answered_again() -> None:
    world, peers = _population([A] * 16)
    key = peers[0].links.me.key
    carry = ForwardCast(
        CastId(bytes(16), 1, 1), 5, (Arc(key, key),), TargetQuery(_to("a"), 4096, 4), sealed(b"")
    )
    for _ in range(3):
        peers[0].receive(9, carry)
    sent = world.kinds["ForwardCast"]
    _run(world, 1)

    assert world.kinds["ForwardProgress"] == 2
    assert world.kinds["ForwardCast"] >= sent
    assert _told(world) == list(range(16))
    peers[0].receive(9, carry)
    assert _told(world) == list(range(16))


def _after_thirty_casts() -> list[Condcast]:
    world, peers = _population([A] * 8)
    for number in range(30):
        _at(world, 1 + number / 10, lambda by=number % 8: peers[by].cast(_to("a"), b""))  # type: ignore[misc]
    _run(world, 10)
    assert _told(world) == sorted([*range(8)] * 30)
    return peers


def test_what_a_peer_remembers_of_casts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert min(len(peer.forwarder.coverage.tasks) for peer in _after_thirty_casts()) > 10, (
        "there is more to remember"
    )

    monkeypatch.setattr(tasks, "TASKS_MAX", 10)
    peers = _after_thirty_casts()

    assert all(5 <= len(peer.forwarder.coverage.tasks) <= 10 for peer in peers), (
        "half for one that asks alone, all for many"
    )
    covering = [peer.forwarder.coverage for peer in peers]
    assert not any(each.coverages.children or each.stuck_tasks for each in covering)
    assert all(
        task.query is None and task.payload == b""
        for peer in peers
        for task in peer.forwarder.coverage.tasks.values()
    )


def test_of_one_that_gives_many_tasks_the_newest_are_remembered_and_others_keep_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "TASKS_MAX", 10)
    remembered = tasks.Tasks()

    def give(requester: int, token: int) -> tuple[int, CastId, int]:
        key = requester, CastId(bytes(16), 1, token), token
        remembered.remember(
            key, tasks.Task(0, cast=key[1], query=None, payload=b"", requester=(requester, token))
        )
        return key

    other = give(1, 1)
    many = [give(2, token) for token in range(30)]
    assert list(remembered) == [other, *many[-5:]], "as much as is left free"

    crowd = [give(requester, 1) for requester in range(3, 30)]
    assert len(remembered) == 10
    assert crowd[-1] in remembered, "there is room for everybody who has nothing yet"


def test_a_sleeper_that_wakes_after_its_place_was_closed_does_no_harm() -> None:
    world, peers = _population([A] * 20)
    _at(world, 2, lambda: freeze(world, 5))
    for second in range(3, 60):
        _at(world, second, lambda by=second % 5: peers[by].cast(_to("a"), b""))  # type: ignore[misc]
    _at(world, 40, lambda: thaw(world, 5))
    _at(world, 40.001, lambda: peers[5].cast(_to("a"), b""))
    _run(world, 100)

    told = [(address, event.cast) for _, address, event in _events(world, Notice)]
    assert len(set(told)) == len(told)
    later = {
        CastId(peers[by].name, peers[by].incarnation, serial)
        for by in range(5)
        for serial in (9, 10, 11)
    }
    assert {cast for address, cast in told if address == 5} >= later
    assert population(DESIGN).objections(peers) == []
    assert sum(cast == CastId(peers[5].name, peers[5].incarnation, 1) for _, cast in told) == 20


# --- scenarios


def _fails(scenarios: list[Scenario]) -> list[str]:
    found = [check(each) for each in scenarios]
    return [f"{one.reasons[:3]} replay: {one.scenario.command()}" for one in found if one.reasons]


def test_peers_that_stand_by_their_tags_survive_too() -> None:
    drawn = [scenario_of(DESIGN, 11, number) for number in range(2)]

    assert (
        _fails([replace(each, parameters={**each.parameters, "place": "tags"}) for each in drawn])
        == []
    )


def state_attributes(folder: Path, peers: int, casts: int, seed: int) -> str:
    """A workload in which peers hold numbers and a city, and casts ask for ranges; as a directory."""
    rng = stream(seed, "attributes under change")
    cities = ("Berlin", "Osaka", "Oslo")
    pq.write_table(
        pa.Table.from_pylist(
            [
                {
                    "peer": peer,
                    "tags": ["jazz"] if rng.random() < 0.5 else [],
                    "values": [
                        {"attribute": "age", "value": f"@{rng.randrange(100)}"},
                        {"attribute": "city", "value": rng.choice(cities)},
                    ],
                }
                for peer in range(peers)
            ],
            REGISTRATIONS,
        ),
        folder / "registrations.parquet",
    )
    lows = [rng.randrange(90) for _ in range(casts)]
    pq.write_table(
        pa.Table.from_pylist(
            [
                {
                    "cast": cast,
                    "publisher": rng.randrange(peers),
                    "target": f'jazz & age in @{low}..@{low + 9} | city = "{rng.choice(cities)}" & age < @{low // 3}',
                }
                for cast, low in enumerate(lows)
            ],
            CASTS,
        ),
        folder / "casts.parquet",
    )
    return str(folder)


@pytest.mark.parametrize("place", ["random", "tags"])
def test_casts_to_attributes_survive_too(tmp_path: Path, place: str) -> None:
    drawn = scenario_of(DESIGN, 12, 4)
    stated = state_attributes(tmp_path, drawn.peers, drawn.casts, drawn.seed)

    assert (
        _fails([replace(drawn, workload=stated, parameters={**drawn.parameters, "place": place})])
        == []
    )


def _cast_messages(outcome: SimulationOutcome, casts: int) -> float:
    return outcome.messages["cast"] / casts


def test_pruning_still_pays_while_things_change() -> None:
    """A flood would tell everybody, and be answered by everybody: 2 (n - 1) messages a cast."""
    scenario = Scenario(
        "condcast",
        peers=128,
        casts=50,
        seed=2,
        workload="zipf",
        churn=Churn.parse("joins=6,leaves=4,crashes=4,over_s=40"),
        faults=Faults(loss=0.01),
    )
    pruned = simulate(scenario)
    flood = simulate(replace(scenario, parameters={"bits": 8}))

    assert pruned.contract_held
    assert flood.contract_held
    assert _cast_messages(flood, 50) > 1.8 * 127
    assert _cast_messages(pruned, 50) < 0.5 * _cast_messages(flood, 50)


# --- lives


def _gone_and_back() -> tuple[Net, list[Condcast]]:
    """A peer leaves, comes back after a while as another life, and describes itself otherwise."""
    world, peers = _population([A] * 24)
    back = peers[5]
    _at(world, 2, back.leave, LEAVE)
    _at(world, 9, lambda: back.join((0, 1, 2)), JOIN)
    _at(world, 10, lambda: back.register(B), REGISTER)
    _run(world, 75)
    return world, peers


def test_a_peer_that_left_and_came_back_is_another_life_and_found_again() -> None:
    world, peers = _gone_and_back()
    assert population(DESIGN).objections(peers) == []
    assert not any(peer.links.detector.is_lost(peers[5].links.me) for peer in peers)
    assert [
        node.incarnation > 0
        for peer in peers
        for node in peer.ring.table.nodes
        if node.address == 5
    ] == [True] * 5

    peers[0].cast(_to("b"), b"")
    peers[1].cast(_to("a"), b"")
    _run(world, 77)
    assert _told(world) == sorted([5, *(at for at in range(24) if at != 5)])


def test_where_lives_are_ignored_whoever_comes_back_is_taken_for_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Membership, "start_new_incarnation", lambda self: self.start_incarnation(0))
    _, peers = _gone_and_back()

    assert any(peer.links.detector.is_lost(peers[5].links.me) for peer in peers), (
        "for good: it said so itself"
    )


@pytest.mark.parametrize("numbers", [False, True])
def test_a_filter_or_span_that_lacks_somebody_is_objected_to(numbers: bool) -> None:
    described = [
        Description((f"t{at}",), (Value("age", at),) if numbers else ()) for at in range(20)
    ]  # filters alone are compared as numbers, with spans they are not
    world, peers = _population(described)
    _run(world, 40)
    assert population(DESIGN).objections(peers) == []

    table = peers[3].ring.table
    level = 2
    table.values[level] = aggregate_of(described[int(str(table.nodes[level].address))], 4096, 4)
    [said] = population(DESIGN).objections(peers)
    assert said == "the aggregate of level 2 at 3 lacks the value of a node"


@pytest.mark.parametrize(
    ("settings", "within_s"), [({}, 40), (DESIGN.quick, 15)], ids=["default", "quick"]
)
@pytest.mark.parametrize("disk", ["kept", "old", "empty"])
def test_whoever_comes_back_at_its_address_is_in_and_registered_soon(
    settings: dict[str, float], within_s: float, disk: str
) -> None:
    churn = Churn.parse(f"event=4..9:return:3:{disk}")
    outcome = simulate(
        Scenario(
            "condcast", 24, 100, 3, dict(settings), workload="groups", churn=churn, interval_ms=800
        )
    )

    assert outcome.contract_held, outcome.contract
    assert outcome.contract.repeated == outcome.contract.misreported == 0
    assert outcome.change is not None
    assert outcome.change.described()["return_s_max"] <= within_s


def test_who_comes_back_tells_its_former_neighbours_that_it_is_gone_and_waits_for_no_check() -> (
    None
):
    world, peers = _population([A] * 16)
    _run(world, 2)
    kept = peers[5].durable_state()
    world.crash(5)
    parameters = DESIGN.settle({})
    back = Condcast(
        Site(
            peers[5].name, 9 << 16, 5, world.host(5), parameters, network_of(1), durable_state=kept
        )
    )
    world.place(5, back)
    _at(world, 2.1, lambda: back.join((0, 1)))
    _run(world, 5)

    assert back.links.state == "in"
    assert back.links.me.key == peers[5].links.me.key
    assert back.links.me != peers[5].links.me
    assert ring_objections([peer.links for peer in (*peers[:5], back, *peers[6:])]) == []


@pytest.mark.parametrize("assurance", ["receipts", "none"])
def test_a_cast_does_not_go_in_a_circle_over_a_peer_that_came_back_elsewhere(
    assurance: str,
) -> None:
    world, peers = _population([A] * 16)
    _run(world, 2)
    gone = 5
    world.crash(gone)
    parameters = DESIGN.settle({})
    back = Condcast(
        Site(b"elsewhere".ljust(16), 9 << 16, gone, world.host(gone), parameters, network_of(1))
    )
    assert abs(back.links.key - peers[gone].links.me.key) > 1 << 58
    world.place(gone, back)
    _at(world, 2.1, lambda: back.register(A))
    _at(world, 2.2, lambda: back.join((0, 1)))
    _run(world, 2.6)
    assert back.links.state == "in"
    assert peers[gone].links.me in [peer.links.right for peer in peers], (
        "its old place is still linked"
    )

    before = world.kinds.get("ForwardCast", 0)

    def is_calm(sender: int, to: int, message: Message) -> bool:
        assert world.kinds.get("ForwardCast", 0) - before < 3 * 16, "it goes round and round"
        return True

    world.lets = is_calm  # type: ignore[assignment]
    if assurance == "receipts":
        _at(world, 2.7, lambda: peers[0].cast(_to("a"), b""))
    else:
        key = peers[0].links.me.key
        once = ForwardCast(
            CastId(bytes(16), 1, 1),
            0,
            (Arc(key, key),),
            TargetQuery(_to("a"), 4096, 4),
            sealed(b""),
        )
        _at(world, 2.7, lambda: peers[0].receive(9, once))
    _run(world, 20)

    told = _told(world)
    assert len(told) == len(set(told))
    assert told == list(range(16)) or assurance == "none"


def test_a_question_of_a_strange_make_is_dropped() -> None:
    world, peers = _population([A] * 4)
    key = peers[0].links.me.key
    cast = CastId(bytes(16), 1, 1)
    for arc, query in (
        (Arc("a", "b"), TargetQuery(_to("a"), 4096, 4)),
        (Arc(key, key), TargetQuery(_to("a"), 4096, 1 << 62)),
        (Arc(key, key), TargetQuery(_to("a"), 1 << 62, 4)),
    ):
        peers[0].receive(9, ForwardCast(cast, 5, (arc,), query, sealed(b"")))

    assert world.kinds == {}
    assert _told(world) == []
