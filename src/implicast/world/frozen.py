"""A peer that stands still: its process was stopped, its machine swapped. It wakes later and does not know.

What arrives meanwhile waits, as in a socket's buffer, up to a bound; alarms ring when it wakes. Then everything is
handled in the order in which it came.
"""

from typing import Any

from implicast.peer.contract import Address, Message, Peer
from implicast.world.world import World

MAIL_MAX = 4_096
"""Messages that wait for a peer that stands still; more are lost."""


class Frozen(Peer):
    """Stands in the place of a peer and keeps its inputs, with what each was for."""

    __slots__ = ("_held", "_mail", "_world", "peer")

    def __init__(self, world: World, address: int, peer: Peer) -> None:
        super().__init__(address, world.host(address))
        self.peer = peer
        self._world = world
        self._held: list[tuple[Any, ...]] = []
        self._mail = 0

    def receive(self, sender: Address, message: Message) -> None:
        world = self._world
        if self._mail < MAIL_MAX:
            self._mail += 1
            thing = message if world.codec is None else (message, world.codec.encode(message))
            self._held.append(
                (self.address, sender, thing, world.purpose, world.depth, world.facts)
            )

    def wake(self, alarm: Message) -> None:
        world = self._world
        self._held.append((self.address, None, alarm, world.purpose, world.depth, self.host))

    def release(self) -> None:
        """Hand over what came meanwhile."""
        for what in self._held:
            self._world.push(self._world.now_us, what)


def freeze(world: World, address: int) -> None:
    """The peer stands still; nothing if it does already, or is not there."""
    peer = world.peers.get(address)
    if peer is not None and not isinstance(peer, Frozen):
        world.peers[address] = Frozen(world, address, peer)


def thaw(world: World, address: int) -> None:
    """The peer wakes; nothing if it did not stand still."""
    peer = world.peers.get(address)
    if isinstance(peer, Frozen):
        world.peers[address] = peer.peer
        peer.release()


def awake(peer: Peer) -> Peer:
    """The peer itself, even if it stands still."""
    return peer.peer if isinstance(peer, Frozen) else peer
