"""No receipt says that nobody was there: not of a cast to ground whose registries died with their owner and all its
backups, nor where the answers of whoever told the members are lost."""

from threading import Event

import pytest
from test_spice_receipts import Town

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.items import UNRECOVERED_KEY
from implicast.casting.spice.traversal_messages import ReregisterRequest
from implicast.casting.spice.traversals import Traversals
from implicast.peer.events import Settled
from implicast.space.tract import contains
from implicast.world.frozen import awake

PEERS = 12
ROOT = address_of("jazz")


class Square(Town):
    """A town in which four are registered under a tag; neither they nor the publisher keep anything of it."""

    def __init__(self, seed):
        super().__init__(PEERS, seed=seed)
        self.keeper = self.owner(ROOT)
        self.keepers = {self.keeper.address, *self.keeper.surface.backups}
        others = [each for each in range(PEERS) if each not in self.keepers]
        self.members, self.publisher, self.receipts = others[:4], others[4], []
        for each in self.members:
            self.register(each, "jazz")
        self.run(5)
        assert all(map(self.complete, self.members))

    def _hear(self, address, event):
        if isinstance(event, Settled):
            self.receipts.append((event.cast, event.expected, event.notified))
        else:
            super()._hear(address, event)

    def until(self, is_so, seconds=60):
        """Run until something is so; at most so long."""
        for _ in range(seconds * 1000):
            if is_so():
                return True
            self.run(0.001)
        return False


class Bereft(Square):
    """The same when the tag's owner has just died with all its backups."""

    def __init__(self, seed):
        super().__init__(seed)
        for each in self.keepers:
            self.world.crash(each)

    def lacking(self):
        """Who knows that it lacks what was registered at the tag's address."""
        return [
            each
            for each in map(awake, self.world.peers.values())
            if contains(each.registries.unrecovered, ROOT)
        ]


def test_the_notifier_may_crash_before_it_reports():
    for seed in range(3, 8):
        town = Square(seed)
        cast = town.cast(town.publisher, "jazz")
        assert town.until(lambda town=town, cast=cast: town.told(cast) == town.members)
        town.world.crash(town.keeper.address)
        assert not town.receipts
        town.run(60)

        assert town.receipts == [(cast, 4, 4)], seed
        assert town.told(cast) == town.members


@pytest.fixture
def deaf(monkeypatch):
    """While it is set, nobody hears the call for what was lost."""
    come, is_deaf = Traversals.begin_branch, Event()

    def came(self, sender, traversal):
        if not (is_deaf.is_set() and isinstance(traversal, ReregisterRequest)):
            come(self, sender, traversal)

    is_deaf.set()
    monkeypatch.setattr(Traversals, "begin_branch", came)
    return is_deaf


def test_a_cast_waits_until_all_lost_registrations_are_repeated():
    for seed in range(3, 8):
        town = Bereft(seed)
        cast = town.cast(town.publisher, "jazz")
        town.run(60)

        assert town.receipts == [(cast, 4, 4)], seed
        assert town.told(cast) == town.members
        assert not town.lacking()


def test_who_is_given_such_ground_lets_casts_wait_too(deaf):
    town = Bereft(3)
    assert town.until(town.lacking)
    (first,) = town.lacking()
    cast = town.cast(town.publisher, "jazz")
    piece = next(each for each in first.surface.extents if each.low <= ROOT < each.high)
    assert town.until(
        lambda: not first.surface.ownership.status and first.surface.handoff.outgoing is None
    )
    taker = first.surface.ownership.neighbours()[0]
    first.surface.handoff.hand_off(piece, taker)
    assert town.until(lambda: contains(town.peers[taker].surface.committed, ROOT))
    assert town.lacking() == [town.peers[taker]]
    assert not town.receipts
    deaf.clear()
    town.run(60)

    assert town.receipts == [(cast, 4, 4)]
    assert not town.lacking()


def test_who_inherits_such_ground_lets_casts_wait_too(deaf):
    town = Bereft(5)
    assert town.until(town.lacking)
    (first,) = town.lacking()
    assert first.address not in (*town.members, town.publisher)
    town.run(1)
    town.world.crash(first.address)
    cast = town.cast(town.publisher, "jazz")
    assert town.until(town.lacking)
    assert not town.receipts
    deaf.clear()
    town.run(60)

    assert town.receipts == [(cast, 4, 4)]
    assert not town.lacking()


def test_a_backup_knows_of_a_lost_tract_when_another_is_handed_off(deaf):
    town = Town(PEERS)
    owner = town.peers[0]
    low, high = owner.surface.committed
    middle = (low + high) // 2
    for lost in (low, middle), (middle, high):
        owner.lost(lost)
        town.run(0.5)
    surface = owner.surface
    surface.handoff.hand_off(
        surface.ownership.split(surface.extents[0], middle), surface.ownership.neighbours()[0]
    )
    town.run(1)

    assert owner.registries.unrecovered == surface.committed == (low, middle)
    assert len(surface.backups) == 2
    for heir in surface.backups:
        assert UNRECOVERED_KEY in town.peers[heir].surface.copies.held[0].items
