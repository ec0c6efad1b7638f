"""Temporary faults of a running network: dead and flapping links, partitions in both directions or
one, deaf hosts, slow peers.

`faults.py` describes the faults that last for the whole run; scripted events switch those of this
module on and off.
"""

from implicast.world.faults import DelayFunction, without_faults
from implicast.world.world import MessageFaults


class LinkFaults:
    """Delays of each message under the faults now in force, combined with the permanent faults
    `kind`.
    """

    __slots__ = ("_apart", "_cut", "_deaf", "_kind", "_mute", "_slow_us", "copy_delays_us")

    def __init__(self, kind: MessageFaults | None) -> None:
        self._kind: DelayFunction = without_faults if kind is None else kind.copy_delays_us
        self.copy_delays_us: DelayFunction = self._kind
        """Delay of each copy of a message. Without temporary faults this is the function of `kind`
        itself, which saves a call per message.
        """
        self._cut: dict[tuple[int, int], list[int]] = {}
        self._apart: list[frozenset[int]] = []
        self._mute: list[frozenset[int]] = []
        """Sides whose messages do not leave them."""
        self._deaf: list[frozenset[int]] = []
        self._slow_us: dict[int, int] = {}

    # --- switching faults on and off

    def cut(self, link: tuple[int, int], turn_us: int = 0) -> None:
        """Drop all messages in one direction of a link. With `turn_us`, the link alternates between
        dead and alive every `turn_us` microseconds.
        """
        self._cut.setdefault(link, []).append(turn_us)
        self._turn()

    def mend(self, link: tuple[int, int], turn_us: int = 0) -> None:
        self._cut[link].remove(turn_us)
        if not self._cut[link]:
            del self._cut[link]
        self._turn()

    def split(self, side: frozenset[int]) -> None:
        """Drop all messages between this side and all other hosts."""
        self._apart.append(side)
        self._turn()

    def heal(self, side: frozenset[int]) -> None:
        self._apart.remove(side)
        self._turn()

    def mute(self, side: frozenset[int]) -> None:
        """Drop all messages from this side to all other hosts."""
        self._mute.append(side)
        self._turn()

    def unmute(self, side: frozenset[int]) -> None:
        self._mute.remove(side)
        self._turn()

    def deafen(self, hosts: frozenset[int]) -> None:
        """Drop all messages to these hosts."""
        self._deaf.append(hosts)
        self._turn()

    def undeafen(self, hosts: frozenset[int]) -> None:
        self._deaf.remove(hosts)
        self._turn()

    def slow(self, host: int, more_us: int) -> None:
        """Add to the latency of every message to or from a host. A negative value takes an earlier
        one back.
        """
        self._slow_us[host] = self._slow_us.get(host, 0) + more_us
        if not self._slow_us[host]:
            del self._slow_us[host]
        self._turn()

    def calm(self) -> None:
        """End the permanent faults of the network: it loses and duplicates nothing from now on."""
        self._kind = without_faults
        self._turn()

    # --- effect on messages

    def _turn(self) -> None:
        self.copy_delays_us = (
            self._faulty_delays_us if self._severing() or self._slow_us else self._kind
        )

    def _severing(self) -> bool:
        return bool(self._cut or self._apart or self._mute or self._deaf)

    def _faulty_delays_us(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        if self._severing() and self._severed(now_us, sender, receiver):
            return ()
        copies = self._kind(now_us, sender, receiver, latency_us)
        slow_us = self._slow_us
        if slow_us:
            more_us = slow_us.get(sender, 0) + slow_us.get(receiver, 0)
            copies = tuple(taken_us + more_us for taken_us in copies)
        return copies

    def meet(self, now_us: int, one: int, other: int) -> bool:
        """Whether messages pass between two hosts in both directions."""
        return not (self._severed(now_us, one, other) or self._severed(now_us, other, one))

    def _severed(self, now_us: int, sender: int, receiver: int) -> bool:
        for turn_us in self._cut.get((sender, receiver), ()):
            if not turn_us or now_us // turn_us % 2 == 0:
                return True
        return (
            any((sender in side) != (receiver in side) for side in self._apart)
            or any(sender in side and receiver not in side for side in self._mute)
            or any(receiver in hosts for hosts in self._deaf)
        )
