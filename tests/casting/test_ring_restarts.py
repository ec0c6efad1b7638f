"""Members of the rings that crash and come back at their address: with their disk, an old copy of it, or none."""

from functools import partial

import pytest

from implicast.casting.designs import design
from implicast.casting.replicated_lists.holder import EntryOutdated
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.peer.events import IncarnationAdvanced, Notice, Registered
from implicast.peer.subscriber import Subscribed
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.journal import JOIN, REGISTER, UPKEEP
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.scenario import Scenario
from implicast.world.simulate import SimulationOutcome, simulate
from implicast.world.world import World

RINGS = ["dht-naive", "dht", "chord-pubsub", "opchord-pubsub"]
DISKS = ["kept", "old", "empty"]
S = 1_000_000


def returns(name: str, disk: str, quick: bool) -> SimulationOutcome:
    churn = (
        f"event=5..10:return:3:{disk},event=30..32:return:7:{disk},event=50..60:return:7+9:{disk}"
    )
    return simulate(
        Scenario(
            name,
            peers=24,
            casts=120,
            seed=1,
            workload="groups",
            network="national",
            faults=Faults(loss=0.02),
            parameters=dict(design(name).quick) if quick else {},
            churn=Churn.parse(churn),
        )
    )


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("name", RINGS)
def test_whoever_returns_is_in_again_and_nothing_is_missed_nor_told_falsely(
    name: str, disk: str, quick: bool
) -> None:
    outcome = returns(name, disk, quick)
    contract, change = outcome.contract, outcome.change

    assert change is not None
    assert change.contract_held, change.complaints
    assert contract.missing == contract.uninvited == contract.misreported == 0, contract
    assert contract.repeated == 0 or disk == "old", contract
    assert change.described()["return_s_max"] <= (15 if quick else 40)


@pytest.mark.parametrize("name", RINGS)
def test_a_made_up_word_from_the_end_of_all_lives_is_dropped(name: str) -> None:
    village = Village(name)
    member = village.members[3]
    before = member.incarnation, member.version

    village.world.at(S, UPKEEP, lambda: member.receive(5, EntryOutdated(7, (1 << 62) - 1)))
    village.world.run(2 * S)

    assert (member.incarnation, member.version) == before


class Village:
    """A ring in which one may fall and rise again."""

    def __init__(self, name: str, peers: int = 12) -> None:
        self.design = design(name)
        given = {"schema": "price: 0..999"} if "pubsub" in name else {}
        network = build("flat", hosts=peers, infrastructure=0, seed=1)
        self.world = World(network, 1)
        parameters = self.design.settle({**self.design.quick, **given})
        self.plan = Plan(peers, 0, parameters, 1, self.world.host, network.latency_us)
        self.members = population(self.design).assemble(self.plan)
        for address, member in enumerate(self.members):
            self.world.place(address, member)
        self.disks = {}

    def at(self, time_s: float, what) -> None:
        self.world.at(int(time_s * S), REGISTER, what)

    def fall(self, time_s: float, who: int) -> None:
        def now() -> None:
            self.disks[who] = self.members[who].durable_state()
            self.world.crash(who)

        self.world.at(int(time_s * S), UPKEEP, now)

    def rise(self, time_s: float, who: int, disk=None, through: tuple[int, ...] = (0, 1)) -> None:
        def now() -> None:
            kept = disk or self.disks[who]
            self.members[who] = self.plan.new_member(
                self.design, who, kept.incarnation, 0, kept, int(time_s)
            )
            self.world.place(who, self.members[who])
            self.members[who].join(through)

        self.world.at(int(time_s * S), JOIN, now)

    def heard(self, kind: type) -> list[tuple[float, int]]:
        return [
            (time_us / S, who)
            for time_us, who, event in self.world.events
            if isinstance(event, kind)
        ]


@pytest.mark.parametrize("name", [*RINGS, "condcast"])
def test_whoever_returns_with_its_disk_needs_no_introducer_that_is_still_there(name: str) -> None:
    """It asks those who were its neighbours."""
    village = Village(name)
    village.fall(20, 5)
    village.world.at(21 * S, UPKEEP, partial(village.world.crash, 0))
    village.world.at(21 * S, UPKEEP, partial(village.world.crash, 1))
    village.rise(30, 5, through=(0, 1))
    village.world.run(until_us=46 * S)

    assert village.members[5].links.state == "in"


@pytest.mark.parametrize("name", RINGS[2:])
def test_a_subscription_outlives_a_crash_and_can_be_taken_back_afterwards(name: str) -> None:
    village = Village(name)
    quotes = Target((Term(where=(Predicate("price", 10, 13),)),))
    village.at(1, partial(village.members[5].subscribe, quotes))
    village.fall(10, 5)
    village.rise(15, 5)
    for time_s in (40, 60):
        event = Description((), (Value("price", 12),))
        village.at(time_s, partial(village.members[3].publish, event, b"quote"))
    village.at(50, lambda: village.members[5].unsubscribe(1))
    village.world.run(until_us=70 * S)

    assert [who for _, who in village.heard(Subscribed)] == [5]
    assert [(int(time_s), who) for time_s, who in village.heard(Notice)] == [(40, 5)]
    entries = [
        entry
        for member in village.members
        for entry in member.holder_state.all_entries()
        if entry.packed
    ]
    assert entries == [], "nothing stays behind"


def test_what_was_said_before_the_crash_and_is_no_longer_so_is_taken_out() -> None:
    village = Village("dht")
    village.at(1, partial(village.members[5].register, Description(("jazz", "samba"))))
    village.fall(10, 5)
    village.rise(15, 5)
    village.at(40, lambda: village.members[5].register(Description(("samba",))))
    village.world.run(until_us=60 * S)

    held = {
        entry.slot[2]
        for member in village.members
        for entry in member.holder_state.all_entries()
        if entry.packed
    }
    assert held == {"samba"}
    assert len(village.heard(Registered)) == 2


def test_a_life_that_others_know_to_be_over_is_outlived() -> None:
    """Two returns from one copy of a disk: the second begins below what the first has said, or not, by chance; here a
    keeper says that it does."""
    village = Village("dht")
    member = village.members[5]
    village.at(1, partial(member.register, Description(("jazz",))))
    village.world.run(until_us=5 * S)
    (own_entry,) = member.own_entries.table.by_serial.values()
    later = (member.incarnation + (9 << 16)) << 22 | 7
    village.at(
        6, partial(member.own_entries.on_outdated, 1, EntryOutdated(own_entry.serial, later))
    )
    village.world.run(until_us=15 * S)

    assert [who for _, who in village.heard(IncarnationAdvanced)] == [5]
    assert len(village.heard(Registered)) == 2, "said again under its new life"
    stamps = {
        entry.stamp
        for each in village.members
        for entry in each.holder_state.all_entries()
        if entry.packed
    }
    assert min(stamps) > later
