"""The Byzantine-tolerant design where peers fail and some lie about who is there: words of others remove nobody."""

from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import pytest
from weight import weight

from implicast.casting.bft import digest_exchange, step_delivery
from implicast.casting.bft.keys import handles_of
from implicast.casting.bft.member import Bft
from implicast.casting.bft.multicasts import SeenMulticast
from implicast.casting.designs import design
from implicast.language.target import Description, Target, Term
from implicast.overlay.skip_graph import departures, members, places
from implicast.overlay.skip_graph.departures import ALL_GONE, GraphDepartures, LeaveGraph
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.members import SuspicionReport
from implicast.overlay.skip_graph.places import CertificateStore, claim
from implicast.peer import memory
from implicast.peer.contract import Message
from implicast.peer.events import Joined, Left, Notice, Registered, Settled
from implicast.peer.wire import Codec
from implicast.trials.campaign import check, scenario_of
from implicast.world.churn import Churn
from implicast.world.frozen import freeze, thaw
from implicast.world.journal import JOIN, LEAVE, REGISTER, UPKEEP
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.world import World

BFT = design("bft")
keys = import_module("implicast.world.populations.keys")
JAZZ = Description(("jazz",))
TO_JAZZ = Target((Term(has=("jazz",)),))
SECOND_US = 1_000_000


class Flat:
    def latency_us(self, a: int, b: int) -> int:
        return 20_000


class Club:
    """n members with the tag `jazz`, alive, and room for newcomers; the authority at address n."""

    def __init__(self, n: int = 12, **parameters: float | bool | str) -> None:
        self.n, self.world = n, World(Flat(), 1, codec=Codec(BFT.kinds))
        settled = BFT.settle({**BFT.trial, **parameters})
        plan = Plan(
            n, 1, settled, 1, self.world.host, self.world.latency_us, descriptions=[JAZZ] * n
        )
        self.plan = replace(plan, roles=BFT.roles(n, 1), credentials=population(BFT).credentials)
        for address, peer in enumerate(population(BFT).assemble(self.plan)):
            self.world.place(address, peer)
        for address in range(n):
            self.at(0, REGISTER, lambda address=address: self.member(address).register(JAZZ))
        self.run(1)

    def member(self, address: int) -> Bft:
        peer = self.world.peers[address]
        assert isinstance(peer, Bft)
        return peer

    def at(self, after_s: float, purpose: int, verb: object) -> None:
        self.world.at(self.world.now_us + int(after_s * SECOND_US), purpose, verb)  # type: ignore[arg-type]

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now_us + int(seconds * SECOND_US))

    def objections(self) -> list[str]:
        return population(BFT).objections(
            [self.world.peers[address] for address in sorted(self.world.peers)]
        )

    def heard(self, kind: type) -> list[tuple[int, Message]]:
        return [
            (address, event) for _, address, event in self.world.events if isinstance(event, kind)
        ]

    def listed(self, address: int) -> int:
        """In how many lists of others a peer is."""
        others = [
            self.member(each)
            for each in range(self.n)
            if each != address and each in self.world.peers
        ]
        places = [place for other in others for place in other.graph.places.held.values()]
        return sum(node.address == address for place in places for node in place.table.contacts())


def slander(club: Club, liar: int, victim: int) -> None:
    """The liar says of the victim, to everyone, that it is silent, and that it has left, signed as well as it can."""
    certificate = club.member(victim).graph.certificates()[0]
    forged = LeaveGraph(
        claim(club.member(liar).keys.signer, ALL_GONE, certificate, club.world.now_us)
    )
    for address in range(club.n):
        if address not in (liar, victim):
            for message in (SuspicionReport((victim,)), forged):
                club.at(
                    0,
                    UPKEEP,
                    lambda address=address, message=message: club.world.carry(
                        liar, address, message
                    ),
                )
    club.run(0.03)


def test_a_farewell_that_the_leaver_did_not_sign_and_accusations_remove_nobody() -> None:
    club = Club()
    before = club.listed(3)

    slander(club, liar=7, victim=3)

    assert club.listed(3) == before > 0
    assert (
        sum(
            club.member(each).graph.places.certificate_store.refusals["forged_claim"]
            for each in range(12)
        )
        == 10
    )
    club.run(30)
    assert club.objections() == []


def test_the_mistake_of_believing_farewells_of_others_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CertificateStore, "verifies_departed", lambda self, verb, said: True)
    club = Club()

    slander(club, liar=7, victim=3)
    club.run(60)

    assert any("lacks" in each for each in club.objections())


def test_the_mistake_of_removing_on_hearsay_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(self: SkipGraph, sender: int, report: SuspicionReport) -> None:
        for address in report.addresses:
            self.lose_peer(address)

    monkeypatch.setitem(
        Bft.message_handlers,
        SuspicionReport,
        lambda peer, sender, report: believe(peer.graph, sender, report),
    )
    club = Club()

    slander(club, liar=7, victim=3)

    assert club.listed(3) < 6
    assert any("lacks" in each for each in club.objections())


def test_accusations_cost_the_accused_a_probe_and_are_not_passed_on() -> None:
    club = Club()
    club.run(20)
    carried = club.world.carried

    for _ in range(5):
        slander(club, liar=7, victim=3)

    spent = club.world.carried - carried - 5 * 20
    assert spent < 5 * 2 * 11 + 40, "a ping and its answer for each hearer at most"


def test_accusers_of_the_living_are_few_and_soon_forgotten() -> None:
    """Else those who once accused somebody falsely would keep all from passing on that it is dead."""
    club = Club()
    club.run(20)
    graph = club.member(5).graph
    for liar in range(1000, 1200):
        graph.members.on_suspicion_report(liar, SuspicionReport((3,)))
    assert len(graph.members.reports[3][1]) == members.REPORTERS_ENOUGH
    assert graph.members.is_widely_reported(3)

    club.run(5)

    assert 3 not in graph.members.reports, "it answered when one looked for it"


def test_accusers_of_the_dead_count_for_a_while_only() -> None:
    club = Club()
    club.world.crash(3)
    graph = club.member(5).graph
    for liar in (7, 8, 9):
        graph.members.on_suspicion_report(liar, SuspicionReport((3,)))
    assert graph.members.is_widely_reported(3)

    club.run(members.REPORTED_US / SECOND_US + 1)

    assert not graph.members.is_widely_reported(3)


def test_when_one_of_the_lost_speaks_all_are_called() -> None:
    """The end of a partition: one word is enough."""
    club = Club()
    for address in (1, 2, 3):
        club.world.crash(address)
    club.run(members.LOST_US / SECOND_US + 120)
    graph = club.member(5).graph
    assert {1, 2, 3} <= set(graph.members.lost)
    graph.members.lost[1].probed_us = graph.members.lost[2].probed_us = (
        club.world.now_us - 30 * SECOND_US
    )

    graph.on_heard_from(3)

    now_us = club.world.now_us
    assert [graph.members.lost[each].probed_us for each in (1, 2)] == [now_us, now_us]
    assert 3 not in graph.members.lost


def test_the_long_lost_are_called_ever_more_rarely_and_forgotten_after_an_hour() -> None:
    club = Club()
    club.world.crash(3)
    club.run(60)
    lost = club.member(5).graph.members.lost[3]
    calls = []
    for _ in range(60):
        club.run(60)
        calls += [lost.probed_us] if lost.probed_us not in calls else []
    pauses = [later - sooner for sooner, later in pairwise(calls[3:])]

    assert 5 <= len(pauses) <= 12
    assert all(later > sooner for sooner, later in pairwise(pauses))
    club.run(120)
    assert 3 not in club.member(5).graph.members.lost


def test_who_crashes_is_dropped_by_all_and_casts_go_on() -> None:
    club = Club()
    club.run(10)

    club.world.crash(3)
    club.run(45)

    assert club.objections() == []
    club.at(0, 0, lambda: club.member(5).cast(TO_JAZZ, b"hello"))
    club.run(5)
    assert {address for address, _ in club.heard(Notice)} == set(range(12)) - {3}
    assert [address for address, _ in club.heard(Settled)] == [5]


def test_with_the_quick_setting_a_crash_is_repaired_within_ten_seconds() -> None:
    club = Club(**BFT.quick)
    club.run(10)

    club.world.crash(3)
    club.run(10)

    assert club.objections() == []


def test_who_slept_and_wakes_is_listed_again() -> None:
    club = Club()
    club.run(10)
    freeze(club.world, 3)
    club.run(40)
    assert club.listed(3) == 0

    thaw(club.world, 3)
    club.run(30)

    assert club.objections() == []


def ghosts_of_a_sleeper(club: Club) -> list[str]:
    """While 5 sleeps two crash whom it does not watch, and all others find out and say so."""
    club.run(10)
    freeze(club.world, 5)
    for address in (2, 9):
        club.world.crash(address)
    club.run(25)
    thaw(club.world, 5)
    club.run(30)
    return club.objections()


def test_who_slept_looks_for_all_whom_it_knows() -> None:
    assert ghosts_of_a_sleeper(Club(n=24)) == []


def test_a_newcomer_joins_registers_hears_and_leaves_without_a_trace() -> None:
    club = Club()
    newcomer = club.plan.new_member(BFT, 13)
    club.world.place(13, newcomer)
    club.at(0, JOIN, lambda: newcomer.join((1, 2)))
    club.run(5)
    assert (13, Joined()) in club.heard(Joined)
    club.at(0, REGISTER, lambda: newcomer.register(JAZZ))
    club.run(5)
    assert (13, Registered(newcomer.version)) in club.heard(Registered)
    assert club.objections() == []

    club.at(0, 0, lambda: club.member(5).cast(TO_JAZZ, b"hello"))
    club.run(2)
    assert 13 in {address for address, _ in club.heard(Notice)}
    club.at(0, LEAVE, newcomer.leave)
    club.run(20)

    assert [address for address, _ in club.heard(Left)] == [13]
    assert club.objections() == []


def lists_a_leaver_learned_of_late(club: Club) -> bool:
    """Whether a newcomer that 3 did not tell at first lists it when it has left. A dead peer keeps 3 waiting."""
    club.world.crash(7)
    newcomer = club.plan.new_member(BFT, 13)
    club.world.place(13, newcomer)
    club.at(0, LEAVE, club.member(3).leave)
    club.at(0.5, JOIN, lambda: newcomer.join((3,)))
    while not club.heard(Left):
        club.run(0.25)
    places = club.member(13).graph.places.held.values()
    return any(node.address == 3 for place in places for node in place.table.contacts())


def test_who_learns_of_a_leaver_while_it_leaves_is_told() -> None:
    assert not lists_a_leaver_learned_of_late(Club())


def test_the_mistake_of_telling_only_those_known_at_first_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GraphDepartures, "tell_latecomer", lambda self, sender: None)

    assert lists_a_leaver_learned_of_late(Club())


def test_a_newcomer_whose_introducers_are_dead_asks_the_authority_for_others() -> None:
    club = Club()
    for address in range(1, 6):
        club.world.crash(address)
    newcomer = club.plan.new_member(BFT, 13)
    club.world.place(13, newcomer)
    club.at(0, JOIN, lambda: newcomer.join((1, 2)))

    club.run(120)

    assert (13, Joined()) in club.heard(Joined)
    assert club.objections() == []


def test_certificates_are_renewed_before_they_expire() -> None:
    club = Club(validity_s=240.0)

    club.run(600)

    assert club.objections() == []
    club.at(0, 0, lambda: club.member(5).cast(TO_JAZZ, b"hello"))
    club.run(5)
    assert {address for address, _ in club.heard(Notice)} == set(range(12))
    assert all(each.until_us > club.world.now_us for each in club.member(3).graph.certificates())


def test_at_rest_a_peer_sends_no_more_than_one_message_a_second() -> None:
    club = Club(n=40)
    club.run(60)
    carried = club.world.carried

    club.run(120)

    assert (club.world.carried - carried) / 40 / 2 <= 60


def test_a_flood_of_casts_and_new_descriptions_leaves_memory_flat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables bounded by numbers have their bounds lowered, and places given up are revoked for three minutes."""
    bounds = (
        (places, "GONE_MAX"),
        (departures, "LEFT_MAX"),
        (keys, "SHARED_MAX"),
        (step_delivery, "COUNTED_MAX"),
        (digest_exchange, "REMEMBERED_MAX"),
    )
    for room, name in bounds:
        monkeypatch.setattr(room, name, 24)
    monkeypatch.setattr(memory, "HORIZON_US", 20 * SECOND_US)
    keys._laboratory.cache_clear()
    club, tags, weights = (
        Club(n=8, window_s=20, validity_s=180),
        ("blues", "jazz", "opera", "swing"),
        [],
    )
    for second in range(480):
        who, said = (
            second * 5 % 8,
            Description(tuple(sorted({tags[second % 4], tags[second * 7 % 3]}))),
        )
        club.at(second, REGISTER, lambda who=who, said=said: club.member(who).register(said))
        club.at(second + 0.5, 0, lambda who=who: club.member(who).cast(TO_JAZZ, b"hello"))
    for _ in range(2):
        club.run(240)
        weights.append(weight([club.member(each) for each in range(8)]))

    assert weights[1] < 1.2 * weights[0]


def test_a_publisher_that_nobody_answers_is_not_told_that_nobody_matched() -> None:
    club = Club(n=60)
    for address in range(1, 60):
        club.world.crash(address)
    club.at(0, 0, lambda: club.member(0).cast(Target((Term(has=("blues",)),)), b"hello"))
    club.run(90)

    assert [
        (event.notified, event.open, event.uncertain > 0) for _, event in club.heard(Settled)
    ] == [(0, 0, True)]


@pytest.mark.parametrize("number", [9, 2])
def test_scenarios_that_found_faults_are_clean(number: int) -> None:
    """9: all places of a peer in a row crash at once. 2: newcomers while a peer sleeps."""
    drawn = scenario_of(BFT, 1, number)
    drawn = replace(
        drawn, peers=20, churn=Churn.parse(MET[number]), workload="groups", workload_parameters={}
    )
    found = check(drawn)

    assert not found.reasons, found.scenario.command()


MET = {
    9: "event=0.8:leave:5,event=4..16:cut:11>16,event=12:leave:13,event=23:crash:12,event=27..31:freeze:14",
    2: "event=3:join:21,event=4..11:split:2+3,event=8:leave:2,event=10..24:freeze:11,event=11:join:22,event=12:join:23",
}


def test_who_was_lost_long_ago_is_not_listed_again_on_the_word_of_others() -> None:
    club = Club()
    ghost = club.member(3).graph.places.home.certificate
    club.world.crash(3)
    club.run(60)
    observer = club.member(4).graph
    place = observer.places.home
    assert observer.members.lost[3].nodes, "it would come back to all its places"

    club.run(members.OWED_US / SECOND_US + 200)
    assert not observer.members.lost[3].nodes, "it is hardly called any more"
    observer.search.learn_new(place, (ghost,))

    assert ghost.key not in place.known
    assert club.objections() == []


def test_a_place_with_short_lists_takes_what_a_place_beside_it_passes_on_at_its_own_top() -> None:
    club = Club()
    member = club.member(2)
    place = member.graph.places.home
    certificate, sent = place.certificate, member.multicasts
    source = sent.source(member.next_cast(), TO_JAZZ, (0,), b"", handles_of(TO_JAZZ.terms[0])[0])
    entry = SeenMulticast(source, [certificate.key])

    sent.accept(entry, certificate.key, place.table.top + 3, sent.delivery.open_coverage(source))

    assert entry.open == []
