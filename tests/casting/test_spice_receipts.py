"""SPICE with receipts, rule by rule: what is confirmed when, what moves where, and who is forgotten."""

import pytest
from msgspec.msgpack import encode

from implicast.casting.designs import design
from implicast.casting.spice import stores
from implicast.casting.spice.calls import CallAck, ItemOffer, ReplicaActivation, VetoRequest
from implicast.casting.spice.casts import CheckCast
from implicast.casting.spice.homes import address_of, home, roots_of, spot_of
from implicast.casting.spice.items import (
    HEADER,
    RECORD,
    Entry,
    ReplicationHeader,
    RootState,
    header_item,
    record_item,
)
from implicast.casting.spice.loads import LoadHint, LoadReport
from implicast.casting.spice.pushes import ReplicaPushes
from implicast.casting.spice.replicas import Replicas
from implicast.casting.spice.settings import CAST_US, SpiceSettings
from implicast.casting.spice.spice import Spice
from implicast.casting.spice.store_requests import ASCENDING, StoreAck, StoreRequest
from implicast.casting.spice.stores import Stores
from implicast.casting.spice.traversal_messages import CastRequest, CopyRequest
from implicast.casting.spice.traversal_state import TraversalTask
from implicast.language.parse import parse
from implicast.language.target import Description
from implicast.overlay.ice.backup_copy import BackupDelta
from implicast.overlay.ice.item_store import Item, RouteHeader
from implicast.overlay.ice.settings import SurfaceSettings
from implicast.peer.contract import CastId
from implicast.peer.name import name_of
from implicast.space.morton import BITS
from implicast.space.tract import WHOLE, container, contains, intersect, scale_within, subtract
from implicast.world.application import Application, Cast
from implicast.world.frozen import awake, freeze, thaw
from implicast.world.network import build
from implicast.world.plan import Plan
from implicast.world.populations import population
from implicast.world.populations.registries import record_objections
from implicast.world.world import World
from sites import sealed

_S = 1_000_000


class Town:
    """A converged network of living peers, in a kind world."""

    def __init__(self, peers=12, name="spice-unloaded", seed=3, **parameters):
        self.design = design(name)
        given = self.design.settle({"hello_s": 3.0, "landmarks": 0, **parameters})
        network = build("flat", peers, 0, seed, 0)
        self.world = World(network, seed)
        self.plan = Plan(peers, 0, given, seed, self.world.host, network.latency_us)
        self.peers = population(self.design).assemble(self.plan)
        for address, peer in enumerate(self.peers):
            self.world.place(address, peer)
        self.application = Application(self.world)
        self.notices = []
        self.world.on_event = self._hear

    def _hear(self, address, event):
        if type(event).__name__ == "Notice":
            self.notices.append((address, event.cast))
        else:
            self.application.on_event(address, event)

    def run(self, seconds):
        self.world.run(self.world.now_us + int(seconds * _S))

    def register(self, address, *tags):
        self.application.register_now(address, Description(tuple(sorted(tags))))

    def complete(self, address):
        mine = [each for each in self.application.registrations if each.peer == address]
        return mine[-1].completed_us is not None

    def cast(self, publisher, text):
        member = self.peers[publisher]
        self.world.announce(member.upcoming_cast(), len(self.application.casts))
        number, now_us = len(self.application.casts), self.world.now_us
        self.application.casts.append(Cast(number, publisher, now_us, parse(text)))
        return member.cast(parse(text), b"")

    def keep_busy(self, tag, casts):
        """Two casts a second, by everybody in turn."""
        for number in range(casts):
            self.cast(number % 12, tag)
            self.run(0.5)

    def told(self, cast):
        return sorted(address for address, each in self.notices if each == cast)

    def owner(self, code):
        return next(
            each for each in map(awake, self.world.peers.values()) if each.surface.answers(code)
        )


def held(peer, tag, consumer):
    """Where a peer keeps a consumer's record of a tag: (root, notch) and the version."""
    return {
        key[1:]: each.records[consumer.name].entry.version
        for key, each in peer.registries.by_key.items()
        if key[0] == tag and consumer.name in each.records
    }


def entry_of(consumer, tag, version=1):
    """A consumer's registration under one tag."""
    return Entry(consumer.contact, version, spot_of(consumer.name, tag), Description((tag,)))


def test_a_registration_is_complete_when_every_backup_has_a_copy():
    town = Town()
    owner = town.owner(address_of("jazz"))
    heirs = owner.surface.backups
    consumer = next(each for each in range(12) if each != owner.address and each not in heirs)
    for heir in heirs:
        freeze(town.world, heir)
    town.register(consumer, "jazz")
    town.run(1)

    assert held(owner, "jazz", town.peers[consumer]), "it is kept ..."
    assert not town.complete(consumer), "... and not confirmed"
    for heir in heirs:
        thaw(town.world, heir)
    town.run(5)
    assert town.complete(consumer)
    for heir in owner.surface.backups:
        keys = town.peers[heir].surface.copies.held[owner.address].items
        assert {each.key for each in owner.pack(owner.surface.tract)} <= keys.keys()


def test_a_withdrawn_record_does_not_come_back_with_an_older_one():
    town = Town()
    town.register(4, "jazz")
    town.run(2)
    old = town.peers[4].registrations.announced["jazz"]
    town.application.withdraw_now(4)
    town.run(2)
    owner, address = town.owner(address_of("jazz")), address_of("jazz")
    town.peers[7].surface.send(
        StoreRequest(RouteHeader((address, address + 1)), "jazz", address, 0, (old,), 7, 99)
    )
    town.run(2)

    assert list(held(owner, "jazz", town.peers[4]).values()) == [town.peers[4].version]
    cast = town.cast(1, "jazz")
    town.run(3)
    assert town.told(cast) == []


def test_who_vanishes_is_forgotten_after_a_lease_and_found_again_when_it_returns():
    town = Town(lease_s=30.0)
    town.register(4, "jazz", "samba")
    town.run(3)
    owner = town.owner(address_of("jazz"))
    if owner.address == 4:
        pytest.skip("this consumer keeps its own record")
    freeze(town.world, 4)
    town.run(45)

    assert not held(town.owner(address_of("jazz")), "jazz", town.peers[4])
    thaw(town.world, 4)
    town.run(25)
    cast = town.cast(1, "jazz & samba")
    town.run(3)
    assert town.told(cast) == [4]


def test_renewing_costs_two_messages_a_tag():
    town = Town(lease_s=90.0)
    town.register(4, "jazz")
    town.run(3)
    kinds = []
    carry = town.world.carry
    town.world.carry = lambda sender, to, message: (
        kinds.append(type(message).__name__),
        carry(sender, to, message),
    )
    for address, peer in enumerate(town.peers):
        peer.host.send = lambda to, message, address=address: town.world.carry(address, to, message)
    town.run(120)

    assert 3 <= kinds.count("StoreRequest") <= 5
    assert kinds.count("StoreAck") == kinds.count("StoreRequest")


def test_a_changed_description_is_found_under_the_new_tags_only():
    town = Town()
    town.register(4, "jazz")
    town.run(2)
    town.register(4, "samba")
    town.run(2)
    first, second = town.cast(1, "jazz"), town.cast(1, "samba")
    town.run(3)

    assert town.told(first) == []
    assert town.told(second) == [4]


def test_a_publisher_is_told_how_its_cast_ended():
    town = Town()
    for address in (3, 4, 5):
        town.register(address, "jazz")
    town.run(2)
    settled = []
    hear = town.world.on_event
    town.world.on_event = lambda address, event: (
        settled.append(event) if type(event).__name__ == "Settled" else hear(address, event)
    )
    cast = town.cast(1, "jazz")
    town.run(2)

    assert [(each.cast, each.notified, each.unreachable) for each in settled] == [(cast, 3, 0)]
    freeze(town.world, 4)
    second = town.cast(1, "jazz")
    town.run(CAST_US / _S)
    assert [(each.cast, each.notified, each.unreachable) for each in settled[1:]] == [
        (second, 2, 1)
    ]


def test_a_quick_publisher_loses_nothing():
    town = Town()
    town.register(4, "jazz")
    town.run(2)
    casts = [town.cast(1, "jazz") for _ in range(300)]

    town.run(60)
    assert not town.peers[1].casts.publishing
    assert sorted(cast.serial for address, cast in town.notices if address == 4) == [
        cast.serial for cast in casts
    ]


def test_a_member_that_fits_no_more_declines():
    town = Town()
    for address in (3, 4):
        town.register(address, "jazz")
    town.run(2)
    settled = []
    hear = town.world.on_event
    town.world.on_event = lambda address, event: (
        settled.append(event) if type(event).__name__ == "Settled" else hear(address, event)
    )
    town.peers[4].describe(Description(("chess",)))
    town.cast(1, "jazz")
    town.run(2)

    assert [(each.notified, each.declined, each.unreachable, each.open) for each in settled] == [
        (1, 1, 0, 0)
    ]


def test_what_a_cast_would_reach_can_be_asked_before():
    town = Town(storage_limit=3, frequency_limit=0.0)
    spread(town)
    estimated = []
    town.world.on_event = lambda address, event: estimated.append((address, event))
    token = town.peers[9].estimate(parse("jazz"))
    town.run(3)

    assert [(address, event.token, event.members) for address, event in estimated] == [
        (9, token, 8)
    ]
    assert estimated[0][1].messages >= 16


def test_a_member_with_a_forgotten_incarnation_takes_a_later_one():
    """A holder knows a version above ours, from a life that our disk does not remember."""
    town = Town()
    town.register(4, "jazz")
    town.run(2)
    member = town.peers[4]
    timer_wheel = member.version + (5 << 40)
    store = entry_of(member, "jazz", timer_wheel)
    address = address_of("jazz")
    town.peers[7].surface.send(
        StoreRequest(RouteHeader((address, address + 1)), "jazz", address, 0, (store,), 7, 99)
    )
    town.run(2)
    town.register(4, "jazz", "chess")
    town.run(4)

    assert member.version > timer_wheel
    cast = town.cast(1, "jazz & chess")
    town.run(3)
    assert town.told(cast) == [4]


# --- registries that spread and are drawn together


def spread(town, tag="jazz", count=8):
    """Members under one tag, more than the limit: the registry closes."""
    for address in range(count):
        town.register(address, tag)
    town.run(12)
    root = town.owner(address_of(tag))
    assert root.registries.by_key[tag, address_of(tag), 0].closed
    return root


def test_a_full_registry_spreads_and_everybody_is_still_found():
    town = Town(storage_limit=3, frequency_limit=0.0)
    spread(town)

    holders = {
        peer.address
        for peer in town.peers
        for (tag, _, _), each in peer.registries.by_key.items()
        if each.records
    }
    assert len(holders) > 2
    assert not list(record_objections(town.peers))
    cast = town.cast(9, "jazz")
    town.run(3)
    assert town.told(cast) == list(range(8))


def test_what_is_remembered_of_a_stock_is_what_it_holds_whatever_happened_to_it():
    town = Town(storage_limit=3, frequency_limit=0.0)
    spread(town)

    for step in range(24):
        if step % 6 == 0:
            town.register(step % 12, "jazz", f"tag {step}")
        if step % 6 == 3:
            town.application.withdraw_now(step // 3)
        town.run(1)
        for peer in town.peers:
            tract = peer.surface.tract
            assert peer.pack(tract) is peer.pack(tract)
            before = peer.pack(tract)
            peer.registries.counter.bump()
            assert peer.pack(tract) == before
    assert any(each.closed for peer in town.peers for each in peer.registries.by_key.values())


def test_a_shrunken_registry_is_drawn_together_by_the_next_cast():
    town = Town(storage_limit=3, frequency_limit=0.0)
    root = spread(town)
    for address in range(7):
        town.application.withdraw_now(address)
    town.run(10)
    town.cast(9, "jazz")
    town.run(5)

    assert not root.registries.by_key["jazz", address_of("jazz"), 0].closed
    assert held(root, "jazz", town.peers[7])
    assert not list(record_objections(town.peers))
    cast = town.cast(9, "jazz")
    town.run(3)
    assert town.told(cast) == [7]


def far_consumer(town, root, tag):
    """A consumer whose home at the last notch is not the root's."""
    last = root.settings.last_notch
    address, dimensions = address_of(tag), root.settings.dimensions
    homes = {each: home(address, last, spot_of(each.name, tag), dimensions) for each in town.peers}
    return next(
        each for each, at in homes.items() if each is not root and not root.surface.answers(at)
    )


def close_all(peer, tag):
    """Close every notch but the last at a root."""
    address, settings = address_of(tag), peer.settings
    for notch in settings.notches()[:-1]:
        part = intersect(container(address, notch, settings.dimensions), peer.surface.committed)
        peer.registries.registry((tag, address, notch)).set_closed(part)


def test_confirmations_come_down_the_way_the_record_went_up(monkeypatch):
    """The registry is opened while a record is on its way up: whoever opened it keeps the record before it confirms."""
    town = Town(storage_limit=1000, frequency_limit=0.0)
    root, address = town.owner(address_of("jazz")), address_of("jazz")
    close_all(root, "jazz")
    consumer = far_consumer(town, root, "jazz")
    entry = entry_of(consumer, "jazz")
    confirmed = []
    monkeypatch.setattr(
        Stores,
        "confirm",
        lambda self, answer, key, kept: (
            confirmed.append((answer, list(kept))) if self is root.stores else 0
        ),
    )
    with monkeypatch.context() as patch:
        patch.setattr(Stores, "send_store", lambda self, *store: None)
        root.stores.store_entries("jazz", address, 0, [entry], (5, 7, 0))
        town.run(0.05)
    key, _ = next(iter(root.stores.ascents))
    token = root.stores.ascents[key, consumer.name].token
    for each in [each for each in root.registries.by_key if each[0] == "jazz"]:
        root.registries.by_key[each].set_closed(())
    root.on_stored(3, StoreAck("jazz", address, key[2], token, ((consumer.name, 1, key[2]),)))

    assert not confirmed, "kept above a registry that is open now: no cast would find it"
    assert held(root, "jazz", consumer) == {(address, 0): 1}
    town.run(2)
    assert confirmed == [((5, 7, 0), [(consumer.name, 1, 0)])]


def test_what_comes_down_is_shown_to_traversals_above():
    """A cast has passed the root and is above it, not covered, when a record that it selects comes down."""
    town = Town(storage_limit=1000, frequency_limit=0.0)
    root, address = town.owner(address_of("jazz")), address_of("jazz")
    close_all(root, "jazz")
    consumer, publisher = far_consumer(town, root, "jazz"), town.peers[7]
    cast = publisher.upcoming_cast()
    traversal = CastRequest(
        RouteHeader((address, address + 1), 5),
        cast,
        parse("jazz"),
        0,
        "jazz",
        0,
        address,
        0,
        sealed(b""),
    )
    root.receive(publisher.address, traversal)
    root.containers.gather(("jazz", address, 0))
    entry = entry_of(consumer, "jazz")
    root.stores.store_entries("jazz", address, 0, [entry], (5, 7, 0))

    assert root.requests.pending_keys("notify") == [(cast, consumer.name, None)]
    root.stores.store_entries("jazz", address, 0, [entry], (5, 7, 0))
    assert len(root.requests) == 1, "once for each record and walk"


def a_record_on_its_way_up():
    """The root that keeps it, the registry's key, its consumer, and a word that it is kept at this notch above."""
    town = Town(storage_limit=1000, frequency_limit=0.0)
    root, address = town.owner(address_of("jazz")), address_of("jazz")
    close_all(root, "jazz")
    consumer = far_consumer(town, root, "jazz")
    key = ("jazz", address, 0)
    root.registries.keep(key, entry_of(consumer, "jazz"))
    root.containers.start_ascent(key)

    def stored(notch):
        root.on_stored(
            root.address, StoreAck("jazz", address, 0, ASCENDING, ((consumer.name, 1, notch),))
        )

    return root, key, consumer.name, stored


def test_a_move_that_came_back_is_not_deleted():
    root, key, consumer, stored = a_record_on_its_way_up()
    stored(0)

    assert consumer in root.registries.by_key[key].records
    stored(20)
    assert key not in root.registries.by_key or consumer not in root.registries.by_key[key].records


def test_a_late_confirmation_does_not_delete_what_was_drawn_down_again():
    root, key, consumer, stored = a_record_on_its_way_up()
    root.containers.gather(key)
    stored(20)

    assert consumer in root.registries.by_key[key].records


def test_an_answer_to_an_earlier_ascent_confirms_no_later_one():
    town = Town(storage_limit=1000, frequency_limit=0.0)
    root, address = town.owner(address_of("jazz")), address_of("jazz")
    close_all(root, "jazz")
    consumer = far_consumer(town, root, "jazz")
    early = root.stores.next_token()
    root.stores.store_entries("jazz", address, 0, [entry_of(consumer, "jazz")], (5, 7, 0))
    key, _ = next(iter(root.stores.ascents))
    town.run(0.03)
    root.on_stored(3, StoreAck("jazz", address, key[2], early, ((consumer.name, 1, key[2]),)))

    assert (key, consumer.name) in root.stores.ascents


# --- replicas


def test_a_busy_tag_is_replicated_and_an_idle_one_is_not_any_more():
    town = Town(frequency_limit=0.5, rate_s=4.0, deepest_level=1, storage_limit=32)
    for address in range(6):
        town.register(address, "jazz")
    town.run(3)
    town.keep_busy("jazz", 60)
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    roots = [each for each in roots_of(address, 1, 3) if each != address]

    assert leader.levels.header("jazz")[1:] == (1, 1, True)
    assert all(town.owner(root).levels.is_ready("jazz", root) for root in roots)
    assert not list(record_objections(town.peers))
    town.register(7, "jazz")
    town.run(3)
    cast = town.cast(3, "jazz")
    town.run(2)
    assert town.told(cast) == [0, 1, 2, 3, 4, 5, 7]
    town.run(120)
    assert leader.levels.header("jazz")[1:] == (0, 0, True)
    assert not any(town.owner(root).levels.is_ready("jazz", root) for root in roots)


def test_renewals_reach_all_roots_together_and_in_time():
    town = Town(frequency_limit=0.01, rate_s=4.0, deepest_level=1, storage_limit=32, lease_s=30.0)
    for address in range(8):
        town.register(address, "jazz")
    town.run(3)
    town.keep_busy("jazz", 40)
    assert town.owner(address_of("jazz")).levels.header("jazz")[1:] == (1, 1, True)
    said = []
    begin = ReplicaPushes.begin_push
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ReplicaPushes,
            "begin_push",
            lambda self, fan: said.append(len(fan.left)) or begin(self, fan),
        )
        for number in range(45):  # three leases
            town.cast(number % 12, "jazz")
            town.run(2)
            assert not list(record_objections(town.peers)), "nobody runs out anywhere"

    assert town.owner(address_of("jazz")).levels.header("jazz")[1:] == (1, 1, True)
    assert len(said) < 8 * 9 / 2, "less than half of the 72 renewals one by one"
    assert max(said) > 2
    town.world.crash(3)
    town.run(50)
    left = [peer for peer in town.peers if peer.address != 3]
    gone = town.peers[3].name
    held_of = [each.records for peer in left for each in peer.registries.by_key.values()]
    assert not any(gone in each for each in held_of), "a lease, and it is gone"


def test_a_root_in_use_objects_to_a_lower_level(monkeypatch):
    town = Town(frequency_limit=0.5, rate_s=4.0, deepest_level=1)
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    leader.levels.set_header("jazz", ReplicationHeader(1, 1, 1, True))
    root = next(each for each in roots_of(address, 1, 3) if town.owner(each) is not leader)
    owner = town.owner(root)
    owner.levels.learn_root("jazz", root, RootState(1, 1, True))
    owner.replicas.loads.count_cast("jazz", root)
    owner.replicas.loads._loads["jazz", root].per_s = 0.2
    answers = []
    monkeypatch.setitem(
        Spice.message_handlers, CallAck, lambda self, sender, taken: answers.append(taken)
    )
    owner.on_arrival(
        owner.address,
        (root, root + 1),
        VetoRequest(RouteHeader((root, root + 1)), "jazz", leader.address, 3),
    )
    town.run(1)

    assert [each.veto for each in answers] == [True]


def a_replicated_tag():
    """A town where jazz is registered, the peer at its original root, and another root with that root's peer."""
    town = Town(frequency_limit=0.5, rate_s=4.0, deepest_level=3)
    town.register(3, "jazz")
    town.run(3)
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    root = next(each for each in roots_of(address, 1, 3) if town.owner(each) is not leader)
    return town, leader, root, town.owner(root)


def hint(town, leader, root):
    """Anybody says that this root of jazz is busy or idle, or knows later news than the original root."""
    address = address_of("jazz")
    leader.on_routed(0, LoadHint(RouteHeader((address, address + 1), 7), "jazz", root))
    town.run(1)


def test_a_stranger_raises_no_level_in_the_name_of_a_root():
    town, leader, root, _ = a_replicated_tag()
    for _ in range(20):
        hint(town, leader, root)
        hint(town, leader, address_of("jazz"))

    assert leader.levels.header("jazz") == ReplicationHeader()


def test_an_answer_to_no_question_raises_no_level():
    town, leader, _, _ = a_replicated_tag()
    leader.replicas.on_load_report(0, LoadReport(1, True, 1 << 40, 3))
    town.run(1)

    assert leader.levels.header("jazz") == ReplicationHeader()


def test_a_root_that_remembers_what_the_original_root_has_lost_is_believed():
    town, leader, root, owner = a_replicated_tag()
    owner.levels.learn_root("jazz", root, RootState(5, 1, True))
    hint(town, leader, root)
    header = leader.levels.header("jazz")

    assert header.number > 5, (
        "what was registered meanwhile is copied, and the roots are called again"
    )
    assert header == ReplicationHeader(header.number, 1, 1, True)


def test_busy_replicas_have_the_level_raised_further(monkeypatch):
    town, leader, *_ = a_replicated_tag()
    monkeypatch.setattr(Replicas, "fits_population", lambda self, level: True)
    leader.levels.set_header("jazz", ReplicationHeader(5, 1, 1, True))
    for each in roots_of(address_of("jazz"), 1, 3):
        owner = town.owner(each)
        owner.levels.learn_root("jazz", each, RootState(5, 1, True))
        if each != address_of("jazz"):
            for _ in range(40):
                owner.replicas.loads.count_cast("jazz", each)
    town.run(10)

    assert leader.levels.header("jazz").level == 2


def with_six_for_jazz(**settings):
    town = Town(**settings)
    for address in range(6):
        town.register(address, "jazz")
    town.run(3)
    return town


def test_a_takeover_of_an_original_root_finishes_its_level_change():
    town = with_six_for_jazz(
        peers=16, frequency_limit=0.5, rate_s=1000.0, deepest_level=1, storage_limit=32
    )
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    leader.replicas.propose_header("jazz", ReplicationHeader(1, 0, 1, False))
    town.run(0.05)
    town.world.crash(leader.address)
    town.run(40)
    heir = town.owner(address)

    assert heir.address != leader.address
    assert heir.levels.header("jazz")[1:] == (1, 1, True)
    alive = [awake(each) for each in town.world.peers.values()]
    assert not list(record_objections(alive))


def ready_on_the_other_side(town, tag):
    """Replicas as the other side of a partition had them: their roots are ready, and have none of our records."""
    address = address_of(tag)
    for root in roots_of(address, 1, 3):
        if root != address:
            town.owner(root).levels.learn_root(tag, root, RootState(5, 1, True))


@pytest.mark.parametrize("offered", ["header", "record"])
def test_after_a_partition_the_replicas_of_one_side_get_the_records_of_the_other(offered):
    town = Town(frequency_limit=0.01, rate_s=1000.0, deepest_level=1, storage_limit=32)
    for address in range(6):
        town.register(address, "jazz")
    town.run(3)
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    assert not leader.levels.header("jazz").goal
    ready_on_the_other_side(town, "jazz")
    assert list(record_objections(town.peers))

    item = header_item("jazz", ReplicationHeader(5, 1, 1, True))
    if offered == "record":
        leader.levels.set_header("jazz", ReplicationHeader(5, 1, 1, True))
        item = record_item(("jazz", address, 0), entry_of(town.peers[0], "jazz"), address)
    other = next(each for each in town.peers if each is not leader).address
    leader.on_arrival(
        other,
        (address, address + 1),
        ItemOffer(RouteHeader((address, address + 1)), (item,), other, 1),
    )
    town.run(6)

    assert leader.levels.header("jazz").level == 1
    assert not list(record_objections(town.peers))


def test_after_a_partition_a_part_of_a_registry_that_comes_to_another_peer_gets_to_all_replicas():
    """Only what came to the original root itself was copied: casts at replicas missed who lay in a container."""
    town = with_six_for_jazz(
        peers=16, frequency_limit=0.01, rate_s=1000.0, deepest_level=1, storage_limit=1
    )
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    ready_on_the_other_side(town, "jazz")
    leader.levels.set_header("jazz", ReplicationHeader(5, 1, 1, True))
    keeper, key, lies = next(
        (peer, key, each)
        for peer in town.peers
        for key, registry in peer.registries.by_key.items()
        for each in registry.records.values()
        if peer is not leader and key[1] == address
    )
    assert list(record_objections(town.peers))

    item, part = record_item(key, lies.entry, lies.home), (lies.home, lies.home + 1)
    keeper.on_arrival(
        leader.address, part, ItemOffer(RouteHeader(part), (item,), leader.address, 1)
    )
    town.run(6)

    assert leader.levels.header("jazz")[1:] == (1, 1, True)
    assert leader.levels.header("jazz").number > 5
    assert not list(record_objections(town.peers))


def test_an_original_root_without_replicas_has_nothing_to_copy_when_parts_of_its_registry_came_elsewhere():
    town = with_six_for_jazz(
        peers=16, frequency_limit=0.01, rate_s=1000.0, deepest_level=1, storage_limit=1
    )
    leader = town.owner(address_of("jazz"))
    other = next(each for each in town.peers if each is not leader)
    other.replicas.on_foreign_items(["jazz"])
    town.run(6)

    assert "jazz" not in leader.levels.headers
    assert not other.calls.open_calls, "it was heard"


@pytest.mark.parametrize("aimed", [False, True])
@pytest.mark.parametrize("deeper", ["ours", "theirs"])
def test_after_a_partition_the_replicas_of_the_older_header_are_copied_to_as_well(deeper, aimed):
    """The newer one held, and the roots of the deeper level answered casts for ever without being sent a record."""
    town = with_six_for_jazz(
        peers=24, frequency_limit=0.01, rate_s=1000.0, deepest_level=2, storage_limit=32
    )
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    for root in roots_of(address, 2, 3):
        if root != address:
            town.owner(root).levels.learn_root("jazz", root, RootState(5, 2, True))
    older, newer = ReplicationHeader(6, 2, 2, True), ReplicationHeader(18, 1, 1, True)
    ours, theirs = (older, newer) if deeper == "ours" else (newer, older)
    leader.levels.set_header("jazz", ours)
    if aimed:
        leader.replicas.propose_header("jazz", ours._replace(number=ours.number + 1))
    assert list(record_objections(town.peers))

    other, item = (
        next(each for each in town.peers if each is not leader).address,
        header_item("jazz", theirs),
    )
    leader.on_arrival(
        other,
        (address, address + 1),
        ItemOffer(RouteHeader((address, address + 1)), (item,), other, 1),
    )
    town.run(8)

    assert leader.levels.header("jazz")[1:] == (2, 2, True)
    assert leader.levels.header("jazz").number > newer.number
    assert not list(record_objections(town.peers))


@pytest.mark.parametrize("goes", ["gives", "dies"])
def test_a_takeover_of_an_original_root_copies_what_replicas_may_lack(goes):
    town = with_six_for_jazz(
        peers=16, frequency_limit=0.01, rate_s=1000.0, deepest_level=1, storage_limit=32
    )
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    ready_on_the_other_side(town, "jazz")
    item, others = (
        header_item("jazz", ReplicationHeader(5, 1, 1, True)),
        leader.surface.ownership.neighbours(),
    )
    leader.on_arrival(
        others[0],
        (address, address + 1),
        ItemOffer(RouteHeader((address, address + 1)), (item,), others[0], 1),
    )
    town.run(0.2)
    if goes == "gives":
        leader.surface.handoff.hand_off(leader.surface.extents[0], others[0])
    else:
        town.world.crash(leader.address)
    town.run(40)

    assert town.owner(address) is not leader
    assert town.owner(address).levels.header("jazz")[1:] == (1, 1, True)
    assert not list(record_objections([awake(each) for each in town.world.peers.values()]))


def test_replicas_that_became_incomplete_during_activation_are_copied_to_before_the_header_is_ready():
    town = with_six_for_jazz(
        peers=16, frequency_limit=0.01, rate_s=1000.0, deepest_level=1, storage_limit=32
    )
    leader = town.owner(address_of("jazz"))
    ready_on_the_other_side(town, "jazz")
    leader.levels.set_header("jazz", ReplicationHeader(5, 1, 1, False))
    leader.replicas.propose_header("jazz", ReplicationHeader(6, 1, 1, True))
    leader.replicas.on_foreign_items(["jazz"])
    assert leader.levels.header("jazz") == ReplicationHeader(7, 1, 1, False)
    town.run(6)

    assert leader.levels.header("jazz")[1:] == (1, 1, True)
    assert not list(record_objections(town.peers))


def test_all_levels_of_replicas_are_copied_to_again():
    town = Town(peers=24, frequency_limit=0.01, rate_s=1000.0, deepest_level=2, storage_limit=32)
    for address in range(6):
        town.register(address, "jazz")
    town.run(3)
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    leader.levels.set_header("jazz", ReplicationHeader(5, 2, 2, True))
    for root in roots_of(address, 2, 3):
        if root != address:
            town.owner(root).levels.learn_root("jazz", root, RootState(5, 2, True))
    assert list(record_objections(town.peers))
    leader.replicas.recopy_after_loss(WHOLE, 0)
    leader.registrations.register_again(WHOLE)
    town.run(6)

    assert not list(record_objections(town.peers))


def test_what_ran_out_of_hops_and_waited_goes_on():
    """Two peers that took each other for the owner passed it to and fro until it had no hops left."""
    town = Town(frequency_limit=0.0)
    town.register(3, "jazz")
    town.run(3)
    address = address_of("jazz")
    peer = next(
        each for each in town.peers if not each.surface.answers(address) and each.address != 3
    )
    worn = RouteHeader((address, address + 1), 7, hops=peer.surface.settings.timers.hops_max + 1)
    cast, target = CastId(peer.name, 1, 1), parse("jazz")
    payload = peer.seal(cast, target, b"")
    peer.casts.on_cast(3, CastRequest(worn, cast, target, 0, "jazz", 0, address, 0, payload))
    town.run(9)

    assert town.told(cast) == [3]


def test_replicas_that_answer_are_mended_before_a_level_is_raised():
    """The raise had met the dead and did not end before its traversal was given up."""
    town = with_six_for_jazz(
        peers=24, frequency_limit=0.01, rate_s=1000.0, deepest_level=2, storage_limit=32
    )
    leader, address = town.owner(address_of("jazz")), address_of("jazz")
    ready_on_the_other_side(town, "jazz")
    leader.levels.set_header("jazz", ReplicationHeader(5, 1, 2, False))
    endless = CopyRequest(
        RouteHeader((address, address + 1)), "jazz", address, 0, 2, leader.address, 1
    )
    leader.replicas.copies["jazz"] = TraversalTask(leader.host.now_us, endless)
    leader.replicas.recopy_after_loss(WHOLE, 0)
    leader.registrations.register_again(WHOLE)
    town.run(8)

    assert not list(record_objections(town.peers))
    assert leader.levels.header("jazz")[1:] == (2, 2, True), "and then it is raised"


def test_registrations_repeated_after_a_partition_are_repeated_until_acknowledged():
    """The first word goes to the peer that confirmed it last, which may be gone; or it is lost on the way."""
    town = Town(peers=16, storage_limit=32, frequency_limit=0.0)
    member = town.peers[2]
    town.register(2, "jazz")
    town.run(3)
    owner, gone = town.owner(address_of("jazz")), 15
    assert gone not in (owner.address, 2)
    owner.registries.by_key.pop(("jazz", address_of("jazz"), 0))
    member.registrations.last_holders["jazz"] = gone
    town.world.crash(gone)
    town.run(40)
    member.on_partition_healed()
    town.run(10)

    assert held(town.owner(address_of("jazz")), "jazz", member)


# --- change


def test_a_frozen_peer_that_wakes_after_its_place_was_taken_does_no_harm():
    town = Town(peers=16, storage_limit=32, frequency_limit=0.0)
    for address in range(16):
        town.register(address, "jazz", "samba")
    town.run(4)
    sleeper = town.owner(address_of("jazz"))
    ground = sleeper.surface.committed
    freeze(town.world, sleeper.address)
    town.run(40)
    assert town.owner(address_of("jazz")) is not sleeper, "its place was taken"
    thaw(town.world, sleeper.address)
    late = sleeper.cast(parse("samba"), b"") if sleeper.surface.answers(ground[0]) else None
    assert late is None, "it knows at once that it slept, or that nobody echoes it"
    town.run(60)

    everybody = [awake(each) for each in town.world.peers.values()]
    assert not population(town.design).objections(everybody)
    cast = town.cast(2, "jazz")
    town.run(3)
    assert town.told(cast) == list(range(16))


def test_a_leaver_withdraws_and_hands_over_what_it_kept():
    town = Town(peers=12)
    for address in range(12):
        town.register(address, "jazz")
    town.run(4)
    leaver = town.owner(address_of("jazz"))
    town.application.leave_now(leaver.address)
    town.run(40)

    assert leaver.address in town.application.left
    town.world.crash(leaver.address)
    cast = town.cast((leaver.address + 1) % 12, "jazz")
    town.run(5)
    assert town.told(cast) == [each for each in range(12) if each != leaver.address]


# --- bounds and homes


def test_what_is_passed_up_is_bounded(monkeypatch):
    town = Town(storage_limit=1000, frequency_limit=0.0)
    root, address = town.owner(address_of("jazz")), address_of("jazz")
    close_all(root, "jazz")
    monkeypatch.setattr(stores, "ASCENTS_MAX", 5)
    names = [each for each in town.peers if home(address, 20, spot_of(each.name, "jazz"), 3)]
    for each in names:
        root.stores.store_entries("jazz", address, 0, [entry_of(each, "jazz")], (5, 7, 0))

    assert len(root.stores.ascents) == 5


def test_a_call_to_more_than_roots_is_not_gone_through():
    town = Town(frequency_limit=0.5, deepest_level=1)
    peer = town.peers[0]
    low, high = peer.surface.committed[:2]
    peer.on_arrival(
        1, (low, high), ReplicaActivation(RouteHeader((low, high)), "jazz", 1, 1, True, 1, 1)
    )

    assert not peer.levels.roots


def test_a_store_at_a_notch_that_no_surface_has_is_not_heard():
    town = Town()
    peer, other = town.peers[0], town.peers[1]
    low, high = peer.surface.committed[:2]
    peer.receive(
        1,
        StoreRequest(
            RouteHeader((low, high), 1), "jazz", low, BITS, (entry_of(other, "jazz"),), 1, 7
        ),
    )

    assert not held(peer, "jazz", other)


def test_a_backup_stores_nothing_for_an_owner_that_cannot_be():
    """Nobody takes such items back: those of mutated backups stayed with the backup, a thousand in a million frames."""
    town = Town()
    for address in range(6):
        town.register(address, "jazz", f"own{address}")
    town.run(5)
    owner = town.owner(address_of("jazz"))
    heir = town.peers[owner.surface.backups[0]]
    before = dict(heir.surface.copies.held[owner.address].items)
    root, (low, high) = address_of("jazz"), owner.surface.committed[:2]
    entry, body = entry_of(town.peers[5], "jazz"), b"x"
    made_up = [
        Item(low, high, b"nonsense", body),
        Item(low, high, encode((9, "jazz", root, 0, None)), body),
        Item(low, high, encode((HEADER, "jazz", root, 1, None)), body),
        Item(low, high, encode((RECORD, "jazz", root, 0, None)), body),
        record_item(("jazz", root, owner.settings.last_notch), entry, low),
        Item(root, root + 1, encode((RECORD, "jazz", root, 0, b"another consumer")), encode(entry)),
    ]
    surface = owner.surface
    heir.receive(
        owner.address,
        BackupDelta(
            99,
            surface.backup_set.serial + 1,
            town.world.now_us,
            surface.ownership.version,
            tuple(surface.ownership.extents),
            tuple(made_up),
        ),
    )

    assert before
    assert heir.surface.copies.held[owner.address].items == before


def test_nothing_is_left_of_casts_that_are_over():
    town = Town(storage_limit=3, frequency_limit=0.5, rate_s=4.0, deepest_level=1)
    spread(town)
    town.keep_busy("jazz", 40)
    town.run(3 * CAST_US / _S)

    for peer in town.peers:
        each = peer.traversals
        traversals = (
            each.tasks,
            each.branches,
            each.hops,
            each.tasks.active,
            each.slow,
            peer.requests,
            peer.casts.publishing,
        )
        errands = (
            peer.stores.ascents,
            peer.containers.moves,
            peer.pushes.active,
            peer.calls.open_calls,
        )
        assert not any((*traversals, *errands)), peer.address


@pytest.mark.parametrize("dimensions", [2, 3, 4, 5, 6])
def test_a_home_lies_in_the_scaled_part_of_the_home_below(dimensions):
    settings = SpiceSettings(SurfaceSettings(dimensions, 0.5))
    notches = settings.notches()
    assert notches[0] == 0
    assert notches[-1] == settings.last_notch
    root = address_of("jazz")
    for consumer in range(20):
        spot = spot_of(name_of(b"", consumer), "jazz")
        for notch in notches[:-1]:
            at, above = home(root, notch, spot, dimensions), settings.above(notch)
            scaled = scale_within((at, at + 1), root, notch, dimensions, above - notch)
            assert contains(scaled, home(root, above, spot, dimensions))
            assert not subtract(scaled, container(root, above, dimensions))


def test_casts_of_two_incarnations_with_one_serial_are_checked_each_by_one_alarm(readable_core):
    """A publisher that came back carries on with its old casts. One alarm for both of a serial armed itself twice, and
    doubled every three seconds."""
    town = Town()
    publisher = town.peers[0]
    casts = [CastId(publisher.name, incarnation, 1) for incarnation in (1, 2)]
    for cast in casts:
        publisher.casts.publish(cast, parse("jazz"), b"", publisher.incarnation)

    before = town.world.agenda._serial
    publisher.casts.on_check_cast(CheckCast(casts[0]))
    assert town.world.agenda._serial == before + 1
