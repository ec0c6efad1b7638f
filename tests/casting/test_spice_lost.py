"""Ground whose registries died with their owner and all its heirs: nobody says that nobody is registered there."""

from test_spice_receipts import Town

from implicast.casting.spice.homes import address_of
from implicast.peer.events import Settled
from implicast.world.frozen import awake

PEERS = 12
ROOT = address_of("jazz")


class Bereft(Town):
    """A town in which four are registered under a tag, and its owner has just died with all its heirs."""

    def __init__(self, seed):
        super().__init__(PEERS, seed=seed)
        owner = self.owner(ROOT)
        dying = {owner.address, *owner.surface.heirs}
        others = [each for each in range(PEERS) if each not in dying]
        self.members, self.publisher, self.receipts = others[:4], others[4], []
        for each in self.members:
            self.register(each, "jazz")
        self.run(5)
        assert all(map(self.complete, self.members))
        for each in dying:
            self.world.crash(each)

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

    def lacking(self):
        """Who knows that it lacks what was registered at the tag's address."""
        return [each for each in map(awake, self.world.peers.values()) if each.shelf.lacking]


def test_a_cast_waits_until_all_who_were_registered_have_said_so_again():
    for seed in range(3, 8):
        town = Bereft(seed)
        cast = town.cast(town.publisher, "jazz")
        town.run(60)

        assert town.receipts == [(cast, 4, 4)], seed
        assert town.told(cast) == town.members
        assert not town.lacking()
