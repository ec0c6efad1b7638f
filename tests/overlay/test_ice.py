"""The surface: assembled and grown, routing to points and to tracts, extents that change hands."""

from collections import deque
from math import pi
from random import Random

import pytest

from implicast.casting.spice.design import landmark_digits
from implicast.overlay.ice.fixed_surface import FixedSurface
from implicast.overlay.ice.handoff_receiver import (
    HandoffCommit,
    HandoffOffer,
    HandoffPrepared,
    HandoffProgress,
)
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.overlay.ice.messages import (
    FindOwner,
    Heartbeat,
    HeartbeatAck,
    JoinRequest,
    OwnershipClaim,
)
from implicast.overlay.ice.settings import SurfaceSettings
from implicast.overlay.ice.surface import IceSurface, surface_of
from implicast.peer.contract import Address, Message, handles
from implicast.peer.contract import Peer as BasePeer
from implicast.peer.ledger import Ledger
from implicast.space.angle import cosine_of
from implicast.space.digest import stream
from implicast.space.morton import BITS, CODES, box
from implicast.space.surface import Surface as Space
from implicast.space.tract import Tract, intersect, union, volume
from implicast.trials.ice import StaticSurface, random_tract, spread, uniform_surface
from implicast.world.populations.landmarks import landmark_order, landmark_points
from implicast.world.populations.surface import adjacency, settle, tiling, uniform_points
from implicast.world.populations.surface_objections import surface_objections, tables_of


class ChunkedTransfer(Message):
    """A payload for every owner in a tract."""

    way: RouteHeader
    payload: bytes


class Walker(BasePeer, parts={"surface": IceSurface}):
    """A peer with a surface on which nothing is assured, and nothing on it."""

    def __init__(self, address: Address, host: Ledger, terms: SurfaceSettings) -> None:
        super().__init__(address, host)
        self.surface = IceSurface(address, host, self, terms)
        self.brought: list[tuple[Tract, bytes]] = []

    @handles(ChunkedTransfer)
    def on_parcel(self, sender: Address, parcel: ChunkedTransfer) -> None:
        self.surface.routing.on_routed(sender, parcel)

    def on_arrival(self, sender: Address, part: Tract, message: Message) -> None:
        assert isinstance(message, ChunkedTransfer)
        self.brought.append((part, message.payload))

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        return ()

    def can_decode(self, item: Item) -> bool:
        return True

    def accept(self, items: tuple[Item, ...], tract: Tract) -> None: ...

    def drop(self, tract: Tract) -> None: ...

    def on_tract_lost(self, tract: Tract) -> None: ...

    def settled(self) -> None: ...

    def lost(self, tract: Tract) -> None: ...

    def retry_waiting(self) -> None: ...

    def on_partition_healed(self) -> None: ...


class Town:
    """Walkers and the messages between them, delivered in order; alarms are left alone."""

    def __init__(self, peers: int, dimensions: int, branch_factor: float = pi / 3) -> None:
        self.hosts = [Ledger(seed) for seed in range(peers)]
        terms = SurfaceSettings(dimensions, cosine_of(branch_factor), assured=False)
        self.walkers = [Walker(peer, host, terms) for peer, host in enumerate(self.hosts)]
        self.carried: list[tuple[int, Message]] = []
        self.alarms: list[Message] = []

    @property
    def surfaces(self) -> list[IceSurface]:
        return [each.surface for each in self.walkers]

    def run(self) -> None:
        waiting: deque[tuple[int, Address, Message]] = deque(self._collected())
        while waiting:
            sender, to, message = waiting.popleft()
            self.carried.append((sender, message))
            assert isinstance(to, int)
            self.walkers[to].receive(sender, message)
            waiting.extend(self._collected())

    def _collected(self) -> list[tuple[int, Address, Message]]:
        entries = [(peer, *entry) for peer, host in enumerate(self.hosts) for entry in host.take()]
        self.alarms += [what for _, verb, _, what in entries if verb == "after"]
        return [
            (peer, to, what)
            for peer, verb, to, what in entries
            if verb == "send" and to is not None
        ]


def assembled(peers: int, dimensions: int, seed: int = 1, branch_factor: float = pi / 3) -> Town:
    town = Town(peers, dimensions, branch_factor)
    tiles = tiling(uniform_points(peers, stream(seed, "surface").getrandbits), dimensions)
    settle(tiles, town.surfaces, lambda a, b: 1000)
    return town


def grown(peers: int, dimensions: int) -> Town:
    town = Town(peers, dimensions)
    for peer in range(peers):
        town.surfaces[peer].join((peer - 1,) if peer else ())
        town.run()
    return town


def uneven_ground(peers: int, dimensions: int, rng: Random) -> StaticSurface:
    """Peers crowd in one corner: regions of very different sizes."""
    points = [rng.getrandbits(BITS) >> rng.choice((0, 0, 6, 12)) for _ in range(peers)]
    return StaticSurface(tiling(points, dimensions))


@pytest.mark.parametrize("dimensions", [2, 3, 4, 5, 6])
def test_neighbours_of_an_assembled_surface_are_those_that_share_a_face(dimensions: int) -> None:
    tiles = tiling(uniform_points(60, stream(dimensions, "surface").getrandbits), dimensions)
    boxes = [
        box(int(low), int(bits), dimensions)
        for low, bits in zip(tiles.low, tiles.bits, strict=True)
    ]
    surface = Space(dimensions)
    expected = {
        (a, b)
        for a in range(60)
        for b in range(60)
        if a != b and surface.rank(boxes[a], boxes[b]) == (0, 1)
    }

    found = {(int(a), int(b)) for a, b in zip(*adjacency(tiles), strict=True)}

    assert found == expected


@pytest.mark.parametrize("dimensions", [2, 3, 4, 5, 6])
def test_the_tables_that_are_expected_name_all_that_share_a_face_and_nobody_else(
    dimensions: int,
) -> None:
    for peers in (1, 2, 3, 60):
        tiles = tiling(uniform_points(peers, stream(dimensions, "surface").getrandbits), dimensions)
        pairs = sorted(zip(tiles.low.tolist(), tiles.bits.tolist(), strict=True))
        claims = tuple(
            OwnershipClaim(low, bits, 0, peer % 50) for peer, (low, bits) in enumerate(pairs)
        )  # ten own two extents
        surface = Space(dimensions)
        boxes = [box(each.low, each.bits, dimensions) for each in claims]
        expected: dict[Address, set[OwnershipClaim]] = {each.owner: {each} for each in claims}
        for one, here in zip(claims, boxes, strict=True):
            beside = [surface.rank(here, there) == (0, 1) for there in boxes]
            touching = {other for other, near in zip(claims, beside, strict=True) if near}
            expected[one.owner] |= {one, *touching}

        assert {
            owner: set(table.values()) for owner, table in tables_of(claims, dimensions).items()
        } == expected


@pytest.mark.parametrize("dimensions", [2, 3, 5])
def test_grown_from_one_peer_and_assembled_keep_the_same_invariants(dimensions: int) -> None:
    assert surface_objections(grown(48, dimensions).surfaces) == []
    assert surface_objections(assembled(48, dimensions).surfaces) == []


def test_the_invariants_object_to_a_wrong_table_a_hole_and_an_overlap() -> None:
    town = assembled(16, 2)
    victim = town.surfaces[3]
    stranger = next(
        claim for claim in victim.ownership.claim_map.claims.values() if claim.owner != 3
    )
    victim.ownership.claim_map.drop([stranger])
    assert "3 has a table that is wrong" in surface_objections(town.surfaces)[0]

    town = assembled(16, 2)
    victim = town.surfaces[3]
    [own] = victim.extents
    victim.ownership.claim_map.drop([own])
    victim.ownership.refresh()
    assert "no peer owns" in " ".join(surface_objections(town.surfaces))

    victim.ownership.claim_map.put([own])
    victim.ownership.refresh()
    town.surfaces[4].ownership.claim_map.put([OwnershipClaim(own.low, own.bits, 9, 4)])
    town.surfaces[4].ownership.refresh()
    assert "3 and 4 both own codes" in " ".join(surface_objections(town.surfaces))


def test_routing_state_does_not_grow_with_the_number_of_peers() -> None:
    """Section 7.2: storage is O(d)."""
    mean = {}
    for peers in (256, 4096, 16384):
        one, _ = adjacency(tiling(uniform_points(peers, stream(1, "surface").getrandbits), 3))
        mean[peers] = len(one) / peers

    assert mean[16384] <= mean[256] * 1.1
    assert mean[16384] < 4 * 3


def test_a_joining_peer_takes_half_of_the_region_in_three_messages() -> None:
    town = Town(2, 2)
    town.surfaces[0].join(())
    town.surfaces[1].join((0,))
    town.run()

    kinds = [
        type(message)
        for _, message in town.carried
        if not isinstance(message, Heartbeat | HeartbeatAck | HandoffProgress)
    ]
    assert kinds[:4] == [JoinRequest, HandoffOffer, HandoffPrepared, HandoffCommit]
    assert sorted(volume(each.committed) for each in town.surfaces) == [CODES // 2, CODES // 2]


def test_a_giver_of_which_nobody_takes_has_its_piece_back() -> None:
    town = Town(3, 2)
    giver = town.surfaces[0]
    giver.join(())
    town.surfaces[1].leave()
    giver.joining.on_join_request(JoinRequest(RouteHeader((5, 6)), 1, 0), 5)
    town.run()

    assert giver.committed == (0, CODES)


def test_leavers_hand_over_everything_and_the_last_peers_cover_the_surface() -> None:
    town = grown(24, 3)
    for leaver in (3, 11, 17, 20, 5, 8):
        town.surfaces[leaver].leave()
        town.run()

    rest = [each for each in town.surfaces if not each.leaving]
    assert all(not each.extents for each in town.surfaces if each.leaving)
    assert sum(volume(each.committed) for each in rest) == CODES
    spare = [each for each in surface_objections(rest) if "extents" not in each]
    assert spare == []


def test_a_newcomer_is_given_a_spare_piece_whole() -> None:
    town = grown(12, 2)
    for leaver in range(2, 12):
        if any(len(each.extents) > 1 for each in town.surfaces):
            break
        town.surfaces[leaver].leave()
        town.run()
    rich = next(each for each in town.surfaces if len(each.extents) > 1)
    spares = [
        (each.low, each.bits)
        for each in rich.extents
        if each.bits == max(extent.bits for extent in rich.extents)
    ]

    rich.joining.on_join_request(
        JoinRequest(RouteHeader((rich.committed[0], rich.committed[0] + 1)), 99, 0),
        rich.committed[0],
    )

    give = next(message for to, message in town.hosts[int(str(rich.address))].sent() if to == 99)
    assert isinstance(give, HandoffOffer)
    assert (give.claim.low, give.claim.bits) in spares


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_every_owner_in_the_destination_is_told_exactly_once(dimensions: int) -> None:
    rng = Random(dimensions)
    for branch_factor in (0.0, pi / 3, pi):
        town = assembled(60, dimensions, dimensions, branch_factor)
        tract = union(
            (low, low + CODES // 40)
            for low in (rng.randrange(CODES - CODES // 40) for _ in range(6))
        )

        town.surfaces[rng.randrange(60)].send(ChunkedTransfer(RouteHeader(tract), b"state"))
        town.run()

        for walker in town.walkers:
            parts = [
                (part[i], part[i + 1]) for part, _ in walker.brought for i in range(0, len(part), 2)
            ]
            assert union(parts) == intersect(walker.surface.committed, tract)
            assert sum(high - low for low, high in parts) == volume(union(parts)), (
                "no place is visited twice"
            )


def test_without_assurance_a_message_is_sent_once_and_nothing_is_armed() -> None:
    town = assembled(60, 3)
    code = town.surfaces[7].extents[0].low
    parcel = ChunkedTransfer(RouteHeader((code, code + 1)), b"state")

    town.surfaces[40].send(parcel)
    town.run()

    assert [each.brought for each in town.walkers if each.brought] == [
        [((code, code + 1), b"state")]
    ]
    assert all(message is parcel for _, message in town.carried)
    assert not town.alarms


def routes_end(cases: int, seed: int) -> None:
    """Random sources, disconnected tracts that wrap round, uneven regions: all parts arrive, once."""
    rng = Random(seed)
    for case in range(cases):
        if case % 50 == 0:
            dimensions = rng.choice((2, 3, 4, 5))
            peers = rng.randrange(2, 80)
            make = rng.choice(
                (uneven_ground, lambda n, d, r: uniform_surface(n, d, r.getrandbits(20)))
            )
            surface = make(peers, dimensions, rng)
        spans = [
            (low, min(CODES, low + (CODES >> rng.randrange(1, 20))))
            for low in (rng.getrandbits(BITS) for _ in range(rng.randrange(1, 6)))
        ]
        tract = union(
            [*spans, *([(0, CODES >> 9), (CODES - (CODES >> 7), CODES)] if case % 3 == 0 else [])]
        )

        found = spread(
            surface,
            rng.randrange(peers),
            tract,
            rng.choice((0.0, 0.5, pi / 3, 2.0, pi)),
            rng.random() < 0.8,
        )

        owners = {peer for peer in range(peers) if intersect(surface.tract(peer), tract)}
        assert set(found.deliveries) == owners, f"seed {seed}, case {case}"


def test_every_route_ends_and_reaches_every_owner() -> None:
    routes_end(200, seed=1)


@pytest.mark.long
def test_every_route_ends_and_reaches_every_owner_in_ten_thousand_cases() -> None:
    routes_end(10_000, seed=2)


def test_a_merged_branch_never_costs_more_messages() -> None:
    surface = uniform_surface(300, 3, 4)
    rng = Random(4)
    for _ in range(10):
        tract = random_tract(surface, 100, rng)
        merged, apart = (
            spread(surface, 0, tract, pi / 3, merge).messages for merge in (True, False)
        )
        assert merged <= apart


def test_landmarks_come_in_powers_that_tile_the_surface() -> None:
    assert [8 ** landmark_digits(given, 3) for given in (1, 7, 8, 63, 64, 100, 512)] == [
        1,
        1,
        8,
        8,
        64,
        64,
        512,
    ]


def test_close_landmarks_follow_each_other() -> None:
    places = {10: 0, 11: 100, 12: 1, 13: 101, 14: 2}

    order = landmark_order([10, 11, 12, 13, 14], lambda a, b: abs(places[a] - places[b]))

    assert order in ([10, 12, 14, 11, 13], [13, 11, 14, 12, 10])


def test_no_landmark_takes_more_than_its_share() -> None:
    points = landmark_points(100, 8, 3, lambda a, b: abs(a - b), stream(1, "draw").getrandbits)

    shares = [sum(point >> (BITS - 3) == extent for point in points) for extent in range(8)]
    assert max(shares) <= 13
    assert sum(shares) == 100


def a_static_surface(peers: int, assured: bool) -> tuple[list[FixedSurface], list[Ledger]]:
    terms = SurfaceSettings(2, cosine_of(pi / 3), assured=assured, static=True)
    ledgers = [Ledger(each) for each in range(peers)]
    surfaces = [surface_of(each, ledgers[each], NoItems(), terms) for each in range(peers)]
    tiles = tiling(uniform_points(peers, Random(7).getrandbits), 2)
    settle(tiles, surfaces, lambda a, b: 1000 + 10 * a + b)
    return surfaces, ledgers


class NoItems:
    """A store without items, which notes what arrives."""

    def __init__(self) -> None:
        self.arrived: list[Tract] = []

    def pack(self, tract: Tract) -> tuple[Item, ...]:
        return ()

    def on_arrival(self, sender: Address, part: Tract, message: Message) -> None:
        self.arrived.append(part)

    def can_decode(self, item: Item) -> bool:
        return False

    def _ignore(self, *given: object) -> None:
        """Nothing is stored."""

    accept = drop = on_tract_lost = lost = settled = retry_waiting = on_partition_healed = _ignore


def test_a_surface_without_change_and_acks_has_extents_and_routing_alone() -> None:
    surfaces, ledgers = a_static_surface(12, assured=False)

    assert all(type(each) is FixedSurface for each in surfaces)
    assert surface_objections(surfaces) == []
    one, code = surfaces[3], surfaces[9].extents[0].low
    one.send(FindOwner(RouteHeader((code, code + 1)), 3))
    ((to, message),) = ledgers[3].sent()
    assert message.way.tract == (code, code + 1)
    assert to in one.ownership.neighbours()
    assert one.replicate((), lambda: None)


def test_a_state_restores_another_object_to_the_same_state() -> None:
    surfaces, _ = a_static_surface(12, assured=True)
    one = surfaces[3]
    assert isinstance(one, IceSurface)
    other = IceSurface(3, Ledger(1), NoItems(), one.settings)

    other.restore(one.state())

    assert one.state().backups
    assert len(one.state().neighbours) == len(one.ownership.neighbours())
    assert other.state() == one.state()
    assert other.holdings() == one.holdings()
    assert other.committed == one.committed
    assert other.answers(one.extents[0].low)
