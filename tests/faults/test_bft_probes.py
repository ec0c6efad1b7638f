"""Living places greet those they meet and ask after those that others do not know: ghosts do not stay."""

from collections import Counter

import pytest
from test_bft_anti_entropy import no_strangers
from test_bft_membership import Club

from implicast.casting.bft.member import Bft
from implicast.language.target import Description
from implicast.overlay.skip_graph.departures import DenyPlaces, denial_verb
from implicast.overlay.skip_graph.place import Place
from implicast.overlay.skip_graph.places import CLAIM_WINDOW_US, claim
from implicast.overlay.skip_graph.probes import PlaceProbes, ProbePlaces
from implicast.peer.identity import Certificate
from implicast.world.journal import REGISTER, UPKEEP


def greetings(patch: pytest.MonkeyPatch) -> Counter[tuple[int, int]]:
    """Who greets whom from now on, how often."""
    met, honest = Counter[tuple[int, int]](), Bft.message_handlers[ProbePlaces]

    def count(peer: Bft, sender: int, probe: ProbePlaces) -> None:
        met[sender, peer.address] += 1
        honest(peer, sender, probe)

    patch.setitem(Bft.message_handlers, ProbePlaces, count)
    return met


def name(club: Club, who: int, nodes: list[Certificate]) -> None:
    """All places of one peer hear of others, as if these had been named by a neighbour."""
    graph = club.member(who).graph
    for place in graph.places.held.values():
        place.replace_known([node for node in place.known.values() if node not in nodes])
    for place in graph.places.held.values():
        graph.search.learn_new(place, nodes)


def test_who_was_not_heard_lately_is_greeted_and_who_was_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    club = Club()
    met = greetings(monkeypatch)
    graph = club.member(5).graph
    graph.members.detector.last_heard_us.pop(7, None)
    graph.members.detector.last_heard_us[8] = club.world.now_us

    name(club, 5, [*club.member(7).graph.certificates(), *club.member(8).graph.certificates()])
    club.run(0.5)

    assert met[5, 7] == 1, "one greeting for all places of an address"
    assert met[5, 8] == 0


def test_who_is_greeted_learns_of_the_one_who_greets() -> None:
    club = Club()
    other = club.member(7).graph
    for place in other.places.held.values():
        place.replace_known([node for node in place.known.values() if node.address != 5])
    club.member(5).graph.members.detector.last_heard_us.pop(7, None)

    name(club, 5, other.certificates())
    club.run(0.5)

    assert any(
        node.address == 5 for place in other.places.held.values() for node in place.table.contacts()
    )


def ghost_of_a_place(club: Club, who: int = 30, forgotten: bool = False) -> None:
    """17 gave its place of a tag up and lives on; another has not heard its farewell and lists the place anew.

    It may have been so long ago that 17 has forgotten it and cannot say farewell again.
    """
    ghosts = {place.key: place.certificate for place in club.member(17).graph.places.held.values()}
    club.at(0, REGISTER, lambda: club.member(17).register(Description(("opera",))))
    club.run(30)
    left = [node for key, node in ghosts.items() if key not in club.member(17).graph.places.held]
    if forgotten:
        club.member(17).graph.departures.left.clear()
    graph = club.member(who).graph
    graph.places.certificate_store.gone.clear()
    for place in graph.places.held.values():
        place.replace_known([*place.known.values(), *left])


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_place_that_its_living_holder_has_left_does_not_stay(forgotten: bool) -> None:
    club = Club(n=40, turn_s=3600.0)
    ghost_of_a_place(club, forgotten=forgotten)
    assert any("too many" in each for each in club.objections())

    club.run(30)

    assert club.objections() == []


def test_the_mistake_of_not_asking_after_those_unknown_to_others_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PlaceProbes, "probe_disputed", lambda self, place, disputed: None)
    club = Club(n=40, turn_s=3600.0)
    ghost_of_a_place(club)

    club.run(30)

    assert any("too many" in each for each in club.objections())


def test_who_asks_for_a_place_left_long_ago_does_not_take_its_holder_for_silent() -> None:
    club = Club(n=40, turn_s=3600.0)
    ghost_of_a_place(club, forgotten=True)
    graph, holder = club.member(30).graph, club.member(17).graph
    place = next(iter(graph.places.held.values()))
    ghost = next(
        node
        for node in place.known.values()
        if node.address == 17 and node.key not in holder.places.held
    )

    graph.search.ask(place, 17, ghost.key)
    club.run(10)

    assert 17 not in graph.members.lost
    assert holder.places.certificate_store.refusals["unknown_place"] > 0
    assert ghost.key not in place.known


def test_nobody_disowns_the_place_of_another() -> None:
    club = Club(n=40)
    place = club.member(17).graph.certificates()[0]
    keys, liar, holder = (place.key,), club.member(7), club.member(17)
    old = DenyPlaces(keys, claim(holder.keys.signer, denial_verb(keys), place, club.world.now_us))
    club.run(CLAIM_WINDOW_US / 1e6 + 1)
    before, now_us = club.listed(17), club.world.now_us
    forged = DenyPlaces(keys, claim(liar.keys.signer, denial_verb(keys), place, now_us))
    its_own = DenyPlaces(
        keys, claim(liar.keys.signer, denial_verb(keys), liar.graph.certificates()[0], now_us)
    )
    for address in (each for each in range(club.n) if each not in (7, 17)):
        for sender, said in ((7, forged), (17, forged), (7, its_own), (17, its_own), (17, old)):
            club.at(
                0, UPKEEP, lambda to=address, by=sender, said=said: club.world.carry(by, to, said)
            )

    club.run(0.03)

    assert club.listed(17) == before > 0
    refusals = sum(
        (club.member(each).graph.places.certificate_store.refusals for each in range(club.n)),
        Counter[str](),
    )
    assert refusals["forged_claim"] > 0
    assert refusals["stale_claim"] > 0


def named_by(club: Club, who: int, whom: int) -> bool:
    """Whether places of one peer name another to whoever asks."""
    graph = club.member(who).graph
    requests = club.member(20).graph.certificates()[0]
    heard = graph.members.was_heard_since
    places = graph.places.held.values()
    told = [
        node
        for each in places
        for node in each.confirmed_nodes(each.neighbours_of(requests), heard)
    ]
    return any(node.address == whom for node in told)


def test_who_was_only_named_to_us_is_not_named_to_others_until_it_is_heard() -> None:
    club = Club(n=40, turn_s=3600.0)
    neighbour = club.member(5).graph.places.home.table.contacts()[0].address
    club.member(5).graph.members.detector.last_heard_us.pop(neighbour, None)
    certificates = club.member(neighbour).graph.certificates()
    assert named_by(club, 5, neighbour)

    name(club, 5, certificates)

    assert not named_by(club, 5, neighbour)
    club.run(1)
    assert named_by(club, 5, neighbour), "it was greeted and has answered"


def passed_on(club: Club) -> bool:
    """17 has died and all have forgotten it; one hears of it again. Does anybody else?

    Not from the authority, which names the dead as introducers until their lease is over: `no_strangers`."""
    ghosts, home = club.member(17).graph.certificates(), club.member(17).graph.places.home
    who = int(str(next(node.address for node in home.table.contacts() if node.address != 17)))
    club.world.crash(17)
    club.run(60)
    for address in range(club.n):
        if address != 17:
            club.member(address).graph.members.lost.pop(17, None)
            club.member(address).graph.members.detector.forget(17)
    name(club, who, ghosts)
    club.run(30)
    return any(
        17 in club.member(each).graph.members.lost
        for each in range(club.n)
        if each not in (who, 17)
    )


def test_the_dead_of_whom_one_hears_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    no_strangers(monkeypatch)
    assert not passed_on(Club(n=40))


def test_the_mistake_of_passing_hearsay_on_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    no_strangers(monkeypatch)
    monkeypatch.setattr(Place, "confirmed_nodes", lambda self, named, was_heard_since: tuple(named))
    assert passed_on(Club(n=40))
