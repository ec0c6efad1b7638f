"""Eclipse and Sybil: liars are not nearer to anybody than chance puts them, and newcomers see past them."""

from collections.abc import Callable
from random import Random

import pytest

from implicast.overlay.skip_graph.graph import SkipGraph
from implicast.overlay.skip_graph.kinds import GRAPH_KINDS
from implicast.overlay.skip_graph.members import GraphSettings
from implicast.overlay.skip_graph.search import AskNeighbours, Neighbours
from implicast.peer.authority import Authority, GrantDeclined
from implicast.peer.contract import Address, Peer
from implicast.peer.detector import DETECTOR_KINDS
from implicast.peer.identity import Certificate, Trust
from implicast.peer.name import name_of
from implicast.peer.signatures import scheme
from implicast.peer.wire import Codec
from implicast.space.vector import Vectors
from implicast.trials.bft_eclipse import eclipse_row
from implicast.world.journal import JOIN
from implicast.world.populations.assembled_graph import AssembledGraph
from implicast.world.world import World
from skip_graph_rule import rule

VECTORS = Vectors(2)


def named(seed: int, number: int) -> bytes:
    return name_of(b"%d" % seed, number)


def an_authority(places_max: int = 1) -> Authority:
    return Authority(scheme("stand-in", b"notary"), b"secret", VECTORS, places_max)


def liar_shares(n: int, k: int, f: float, seed: int) -> list[float]:
    """The share of liars in each honest peer's lists, when a fraction of the applicants collude."""
    authority = an_authority()
    liars = set(Random(seed).sample(range(n), round(f * n)))
    certificates = [
        authority.issue(named(seed, each), b"home", each, bytes(32), 0) for each in range(n)
    ]
    assembled: AssembledGraph[Certificate] = AssembledGraph(k, VECTORS, certificates)
    shares = []
    for each in sorted(set(range(n)) - liars):
        contacts = assembled.table(certificates[each].key).contacts()
        shares.append(sum(node.address in liars for node in contacts) / len(contacts))
    return shares


@pytest.mark.parametrize("f", [0.1, 0.3])
def test_the_share_of_liars_in_honest_lists_stays_near_their_share_of_the_applicants(
    f: float,
) -> None:
    shares = liar_shares(600, 4, f, seed=1)

    assert sum(shares) / len(shares) == pytest.approx(f, abs=0.02)
    chance = (f * (1 - f) / 45) ** 0.5  # a table has some 45 entries
    assert max(shares) < f + 5 * chance, "nobody is surrounded more than chance would have it"


def test_liars_who_use_all_their_places_weigh_more_and_the_limit_bounds_by_how_much() -> None:
    modest, greedy = eclipse_row(500, 4, 0.1, places_max=1), eclipse_row(500, 4, 0.1, places_max=8)

    assert float(modest["share_mean"]) == pytest.approx(0.1, abs=0.02)
    assert 0.15 < float(greedy["share_mean"]) < 0.1 * 8 / (0.1 * 8 + 0.9)


def test_an_applicant_gets_its_limit_however_often_it_asks_and_whatever_it_calls_the_realm() -> (
    None
):
    authority = an_authority(places_max=5)
    granted = 0
    for each in range(200):
        try:
            authority.issue(named(0, 1), b"realm %d" % each, 1, bytes(32), 0)
        except GrantDeclined:
            continue
        granted += 1

    assert granted == len(authority.held(named(0, 1))) == 5


def test_an_applicant_cannot_choose_its_place() -> None:
    """Wherever it asks to be, its distance to a victim and the digits it shares with it are those of chance."""
    authority = an_authority(places_max=10_000)
    victim = authority.issue(named(0, 0), b"jazz\0", 0, bytes(32), 0)
    tries = [authority.issue(named(1, each), b"jazz\0", 1, bytes(32), 0) for each in range(2_000)]
    again = [authority.issue(named(1, each), b"jazz\0", 1, bytes(32), 9) for each in range(2_000)]

    places = [[(one.key, one.vector) for one in round_] for round_ in (tries, again)]
    assert places[0] == places[1], "asking again is no draw"
    left_of_victim = sum(one.key < victim.key for one in tries) / len(tries)
    assert left_of_victim == pytest.approx(int.from_bytes(victim.key[-8:], "big") / 2**64, abs=0.05)
    for digits in (1, 2, 3, 4):
        sharing = sum(VECTORS.common(one.vector, victim.vector) >= digits for one in tries) / len(
            tries
        )
        assert sharing == pytest.approx(0.5**digits, abs=0.03)


# --- a newcomer among liars


class Inhabitant(Peer, parts={"graph": SkipGraph}):
    """A peer that is nothing but its places; a liar names only its accomplices."""

    __slots__ = ("accomplices", "graph")

    def __init__(self, graph: SkipGraph) -> None:
        super().__init__(graph.address, graph.host)
        self.graph = graph
        self.accomplices: Callable[[], list[Certificate]] | None = None

    def receive(self, sender: Address, message: object) -> None:
        self.graph.on_heard_from(sender)
        if isinstance(message, AskNeighbours) and self.accomplices is not None:
            about, best = message.claim.certificate, self.accomplices()
            best.sort(key=lambda node: (-VECTORS.common(node.vector, about.vector), node.key))
            mine = self.graph.certificates()[0].key
            self.host.send(sender, Neighbours(mine, about.key, tuple(best[:40])))
            return
        super().receive(sender, message)  # type: ignore[arg-type]


class Even:
    def latency_us(self, a: int, b: int) -> int:
        return 10_000


def newcomers(n: int, k: int, f: float, joins: int, introducers: int) -> tuple[int, int, int]:
    """Of newcomers to a network with liars: how many have whole tables, see only liars, had an honest introducer."""
    signing = scheme("stand-in", b"notary")
    authority = an_authority()
    world = World(Even(), 1, codec=Codec((*GRAPH_KINDS, *DETECTOR_KINDS)))
    rng = Random(7)
    people: list[Inhabitant] = []

    def settle(known: tuple[int, ...] | None) -> tuple[Inhabitant, Certificate]:
        address = len(people)
        signer = signing.signer(address.to_bytes(32, "big"))
        trust = Trust(signing, authority.public, VECTORS)
        graph = SkipGraph(address, world.host(address), k, VECTORS, trust, signer, GraphSettings())
        people.append(Inhabitant(graph))
        world.place(address, people[-1])
        certificate = authority.issue(
            named(0, address), b"home", address, signer.public, world.now_us
        )
        if known is not None:
            world.at(world.now_us + 1, JOIN, lambda: graph.search.take_place(certificate, known))
            world.run()
        return people[-1], certificate

    settled = [settle(None) for _ in range(n)]
    assembled = AssembledGraph(k, VECTORS, [certificate for _, certificate in settled])
    for person, certificate in settled:
        person.graph.places.add(certificate, assembled)
    liars = set(rng.sample(range(n), round(f * n)))
    for liar in liars:
        people[liar].accomplices = lambda: [
            people[each].graph.certificates()[0] for each in sorted(liars)
        ]
    whole = lucky = 0
    blind: set[int] = (
        set()
    )  # they live in a world of colluders, where nobody else can see them either
    for _ in range(joins):
        known = tuple(rng.sample(range(n), introducers))
        newcomer, _ = settle(known)
        key = newcomer.graph.certificates()[0].key
        place = newcomer.graph.places.held[key]
        everyone = [
            node
            for at, person in enumerate(people)
            for node in person.graph.certificates()[:1]
            if at not in blind or node.key in place.known
        ]  # to see one of the blind all the same is no fault
        table = place.table
        wanted = {key for keys in rule(table.owner, everyone, k, VECTORS) for key in keys} - {key}
        contacts = table.contacts()
        whole += wanted <= {node.key for node in contacts}
        if all(node.address in liars for node in contacts):
            blind.add(len(people) - 1)
        lucky += any(each not in liars for each in known)
    return whole, len(blind), lucky


@pytest.mark.parametrize("f", [0.1, 0.3])
def test_a_newcomer_with_one_honest_introducer_sees_everyone_it_must(f: float) -> None:
    whole, blind, lucky = newcomers(n=100, k=3, f=f, joins=12, introducers=3)

    assert whole == lucky
    assert blind == 12 - lucky


@pytest.mark.long
@pytest.mark.parametrize("f", [0.0, 0.1, 0.2, 0.3])
def test_a_hundred_newcomers_among_liars(f: float) -> None:
    whole, blind, lucky = newcomers(n=400, k=4, f=f, joins=100, introducers=3)

    assert whole == lucky >= 93
    assert blind == 100 - lucky
