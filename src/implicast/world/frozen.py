"""A frozen peer: a process that is stopped or swapped out, and continues later without noticing.

Messages that arrive in the meantime are queued, as in a socket's buffer, up to `MAIL_MAX`. Alarms
that become due are queued without a bound. On thawing, all inputs are handled in order of arrival.
"""

from typing import Any

from implicast.peer.contract import Address, Message, Peer
from implicast.world.world import World

MAIL_MAX = 4_096
"""Messages queued for a frozen peer; further ones are dropped."""


class Frozen(Peer):
    """Replaces a peer in the world and queues its inputs, each with its purpose and depth."""

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
        """Put the queued inputs on the agenda, due now."""
        for what in self._held:
            self._world.push(self._world.now_us, what)


def freeze(world: World, address: int) -> None:
    """Freeze the peer at an address. No effect if it is frozen already or absent."""
    peer = world.peers.get(address)
    if peer is not None and not isinstance(peer, Frozen):
        world.peers[address] = Frozen(world, address, peer)


def thaw(world: World, address: int) -> None:
    """Thaw the peer at an address. No effect if it is not frozen."""
    peer = world.peers.get(address)
    if isinstance(peer, Frozen):
        world.peers[address] = peer.peer
        peer.release()


def awake(peer: Peer) -> Peer:
    """The peer itself, without the `Frozen` wrapper around it if there is one."""
    return peer.peer if isinstance(peer, Frozen) else peer
