"""SPICE: homes and roots, registries that close, replicas, and contract-clean small worlds of every kind."""

from collections.abc import Callable
from math import pi
from random import Random

import pytest

from implicast.casting.designs import design
from implicast.casting.spice.homes import address_of, home, nearest_root, roots_of, spot_of
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.stores import Stores
from implicast.language.parse import parse
from implicast.language.target import Description
from implicast.peer.events import Notice, Registered, Withdrawn
from implicast.peer.name import name_of, version_of
from implicast.peer.wire import Codec
from implicast.space.morton import BITS, code, place, side
from implicast.space.surface import Surface
from implicast.space.tract import container, contains, scale_within, within
from implicast.world.journal import REGISTER
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.populations.spice import level_for, levels_for
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate
from implicast.world.world import World


class Village:
    """A small assembled world to be played by hand."""

    def __init__(
        self,
        peers: int = 32,
        name: str = "spice-unloaded",
        casts: tuple[str, ...] = (),
        **given: object,
    ) -> None:
        found = design(name)
        network = build("flat", hosts=peers, infrastructure=0, seed=1)
        self.world = World(network, 1, codec=Codec(found.kinds))
        targets = tuple(parse(text) for text in casts)
        given = {"assurance": "none", "replication": "beforehand", "collect_ms": 20, **given}
        if name == "spice":
            given = {"assurance": "none"}
        parameters = found.settle(given)  # type: ignore[arg-type]
        plan = Plan(peers, 0, parameters, 1, self.world.host, network.latency_us, targets)
        self.peers = [each for each in population(found).assemble(plan) if isinstance(each, Spice)]
        for address, peer in enumerate(self.peers):
            self.world.place(address, peer)

    def do(self, verb: Callable[[], object]) -> None:
        self.world.at(self.world.now_us, REGISTER, verb)
        self.world.run()

    def register(self, peer: int, *tags: str) -> None:
        self.do(lambda: self.peers[peer].register(Description(tuple(sorted(tags)))))

    def cast(self, publisher: int, text: str) -> list[int]:
        """Who hears of it, in order."""
        self.world.events.clear()
        self.do(lambda: self.peers[publisher].cast(parse(text), b""))
        return sorted(
            address for _, address, event in self.world.events if isinstance(event, Notice)
        )


def test_the_home_at_the_next_notch_lies_in_the_scaled_extent_of_the_home_below() -> None:
    rng = Random(1)
    for _ in range(300):
        dimensions, root, spot = (
            rng.choice((2, 3, 4, 5, 6)),
            rng.getrandbits(BITS),
            rng.getrandbits(BITS),
        )
        notch = rng.randrange(BITS // dimensions)
        below, above = (home(root, each, spot, dimensions) for each in (notch, notch + 1))
        scaled = scale_within((below, below + 1), root, notch, dimensions)
        assert contains(scaled, above)
        assert contains(container(root, notch, dimensions), below)


def test_homes_of_replicas_whose_containers_coincide_differ() -> None:
    one, other = roots_of(address_of("jazz"), 1, 3)[:2]
    spots = [spot_of(name_of(b"", peer), "jazz") for peer in range(64)]
    whole = BITS // 3

    assert sum(home(one, whole, spot, 3) == home(other, whole, spot, 3) for spot in spots) == 0


def test_level_one_replaces_the_first_digit() -> None:
    """Fig. 8.3: level 1 of 210 is *10."""
    plane = Surface(2)

    roots = roots_of(plane.extent("210")[0], 1, 2)

    assert [plane.address(root, 3) for root in roots] == ["010", "110", "210", "310"]


def test_every_level_contains_the_levels_below() -> None:
    address = address_of("jazz")
    levels = [set(roots_of(address, level, 3)) for level in range(4)]

    assert [len(each) for each in levels] == [1, 8, 64, 512]
    assert levels[0] < levels[1] < levels[2] < levels[3]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_nearest_root_is_the_nearest_of_all(dimensions: int) -> None:
    rng, whole = Random(2), 2 * side(dimensions)
    for _ in range(50):
        address, level = rng.getrandbits(BITS), rng.randrange(1, 4)
        centre = tuple(rng.randrange(whole) for _ in range(dimensions))

        def away(root: int, centre: tuple[int, ...] = centre) -> int:
            gaps = [
                abs(2 * there - here)
                for there, here in zip(place(root, dimensions), centre, strict=True)
            ]
            return sum(min(gap, whole - gap) ** 2 for gap in gaps)

        nearest = nearest_root(address, level, centre)

        assert nearest in roots_of(address, level, dimensions)
        assert away(nearest) == min(away(root) for root in roots_of(address, level, dimensions))
    assert code(place(address, dimensions)) == address


def test_levels_follow_the_equation() -> None:
    """Equation 8.2; section 8.4.1: 0.005 casts a second at one cast a second is level 3 on three dimensions."""
    assert level_for(1.0, 0.005, 3) == 3
    assert level_for(1.0, 2.56, 3) == 0
    assert [level_for(8.0**level, 1.0, 3) for level in range(4)] == [0, 1, 2, 3]
    assert level_for(8.001, 1.0, 3) == 2


def test_levels_are_computed_from_the_casts_to_come() -> None:
    targets = [parse("jazz")] * 50 + [parse("chess & opera")] * 10 + [parse("tango")]

    assert levels_for(targets, 1_000_000, 0.1, 3) == {"jazz": 2, "chess": 1}


def test_a_short_run_is_not_a_busy_one() -> None:
    """Two casts in sixteen seconds are an eighth a second; over the time in which rates are measured they are few."""
    targets = [parse("jazz")] * 2 + [parse("tango")] * 14

    assert levels_for(targets, 1_000_000, 0.0125, 3) == {"jazz": 2, "tango": 3}
    assert levels_for(targets, 1_000_000, 0.0125, 3, window_us=640_000_000) == {"tango": 1}


def test_a_consumer_that_two_terms_select_is_notified_once() -> None:
    village = Village()
    village.register(3, "jazz", "samba")
    village.register(4, "samba")

    assert village.cast(9, "samba | jazz") == [3, 4]


def test_a_registry_over_the_limit_spreads_and_every_member_is_still_found() -> None:
    village = Village(64, storage_limit=4, frequency_limit=0.0)
    for peer in range(60):
        village.register(peer, "jazz", f"own{peer}")

    shares = [
        len(reg.records)
        for peer in village.peers
        for key, reg in peer.registries.by_key.items()
        if key[0] == "jazz"
    ]
    closed = [
        key
        for peer in village.peers
        for key, reg in peer.registries.by_key.items()
        if key[0] == "jazz" and reg.closed
    ]

    assert sum(shares) == 60
    assert closed
    assert sum(share > 0 for share in shares) >= 10
    assert village.cast(63, "jazz") == list(range(60))
    assert village.cast(1, "jazz & own17") == [17]


def test_later_records_go_past_what_is_known_to_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    village = Village(64, storage_limit=2, frequency_limit=0.0)
    for peer in range(50):
        village.register(peer, "jazz")
    registries = [
        (peer, *each) for peer in village.peers for each in peer.registries.by_key.items()
    ]
    whole = {(key, peer.address): container(key[1], key[2], 3) for peer, key, _ in registries}
    shut = {
        (key[2], peer.address)
        for peer, key, each in registries
        if key[0] == "jazz"
        and each.closed
        and not within(whole[key, peer.address], peer.surface.committed)
    }
    taken = set()
    store_entries = Stores.store_entries

    def noting(self: Stores, tag: str, root: int, notch: int, *rest: object) -> None:
        taken.add((notch, self.address))
        store_entries(self, tag, root, notch, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Stores, "store_entries", noting)
    for number in range(50, 60):
        village.register(number, "jazz")

    assert shut, "parts above the root are closed"
    assert not taken & shut
    assert village.cast(63, "jazz") == list(range(60))


def test_every_replica_answers_alone() -> None:
    """A tag cast often is replicated: casts from everywhere find all members, and not all at the same peer."""
    village = Village(64, casts=("jazz",) * 20, frequency_limit=0.2, storage_limit=1000)
    for peer in range(20):
        village.register(peer, "jazz")

    roots = [
        key
        for peer in village.peers
        for key in peer.registries.by_key
        if key[0] == "jazz" and key[2] == 0
    ]

    assert len(roots) == 8
    for publisher in (0, 21, 42, 63):
        assert village.cast(publisher, "jazz") == list(range(20))


def test_a_root_that_is_cast_to_too_often_has_its_level_raised() -> None:
    village = Village(
        64, frequency_limit=0.1, storage_limit=3, replication="live", deepest_level=1, rate_s=10.0
    )
    for peer in range(20):
        village.register(peer, "jazz", "chess")
    for publisher in range(40):
        assert village.cast(publisher, "jazz") == list(range(20))
        village.world.run(village.world.now_us + 1_000_000)
    village.register(30, "jazz")

    roots = roots_of(address_of("jazz"), 1, 3)
    ready = [
        root
        for root in roots
        for peer in village.peers
        if peer.surface.answers(root) and peer.levels.is_ready("jazz", root)
    ]

    assert ready == roots
    assert len([peer for peer in village.peers if peer.registries.local_roots.get("chess")]) == 1
    for publisher in (0, 21, 42, 63):
        assert village.cast(publisher, "jazz") == [*range(20), 30]


def test_a_tag_that_is_cast_seldom_stays_as_it_is() -> None:
    village = Village(64, frequency_limit=0.1, storage_limit=3, replication="live")
    village.register(1, "jazz")
    for publisher in range(40):
        village.cast(publisher, "jazz")
        village.world.run(village.world.now_us + 11_000_000)

    assert not any(peer.levels.headers for peer in village.peers)


def test_changing_and_withdrawing_take_effect_everywhere() -> None:
    village = Village(32, casts=("jazz",) * 9, frequency_limit=0.2, storage_limit=2)
    for peer in range(12):
        village.register(peer, "jazz", "chess")
    village.register(5, "chess", "opera")
    village.do(village.peers[6].withdraw)

    assert [type(event) for _, address, event in village.world.events if address == 6] == [
        Registered,
        Withdrawn,
    ]
    assert village.cast(20, "jazz") == [each for each in range(12) if each not in (5, 6)]
    assert village.cast(20, "opera | jazz & chess") == [each for each in range(12) if each != 6]


def test_registration_is_confirmed_once_per_version() -> None:
    village = Village(32, storage_limit=2)
    for peer in range(10):
        village.register(peer, "jazz")
    village.do(
        lambda: [village.peers[3].register(Description((tag,))) for tag in ("chess", "opera")]
    )

    versions = [
        event.version
        for _, address, event in village.world.events
        if address == 3 and isinstance(event, Registered)
    ]
    incarnation = village.peers[3].incarnation
    assert versions == [version_of(incarnation, 1), version_of(incarnation, 3)]
    assert village.cast(9, "chess") == []
    assert village.cast(9, "opera") == [3]


def test_a_peer_without_tags_is_registered_at_once_and_never_selected() -> None:
    village = Village()
    village.register(3)

    assert any(
        isinstance(event, Registered) for _, address, event in village.world.events if address == 3
    )
    assert village.cast(1, "jazz") == []


def small_world(seed: int) -> Scenario:
    rng = Random(seed)
    return Scenario(
        design=rng.choice(("spice", "spice-unloaded", "spice-unloaded", "spice-unloaded")),
        peers=rng.randrange(1, 150),
        casts=rng.randrange(1, 40),
        seed=seed,
        workload=rng.choice(("zipf", "zipf", "extreme", "groups")),
        start=rng.choice(("assembled", "assembled", "joined")),
        changes=rng.choice((0, 0, 10)),
        strict=rng.random() < 0.5,
        network=rng.choice(("flat", "national")),
    )


def clean(seed: int) -> None:
    rng, world = Random(seed), small_world(seed)
    parameters = {
        "dimensions": rng.randrange(2, 6),
        "branch_factor": rng.choice((0.0, rng.random() * pi, pi / 3, pi)),
    }
    parameters["merge"] = rng.random() < 0.7
    parameters["landmarks"] = rng.choice((0, 16))
    parameters["assurance"] = rng.choice(("none", "none", "receipts"))  # type: ignore[assignment]
    if world.design == "spice-unloaded":
        parameters["storage_limit"] = rng.choice((1, 2, 5, 16, 64))
        parameters["frequency_limit"] = rng.choice((0.0, 0.05, 0.3))
        parameters["choose"] = rng.choice(("first", "rarest"))  # type: ignore[assignment]
        parameters["replication"] = rng.choice(("beforehand", "beforehand", "live"))  # type: ignore[assignment]
        parameters["collect_ms"] = rng.choice((0, 20, 250))
    knobs = (
        {"terms": rng.choice((1, 1, 2, 3)), "tags": rng.choice((30, 300))}
        if world.workload == "zipf"
        else {}
    )
    knobs |= {"tags_per_peer": 6} if world.workload == "zipf" else {}
    scenario = Scenario(
        **{
            **world.described(),
            "faults": world.faults,
            "parameters": parameters,
            "workload_parameters": knobs,
        }
    )

    outcome = simulate(scenario)

    assert outcome.contract.clean, f"{outcome.contract}\n{scenario.command()}"
    assert outcome.objections == [], scenario.command()


@pytest.mark.parametrize(
    "seed", [*range(12), 155]
)  # 155: a walk in one branch, through more peers than `hops_max`
def test_small_worlds_of_every_kind_keep_the_contract(seed: int) -> None:
    clean(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
def test_two_hundred_small_worlds_keep_the_contract(seed: int) -> None:
    clean(seed)


@pytest.mark.long
def test_grown_by_a_thousand_joins_the_contract_is_kept() -> None:
    outcome = simulate(
        Scenario("spice-unloaded", 1024, 128, 1, {"assurance": "none"}, start="joined")
    )

    assert outcome.contract.clean
    assert outcome.objections == []
