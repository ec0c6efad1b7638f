"""Living places greet those they meet and ask after those that others do not know: ghosts do not stay."""

from collections import Counter

import pytest
from test_bft_life import Club

from implicast.casting.bft.alive import LivingBft
from implicast.language.target import Description
from implicast.overlay.skip_graph.living import LivingGraph
from implicast.overlay.skip_graph.messages import Greet
from implicast.peer.identity import Certificate
from implicast.world.journal import REGISTER


def greetings(patch: pytest.MonkeyPatch) -> Counter[tuple[int, int]]:
    """Who greets whom from now on, how often."""
    met, honest = Counter[tuple[int, int]](), LivingBft._handlers[Greet]

    def count(peer: LivingBft, sender: int, greet: Greet) -> None:
        met[sender, peer.address] += 1
        honest(peer, sender, greet)

    patch.setitem(LivingBft._handlers, Greet, count)
    return met


def name(club: Club, who: int, nodes: list[Certificate]) -> None:
    """All places of one peer hear of others, as if these had been named by a neighbour."""
    graph = club.member(who).graph
    for place in graph.places.values():
        for node in nodes:
            place.known.pop(node.key, None)
        place.trim()
    for place in graph.places.values():
        graph._take_in(place, nodes)


def test_who_was_not_heard_lately_is_greeted_and_who_was_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    club = Club()
    met = greetings(monkeypatch)
    graph = club.member(5).graph
    graph.detector._heard_us.pop(7, None)
    graph.detector._heard_us[8] = club.world.now_us

    name(club, 5, [*club.member(7).graph.certificates(), *club.member(8).graph.certificates()])
    club.run(0.5)

    assert met[5, 7] == 1, "one greeting for all places of an address"
    assert met[5, 8] == 0


def test_who_is_greeted_learns_of_the_one_who_greets() -> None:
    club = Club()
    other = club.member(7).graph
    for place in other.places.values():
        place.known = {key: node for key, node in place.known.items() if node.address != 5}
        place.trim()
    club.member(5).graph.detector._heard_us.pop(7, None)

    name(club, 5, other.certificates())
    club.run(0.5)

    assert any(node.address == 5 for place in other.places.values() for node in place.table.contacts())


def ghost_of_a_place(club: Club, who: int = 30) -> None:
    """17 gave its place of a tag up and lives on; another has not heard its farewell and lists the place anew."""
    ghosts = {place.key: place.certificate for place in club.member(17).graph.places.values()}
    club.at(0, REGISTER, lambda: club.member(17).register(Description(("opera",))))
    club.run(30)
    left = [node for key, node in ghosts.items() if key not in club.member(17).graph.places]
    graph = club.member(who).graph
    graph.belief._gone.clear()
    for place in graph.places.values():
        place.known.update({node.key: node for node in left})
        place.trim()


def test_a_place_that_its_living_holder_has_left_does_not_stay() -> None:
    club = Club(n=40, turn_s=3600.0)
    ghost_of_a_place(club)
    assert any("too many" in each for each in club.objections())

    club.run(30)

    assert club.objections() == []


def test_the_mistake_of_not_asking_after_those_unknown_to_others_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LivingGraph, "_ask_for_life", lambda self, place, doubted: None)
    club = Club(n=40, turn_s=3600.0)
    ghost_of_a_place(club)

    club.run(30)

    assert any("too many" in each for each in club.objections())
