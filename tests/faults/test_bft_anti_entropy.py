"""Neighbours of the skip graph compare lists: faults put in by hand are found by it, and nobody is removed by it."""

from collections import Counter
from dataclasses import replace

import pytest
from drawn import as_found
from test_bft_membership import Club

from implicast.casting.bft.member import Bft
from implicast.casting.designs import design
from implicast.overlay.skip_graph.agreement import ListSpan, covers, span_differences
from implicast.overlay.skip_graph.anti_entropy import (
    CompareDue,
    CompareLists,
    ListDifference,
    ListDifferences,
)
from implicast.overlay.skip_graph.departures import LeaveGraph, LeavePlace
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.members import LOST_US, PROBE_CAP_US, PROBE_US
from implicast.overlay.skip_graph.place import Place
from implicast.trials.campaign import check, scenario_of
from implicast.world.journal import UPKEEP

BFT = design("bft")


def place_of(club: Club, address: int) -> Place:
    place = club.member(address).graph.places.home
    assert place is not None
    return place


def beside(club: Club, who: int) -> int:
    """Somebody whom the home place of a peer lists."""
    level = place_of(club, who).table.levels[0]
    return int(str(level.nodes[(level.own + 1) % len(level.nodes)].address))


def forget(club: Club, who: int) -> None:
    """One place loses another as if it had never heard of it: no rule was broken, so none repairs it."""
    place = place_of(club, who)
    whom = beside(club, who)
    place.replace_known([node for node in place.known.values() if node.address != whom])


def haunt(club: Club, who: int) -> None:
    """A crash of which everybody has learned but one, who then lists it anew."""
    whom = beside(club, who)
    ghosts = [place.certificate for place in club.member(whom).graph.places.held.values()]
    club.world.crash(whom)
    club.run(40)
    graph = club.member(who).graph
    del graph.members.lost[whom]
    for place in graph.places.held.values():
        place.replace_known([*place.known.values(), *ghosts])


def no_strangers(patch: pytest.MonkeyPatch) -> None:
    """Members that the authority names once a minute are asked too, and what they say mends the home place."""
    patch.setattr(SkipGraph, "search_home_via", lambda self, peers: None)


def no_comparing(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(Bft.alarm_handlers, CompareDue, lambda self, alarm: None)


def test_whoever_is_missing_for_no_reason_is_named_by_a_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_strangers(monkeypatch)
    club = Club(n=40, turn_s=3600.0)
    forget(club, 5)
    assert any("lacks" in each for each in club.objections())

    club.run(15)

    assert club.objections() == []


@pytest.mark.parametrize(
    ("silent_us", "pause_us"), [(0, PROBE_CAP_US), (2 * LOST_US, LOST_US // 2)]
)
def test_somebody_lost_whom_a_neighbour_names_is_called_before_its_time(
    silent_us: int, pause_us: int
) -> None:
    """When a partition ended, a call or its answer got lost four times in a row; each time 17 s passed to the next, or
    half a minute where the partition had lasted for minutes."""
    club = Club(n=40, turn_s=3600.0)
    graph = club.member(5).graph
    graph.lose_peer(0)
    lost = graph.members.lost[0]
    lost.since_us -= silent_us
    lost.schedule_probe(club.world.now_us, pause_us)  # and no answer comes

    club.run(9)

    assert 0 not in graph.members.lost
    assert club.objections() == []


def test_somebody_dead_whom_others_name_all_the_time_is_called_now_and_then() -> None:
    club = Club(n=40)
    ghost = place_of(club, 0).certificate
    club.world.crash(0)
    club.run(40)
    observer = club.member(5).graph
    lost, calls = observer.members.lost[0], set[int]()
    for _ in range(40):
        observer.search.learn_new(place_of(club, 5), (ghost,))
        calls.add(lost.probed_us)
        club.run(0.5)

    assert 3 <= len(calls) <= 20 * 1_000_000 // PROBE_US + 1


def test_a_ghost_that_only_one_lists_is_looked_for() -> None:
    club = Club(n=40, turn_s=3600.0)
    haunt(club, 5)
    assert any("too many" in each for each in club.objections())

    club.run(25)

    assert club.objections() == []


@pytest.mark.parametrize("fault", [forget, haunt])
def test_the_mistake_of_not_comparing_is_seen(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two guards, each of which would do: strangers are not asked either."""
    no_comparing(monkeypatch)
    no_strangers(monkeypatch)
    club = Club(n=40, turn_s=3600.0)
    fault(club, 5)

    club.run(25)

    assert club.objections() != []


def test_a_farewell_for_one_place_does_not_hide_that_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks a leaver's home place late gets both, that for the place first: the other places stayed for ever."""
    no_comparing(monkeypatch)
    club = Club(n=40)
    graph, other = club.member(17).graph, club.member(5).graph
    home = graph.certificates()[0]
    said = [kind(graph.places.sign(kind.verb, home)) for kind in (LeavePlace, LeaveGraph)]
    for number, leave_message in enumerate(said):
        club.at(
            0.01 * number,
            UPKEEP,
            lambda leave_message=leave_message: club.world.carry(17, 5, leave_message),
        )
    club.run(0.05)

    known = [node.address for place in other.places.held.values() for node in place.known.values()]
    assert known
    assert 17 not in known


def test_a_liar_that_compares_removes_nobody_and_adds_only_who_answers() -> None:
    """It shows lists of itself alone, says that all else is unknown, and names one who has crashed."""
    club = Club()
    dead = [place.certificate for place in club.member(9).graph.places.held.values()]
    club.world.crash(9)
    club.run(40)
    before = club.listed(3)
    liar = place_of(club, 7)
    for address in (0, 1, 2, 4, 5, 6):
        place = place_of(club, address)
        shown = CompareLists((ListSpan(place.key, liar.certificate, 0, (liar.key,), full=True),))
        listed = tuple(node.key for node in place.table.contacts())
        named = ListDifferences((ListDifference(place.key, liar.key, 0, tuple(dead), listed),))
        for said in (shown, named):
            club.at(
                0, UPKEEP, lambda said=said, address=address: club.world.carry(7, address, said)
            )
    club.run(0.1)
    assert club.listed(3) == before > 0

    club.run(20)

    assert club.objections() == []


def test_a_difference_told_by_somebody_unknown_is_refused() -> None:
    club = Club()
    place, stranger = place_of(club, 5), place_of(club, 3)
    told = ListDifferences((ListDifference(place.key, stranger.key, 0, (), (stranger.key,)),))

    club.at(0, UPKEEP, lambda: club.world.carry(7, 5, told))
    club.run(0.1)

    assert club.member(5).graph.places.certificate_store.refusals["unasked_answer"] == 1


def test_lists_that_agree_are_not_compared_again() -> None:
    club = Club()
    place = place_of(club, 5)
    forget(club, 5)
    club.run(30)
    agreed = place.agreement.compared
    assert agreed is place.wide

    club.run(60)

    assert place.agreement.compared is agreed is place.wide


def test_a_neighbour_that_never_agrees_costs_a_few_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """7 says of all that others list that it does not know them, whenever it is asked."""
    shown, honest = Counter[int](), Bft.message_handlers[CompareLists]

    def deny(peer: Bft, sender: int, compare: CompareLists) -> None:
        if peer.address != 7:
            honest(peer, sender, compare)
            return
        shown[sender] += 1
        told = [
            ListDifference(span.owner.key, span.place, span.level, (), span.keys)
            for span in compare.spans
        ]
        peer.host.send(sender, ListDifferences(tuple(told)))

    monkeypatch.setitem(Bft.message_handlers, CompareLists, deny)
    club = Club(turn_s=3600.0)
    for address in range(12):
        for place in club.member(address).graph.places.held.values():
            place.wide  # noqa: B018 - not at rest any more
            place.agreement.forget()
    for place in club.member(7).graph.places.held.values():
        place.agreement.mark_all_agreed(place.wide)  # it shows nothing itself
    club.run(60)
    carried = club.world.carried

    club.run(120)

    assert 4 <= max(shown.values()) <= 2 * (4 + 180 / 20), (
        "two places each: every 20 s after the first four rounds"
    )
    assert (club.world.carried - carried) / 12 / 2 <= 120
    assert club.objections() == []


def test_only_what_both_lists_reach_is_compared() -> None:
    club = Club(n=40)
    place = place_of(club, 5)
    level = place.wide.levels[0]
    other, own = level.nodes[level.own + 1], place.certificate
    span = ListSpan(place.key, other, 0, (own.key, other.key), full=False)

    assert span_differences(place.wide, place.vectors, span) == ([], [])
    outside = next(node.key for node in level.nodes if not covers(span, node.key))
    wider = ListSpan(place.key, other, 0, (own.key, other.key), full=True)
    assert outside in [node.key for node in span_differences(place.wide, place.vectors, wider)[0]]


@pytest.mark.long
@pytest.mark.parametrize("number", [6, 8])
def test_campaign_scenarios_that_found_faults_are_clean(number: int) -> None:
    """6: a farewell and a partition. 8: one that left while others were cut off was listed again for ever."""
    found = check(as_found(scenario_of(BFT, 7001, number)))

    assert not found.reasons, found.scenario.command()


def test_places_of_one_peer_that_stand_side_by_side_know_what_the_nearest_of_them_is_told() -> None:
    """With tags of their own peers have whole stretches; others show their lists to the nearest of a stretch only."""
    drawn = as_found(scenario_of(BFT, 20001, 4))
    found = check(
        replace(drawn, workload="groups", workload_parameters={}, peers=min(48, drawn.peers))
    )

    assert not found.reasons, found.reasons
