"""Joining against witnesses, telling the every-class lists, leaving with a signed farewell: lists follow the rule."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import msgspec
import pytest

from implicast.overlay.skip_graph.belief import CLAIM_WINDOW_US
from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.messages import GONE, PRESENT, Announce, Ask, Farewell, Heard, Neighbours, claim
from implicast.overlay.skip_graph.objections import objections
from implicast.overlay.skip_graph.standing import Standing
from implicast.peer.contract import Address, Host, Peer
from implicast.peer.identity import Authority, Certificate, Trust
from implicast.peer.ledger import Ledger
from implicast.peer.signatures import Scheme, scheme
from implicast.peer.wire import Codec
from implicast.space.vector import Vectors
from implicast.world.faults import Faults, FaultStream
from implicast.world.journal import JOIN
from implicast.world.world import World

VECTORS = Vectors(2)
KINDS = (Ask, Neighbours, Announce, Heard, Farewell)


class Inhabitant(Peer, parts={"graph": SkipGraph}):
    """A peer that is nothing but its places."""

    __slots__ = ("graph",)

    def __init__(self, graph: SkipGraph) -> None:
        super().__init__(graph.address, graph.host)
        self.graph = graph


class Even:
    """Every message takes between 5 and 20 ms, by its ends."""

    def latency_us(self, a: int, b: int) -> int:
        return 5_000 + (a * 7919 + b * 104_729) % 15_000


class Town:
    """A world of inhabitants and the authority that gave them their places."""

    def __init__(self, k: int = 3, faults: Faults | None = None, signatures: str = "stand-in", seed: int = 1) -> None:
        self.k = k
        self.scheme: Scheme = scheme(signatures, b"notary")
        self.authority = Authority(self.scheme, b"secret", VECTORS)
        self.world = World(Even(), seed, faults=FaultStream(faults, seed) if faults else None, codec=Codec(KINDS))
        self.people: list[Inhabitant] = []
        self.arrived: list[bytes] = []
        self.rng = Random(seed)

    def inhabitant(self, host: Host | None = None, standing: Standing[Certificate] | None = None) -> Inhabitant:
        address = len(self.people)
        signer = self.scheme.signer(address.to_bytes(32, "big"))
        trust = Trust(self.scheme, self.authority.public, VECTORS)
        graph = SkipGraph(address, host or self.world.host(address), self.k, VECTORS, trust, signer, standing)
        self.people.append(Inhabitant(graph))
        self.world.place(address, self.people[-1])
        return self.people[-1]

    def certificate(self, person: Inhabitant, realm: bytes = b"home") -> Certificate:
        public = person.graph._signer.public
        return self.authority.issue(str(person.address), realm, person.address, public, self.world.now_us)

    def move_in(self, person: Inhabitant, introducers: tuple[Address, ...], realm: bytes = b"home") -> None:
        certificate = self.certificate(person, realm)
        person.graph.take(certificate, introducers, lambda: self.arrived.append(certificate.key))

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

    def arrived_at(self, person: Inhabitant) -> bool:
        return any(key in self.arrived for key in person.graph.places)

    def leave(self, people: Sequence[Inhabitant]) -> None:
        for person in people:
            for key in list(person.graph.places):
                self.do(partial(person.graph.quit, key))

    def objections(self) -> list[str]:
        graphs = [(person.graph, key) for person in self.people for key in person.graph.places]
        return objections([graph.table(key) for graph, key in graphs], self.k, VECTORS)


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
        town.world.run()

    assert town.objections() == []


def test_neighbours_who_leave_at_once_are_missed_nowhere() -> None:
    town = Town(3)
    town.grow(40, spacing_us=10_000_000)
    in_order = sorted(town.people, key=lambda person: next(iter(person.graph.places)))

    town.leave(in_order[10:13])
    town.world.run()

    assert town.objections() == []


def test_loss_and_repeats_delay_a_join_and_do_not_spoil_it() -> None:
    town = Town(3, Faults(loss=0.05, duplicate=0.05, reorder=0.1))

    town.grow(30, spacing_us=30_000_000, introducers=3)

    assert len(town.arrived) == 30
    assert len(town.objections()) <= 2, "a question lost twice may leave one entry unknown to one list"


def test_a_join_asks_about_two_tables_and_tells_the_rest() -> None:
    town = Town(4)
    standing: Standing[Certificate] = Standing(4, VECTORS)
    for _ in range(400):
        person = town.inhabitant(standing=standing)
        person.graph.take(town.certificate(person), (), lambda: None)
    for person in town.people:
        person.graph.detach()
    before = town.world.carried
    newcomer = town.inhabitant()
    town.do(partial(town.move_in, newcomer, (3, 77, 200)))

    town.world.run()

    place = next(iter(newcomer.graph.places.values()))
    assert 40 <= len(place.asked) <= 130
    assert town.world.carried - before <= 2 * 130 + 2 * 60
    assert town.objections() == []


# --- one peer among strangers


def a_witness() -> tuple[Town, Inhabitant, Ledger]:
    town, ledger = Town(3), Ledger(now_us=100)
    witness = town.inhabitant(host=ledger)
    town.move_in(witness, ())
    ledger.take()
    return town, witness, ledger


def a_stranger(town: Town) -> Inhabitant:
    return town.inhabitant(host=Ledger())


def test_who_is_asked_enters_the_newcomer_and_answers_with_itself() -> None:
    town, witness, ledger = a_witness()
    stranger = a_stranger(town)
    certificate = town.certificate(stranger)

    witness.receive(1, Ask(b"", claim(stranger.graph._signer, PRESENT, certificate, 100)))

    mine = witness.graph.certificates()[0]
    assert ledger.sent() == [(1, Neighbours(mine.key, certificate.key, (mine,)))]
    assert witness.graph.table(mine.key).contacts() == [certificate]


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
    town, witness, ledger = a_witness()
    stranger = a_stranger(town)
    said = claim(stranger.graph._signer, PRESENT, town.certificate(stranger), 100)

    witness.receive(1, Announce(spoil(said)))  # type: ignore[operator]

    assert witness.graph.belief.refusals == {counter: 1}
    assert ledger.sent() == []
    assert witness.graph.table(witness.graph.certificates()[0].key).contacts() == []


def test_a_recorded_claim_proves_nothing_later() -> None:
    town, witness, ledger = a_witness()
    stranger = a_stranger(town)
    said = claim(stranger.graph._signer, PRESENT, town.certificate(stranger), 100)
    ledger.now_us += CLAIM_WINDOW_US + 1

    witness.receive(1, Announce(said))

    assert witness.graph.belief.refusals == {"stale_claim": 1}


def test_a_question_cannot_be_turned_into_a_farewell_and_the_departed_are_not_brought_back() -> None:
    town, witness, _ = a_witness()
    stranger = a_stranger(town)
    certificate = town.certificate(stranger)
    present = claim(stranger.graph._signer, PRESENT, certificate, 100)
    mine = witness.graph.certificates()[0].key
    witness.receive(1, Announce(present))

    witness.receive(2, Farewell(present))
    assert witness.graph.belief.refusals == {"forged_claim": 1}
    assert witness.graph.table(mine).contacts() == [certificate]

    witness.receive(1, Farewell(claim(stranger.graph._signer, GONE, certificate, 100)))
    assert witness.graph.table(mine).contacts() == []
    witness.receive(2, Announce(present))
    assert witness.graph.belief.refusals["departed"] == 1
    assert witness.graph.table(mine).contacts() == []


def test_an_answer_nobody_asked_for_is_counted_and_dropped() -> None:
    town, witness, _ = a_witness()
    stranger = town.certificate(a_stranger(town))
    mine = witness.graph.certificates()[0].key

    witness.receive(1, Neighbours(stranger.key, mine, (stranger,)))

    assert witness.graph.belief.refusals == {"unasked_answer": 1}
    assert witness.graph.table(mine).contacts() == []


def test_only_certified_neighbours_are_taken_from_an_answer() -> None:
    town, _, ledger = a_witness()
    strangers = [town.certificate(a_stranger(town)) for _ in range(3)]
    invented = msgspec.structs.replace(strangers[0], key=b"homeXXXXXXXX")
    newcomer = town.inhabitant(host=ledger)
    town.move_in(newcomer, (1,))
    mine = newcomer.graph.certificates()[0].key

    newcomer.receive(1, Neighbours(strangers[0].key, mine, (strangers[0], invented, strangers[1])))

    assert newcomer.graph.belief.refusals == {"forged_certificate": 1}
    assert set(newcomer.graph.places[mine].known) == {strangers[0].key, strangers[1].key}


# --- crashes and gaps


def fresh_town(people: int, k: int = 3) -> Town:
    town = Town(k)
    town.grow(people, spacing_us=10_000_000)
    for person in town.people:
        person.graph.keep_fresh(1_000_000)
    return town


def living(town: Town) -> list[str]:
    alive = [person for person in town.people if person.address in town.world.peers]
    graphs = [(person.graph, key) for person in alive for key in person.graph.places]
    return objections([graph.table(key) for graph, key in graphs], town.k, VECTORS)


def test_who_crashes_is_dropped_by_all_within_a_turn_of_their_lists() -> None:
    town = fresh_town(40)
    for address in (3, 14, 15, 29):
        town.world.crash(address)
    assert living(town) != []

    town.world.run(town.world.now_us + 120_000_000)

    assert living(town) == []


def test_neighbours_that_crash_together_are_dropped_too() -> None:
    town = fresh_town(40)
    in_order = sorted(town.people, key=lambda person: next(iter(person.graph.places)))
    for person in in_order[20:24]:
        town.world.crash(int(str(person.address)))

    town.world.run(town.world.now_us + 180_000_000)

    assert living(town) == []


def test_an_entry_that_is_missing_somewhere_is_learned_from_others() -> None:
    town = fresh_town(40)
    place = next(iter(town.people[5].graph.places.values()))
    forgotten = place.table.levels[0].nodes[0]
    place.surround([node for node in place.known.values() if node.key != forgotten.key])
    assert living(town) != []

    town.world.run(town.world.now_us + 60_000_000)

    assert living(town) == []


def test_who_was_silent_and_speaks_again_is_forgiven() -> None:
    town, witness, _ = a_witness()
    stranger = a_stranger(town)
    certificate = town.certificate(stranger)
    witness.receive(1, Announce(claim(stranger.graph._signer, PRESENT, certificate, 100)))
    place = next(iter(witness.graph.places.values()))
    witness.graph._fell_silent(place, certificate.key)
    assert certificate.key not in place.known
    place.settle()

    spoken = claim(stranger.graph._signer, PRESENT, certificate, 100)
    witness.receive(2, Announce(msgspec.structs.replace(spoken, signature=bytes(64))))
    assert certificate.key not in place.known, "only its own voice counts"
    witness.receive(1, Announce(claim(stranger.graph._signer, PRESENT, certificate, 101)))

    assert certificate.key in place.known
