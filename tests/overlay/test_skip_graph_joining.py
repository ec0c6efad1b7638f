"""Joining against witnesses, telling the every-class lists, leaving with a signed farewell: lists follow the rule."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec
import pytest

from implicast.overlay.skip_graph.departures import GONE, LeavePlace
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.kinds import GRAPH_KINDS
from implicast.overlay.skip_graph.members import GraphSettings
from implicast.overlay.skip_graph.places import CLAIM_WINDOW_US, PRESENT, claim
from implicast.overlay.skip_graph.search import AnnouncePlace, AskNeighbours, Neighbours
from implicast.peer.authority import Authority
from implicast.peer.contract import Address, Host, Message, Peer
from implicast.peer.detector import DETECTOR_KINDS
from implicast.peer.identity import Certificate, Trust
from implicast.peer.ledger import Ledger
from implicast.peer.name import name_of
from implicast.peer.signatures import Scheme, Signer, scheme
from implicast.peer.wire import Codec
from implicast.space.vector import Vectors
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import JOIN
from implicast.world.populations.assembled_graph import AssembledGraph
from implicast.world.world import World
from skip_graph_rule import objections

VECTORS = Vectors(2)
KINDS = (*GRAPH_KINDS, *DETECTOR_KINDS)


COMPARING_US = 60_000_000


class Inhabitant(Peer, parts={"graph": SkipGraph}):
    """A peer that is nothing but its places."""

    __slots__ = ("graph",)

    def __init__(self, graph: SkipGraph) -> None:
        super().__init__(graph.address, graph.host)
        self.graph = graph

    @property
    def signer(self) -> Signer:
        return self.graph.places.signer

    def receive(self, sender: Address, message: Message) -> None:
        self.graph.on_heard_from(sender)
        super().receive(sender, message)


class Even:
    """Every message takes between 5 and 20 ms, by its ends."""

    def latency_us(self, a: int, b: int) -> int:
        return 5_000 + (a * 7919 + b * 104_729) % 15_000


class Town:
    """A world of inhabitants and the authority that gave them their places."""

    def __init__(
        self, k: int = 3, faults: Faults | None = None, signatures: str = "stand-in", seed: int = 1
    ) -> None:
        self.k = k
        self.scheme: Scheme = scheme(signatures, b"notary")
        self.authority = Authority(self.scheme, b"secret", VECTORS)
        self.world = World(
            Even(), seed, faults=FaultStream(faults, seed) if faults else None, codec=Codec(KINDS)
        )
        self.people: list[Inhabitant] = []
        self.arrived: list[bytes] = []
        self.rng = Random(seed)

    def inhabitant(self, host: Host | None = None) -> Inhabitant:
        address = len(self.people)
        signer = self.scheme.signer(address.to_bytes(32, "big"))
        trust = Trust(self.scheme, self.authority.public, VECTORS)
        host = host or self.world.host(address)
        graph = SkipGraph(
            address, host, self.k, VECTORS, trust, signer, GraphSettings(), self.arrived.append
        )
        self.people.append(Inhabitant(graph))
        self.world.place(address, self.people[-1])
        return self.people[-1]

    def certificate(self, person: Inhabitant, realm: bytes = b"home") -> Certificate:
        name, public = name_of(b"", int(str(person.address))), person.signer.public
        return self.authority.issue(name, realm, person.address, public, self.world.now_us)

    def move_in(
        self, person: Inhabitant, introducers: tuple[Address, ...], realm: bytes = b"home"
    ) -> None:
        person.graph.search.take_place(self.certificate(person, realm), introducers)

    def do(self, verb: Callable[[], object], then_us: int = 0) -> None:
        self.world.at(self.world.now_us + 1, JOIN, verb)
        self.world.run(self.world.now_us + 1 + then_us)

    def grow(self, count: int, spacing_us: int, introducers: int = 2) -> None:
        """Newcomers, each introduced by some of those who have arrived."""
        for _ in range(count):
            arrived = [person.address for person in self.people if self.arrived_at(person)]
            person = self.inhabitant()
            known = tuple(self.rng.sample(arrived, min(introducers, len(arrived))))
            self.do(partial(self.move_in, person, known), spacing_us)
        self.world.run()

    def rest(self) -> None:
        """Until all is quiet, and lists that changed were compared for a while."""
        self.world.run()
        self.world.run(self.world.now_us + COMPARING_US)

    def arrived_at(self, person: Inhabitant) -> bool:
        return any(key in self.arrived for key in person.graph.places.held)

    def leave(self, people: Sequence[Inhabitant]) -> None:
        for person in people:
            for key in list(person.graph.places.held):
                self.do(partial(person.graph.departures.leave_place, key))

    def objections(self) -> list[str]:
        graphs = [(person.graph, key) for person in self.people for key in person.graph.places.held]
        return objections([graph.places.held[key].table for graph, key in graphs], self.k, VECTORS)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_town_grown_one_by_one_is_the_assembled_one(k: int) -> None:
    town = Town(k)

    town.grow(50, spacing_us=30_000_000)

    assert town.objections() == []
    assert len(town.arrived) == 50


def test_joining_with_real_signatures_is_the_same() -> None:
    town = Town(3, signatures="ed25519")

    town.grow(20, spacing_us=10_000_000)

    assert town.objections() == []


@pytest.mark.parametrize("spacing_us", [0, 2_000, 20_000])
def test_many_who_join_at_once_find_each_other(spacing_us: int) -> None:
    town = Town(3)
    town.grow(10, spacing_us=10_000_000)

    town.grow(30, spacing_us=spacing_us)

    assert len(town.arrived) == 40
    assert town.objections() == []


def test_several_places_at_one_address_are_several_nodes() -> None:
    town = Town(3)
    town.grow(15, spacing_us=10_000_000)
    for person in town.people[:10]:
        for realm in (b"jazz", b"opera", b"samba"):
            town.do(partial(town.move_in, person, (), realm))
        town.world.run()

    assert len(town.arrived) == 45
    assert town.objections() == []


def test_who_leaves_is_missed_nowhere() -> None:
    town = Town(3)
    town.grow(50, spacing_us=10_000_000)

    for person in town.people[::4]:
        town.leave([person])
        town.rest()

    assert town.objections() == []


def test_neighbours_who_leave_at_once_are_missed_nowhere() -> None:
    town = Town(3)
    town.grow(40, spacing_us=10_000_000)
    in_order = sorted(town.people, key=lambda person: next(iter(person.graph.places.held)))

    town.leave(in_order[10:13])
    town.rest()

    assert town.objections() == []


def test_loss_and_repeats_delay_a_join_and_do_not_spoil_it() -> None:
    town = Town(3, Faults(loss=0.05, duplicate=0.05, reorder=0.1))

    town.grow(30, spacing_us=30_000_000, introducers=3)
    town.rest()

    assert len(town.arrived) == 30
    assert town.objections() == []


def test_a_join_asks_about_two_tables_and_tells_the_rest() -> None:
    town = Town(4)
    people = [town.inhabitant() for _ in range(400)]
    certificates = [town.certificate(person) for person in people]
    assembled = AssembledGraph(4, VECTORS, certificates)
    for person, certificate in zip(people, certificates, strict=True):
        person.graph.places.add(certificate, assembled)
    before = town.world.carried
    newcomer = town.inhabitant()
    town.do(partial(town.move_in, newcomer, (3, 77, 200)))

    town.world.run()

    place = newcomer.graph.places.home
    assert place is not None
    assert 40 <= len(place.asked) <= 130
    assert town.world.carried - before <= 2 * 130 + 2 * 60
    assert town.objections() == []
    touched = sum(
        place.assembled is None for person in people for place in person.graph.places.held.values()
    )
    assert touched <= 130 + 60, "the others are as they were assembled"


# --- one peer among strangers


def a_witness() -> tuple[Town, Inhabitant, Ledger]:
    town, ledger = Town(3), Ledger(now_us=100)
    observer = town.inhabitant(host=ledger)
    town.move_in(observer, ())
    ledger.take()
    return town, observer, ledger


def a_stranger(town: Town) -> Inhabitant:
    return town.inhabitant(host=Ledger())


def test_who_is_asked_enters_the_newcomer_and_answers_with_itself() -> None:
    town, observer, ledger = a_witness()
    stranger = a_stranger(town)
    certificate = town.certificate(stranger)

    observer.receive(1, AskNeighbours(b"", claim(stranger.signer, PRESENT, certificate, 100)))

    mine = observer.graph.certificates()[0]
    assert ledger.sent() == [(1, Neighbours(mine.key, certificate.key, (mine,)))]
    assert observer.graph.places.held[mine.key].table.contacts() == [certificate]


@pytest.mark.parametrize(
    ("spoil", "counter"),
    [
        (lambda said: msgspec.structs.replace(said, sent_us=99), "forged_claim"),
        (lambda said: msgspec.structs.replace(said, signature=bytes(64)), "forged_claim"),
        (
            lambda said: msgspec.structs.replace(
                said, certificate=msgspec.structs.replace(said.certificate, key=b"home, sweet home")
            ),
            "forged_certificate",
        ),
    ],
)
def test_a_claim_that_is_not_the_claimants_own_enters_nobody(spoil: object, counter: str) -> None:
    town, observer, ledger = a_witness()
    stranger = a_stranger(town)
    said = claim(stranger.signer, PRESENT, town.certificate(stranger), 100)

    observer.receive(1, AnnouncePlace(spoil(said)))  # type: ignore[operator]

    assert observer.graph.places.certificate_store.refusals == {counter: 1}
    assert ledger.sent() == []
    assert observer.graph.places.held[observer.graph.certificates()[0].key].table.contacts() == []


def test_a_recorded_claim_proves_nothing_later() -> None:
    town, observer, ledger = a_witness()
    stranger = a_stranger(town)
    said = claim(stranger.signer, PRESENT, town.certificate(stranger), 100)
    ledger.now_us += CLAIM_WINDOW_US + 1

    observer.receive(1, AnnouncePlace(said))

    assert observer.graph.places.certificate_store.refusals == {"stale_claim": 1}


def test_a_question_cannot_be_turned_into_a_farewell_and_the_departed_are_not_brought_back() -> (
    None
):
    town, observer, _ = a_witness()
    stranger = a_stranger(town)
    certificate = town.certificate(stranger)
    present = claim(stranger.signer, PRESENT, certificate, 100)
    mine = observer.graph.certificates()[0].key
    observer.receive(1, AnnouncePlace(present))

    observer.receive(2, LeavePlace(present))
    assert observer.graph.places.certificate_store.refusals == {"forged_claim": 1}
    assert observer.graph.places.held[mine].table.contacts() == [certificate]

    observer.receive(1, LeavePlace(claim(stranger.signer, GONE, certificate, 100)))
    assert observer.graph.places.held[mine].table.contacts() == []
    observer.receive(2, AnnouncePlace(present))
    assert observer.graph.places.certificate_store.refusals["departed"] == 1
    assert observer.graph.places.held[mine].table.contacts() == []


def test_an_answer_nobody_asked_for_is_counted_and_dropped() -> None:
    town, observer, _ = a_witness()
    stranger = town.certificate(a_stranger(town))
    mine = observer.graph.certificates()[0].key

    observer.receive(1, Neighbours(stranger.key, mine, (stranger,)))

    assert observer.graph.places.certificate_store.refusals == {"unasked_answer": 1}
    assert observer.graph.places.held[mine].table.contacts() == []


def test_only_certified_neighbours_are_taken_from_an_answer() -> None:
    town, _, ledger = a_witness()
    strangers = [town.certificate(a_stranger(town)) for _ in range(3)]
    invented = msgspec.structs.replace(strangers[0], key=b"homeXXXXXXXX")
    newcomer = town.inhabitant(host=ledger)
    town.move_in(newcomer, (1,))
    mine = newcomer.graph.certificates()[0].key

    newcomer.receive(1, Neighbours(strangers[0].key, mine, (strangers[0], invented, strangers[1])))

    assert newcomer.graph.places.certificate_store.refusals == {"forged_certificate": 1}
    assert set(newcomer.graph.places.held[mine].known) == {strangers[0].key, strangers[1].key}


def test_an_answer_from_another_than_who_was_asked_is_refused() -> None:
    town, _, ledger = a_witness()
    strangers = [town.certificate(a_stranger(town)) for _ in range(2)]
    newcomer = town.inhabitant(host=ledger)
    town.move_in(newcomer, (1,))
    mine = newcomer.graph.certificates()[0].key

    newcomer.receive(2, Neighbours(strangers[0].key, mine, tuple(strangers)))

    assert newcomer.graph.places.certificate_store.refusals == {"unasked_answer": 1}
    assert newcomer.graph.places.held[mine].known == {}
