"""Troubles that come and go while a system runs: dead and flapping links, partitions, slow peers.

Beside `faults.py`, which says what the network is like all the time, this is what deeds do to it for a while.
"""

from implicast.world.faults import Judged, unharmed
from implicast.world.world import Fate


class Trouble:
    """The fate of each message, as things stand. What `kind` says of it comes on top."""

    __slots__ = ("_apart", "_cut", "_kind", "_slow_us", "fate")

    def __init__(self, kind: Fate | None) -> None:
        self._kind: Judged = unharmed if kind is None else kind.fate
        self.fate: Judged = self._kind
        """What befalls a message. While there is no trouble that is `kind`'s own word: a call less for each message."""
        self._cut: dict[tuple[int, int], list[int]] = {}
        self._apart: list[frozenset[int]] = []
        self._slow_us: dict[int, int] = {}

    # --- deeds

    def cut(self, link: tuple[int, int], turn_us: int = 0) -> None:
        """Nothing arrives over a link, in this direction; in every other turn only, if a turn is given."""
        self._cut.setdefault(link, []).append(turn_us)
        self._turn()

    def mend(self, link: tuple[int, int], turn_us: int = 0) -> None:
        self._cut[link].remove(turn_us)
        if not self._cut[link]:
            del self._cut[link]
        self._turn()

    def split(self, side: frozenset[int]) -> None:
        """No message crosses between this side and all others."""
        self._apart.append(side)
        self._turn()

    def heal(self, side: frozenset[int]) -> None:
        self._apart.remove(side)
        self._turn()

    def slow(self, host: int, more_us: int) -> None:
        """Everything to and from a host takes so much longer; a negative time takes it back."""
        self._slow_us[host] = self._slow_us.get(host, 0) + more_us
        if not self._slow_us[host]:
            del self._slow_us[host]
        self._turn()

    def calm(self) -> None:
        """From now on the network itself loses and repeats nothing."""
        self._kind = unharmed
        self._turn()

    # --- what they do

    def _turn(self) -> None:
        self.fate = self._troubled if self._cut or self._apart or self._slow_us else self._kind

    def _troubled(
        self, now_us: int, sender: int, receiver: int, latency_us: int
    ) -> tuple[int, ...]:
        if (self._cut or self._apart) and self._severed(now_us, sender, receiver):
            return ()
        copies = self._kind(now_us, sender, receiver, latency_us)
        slow_us = self._slow_us
        if slow_us:
            more_us = slow_us.get(sender, 0) + slow_us.get(receiver, 0)
            copies = tuple(taken_us + more_us for taken_us in copies)
        return copies

    def meet(self, now_us: int, one: int, other: int) -> bool:
        """Whether messages pass between these two, both ways."""
        return not (self._severed(now_us, one, other) or self._severed(now_us, other, one))

    def _severed(self, now_us: int, sender: int, receiver: int) -> bool:
        for turn_us in self._cut.get((sender, receiver), ()):
            if not turn_us or now_us // turn_us % 2 == 0:
                return True
        return any((sender in side) != (receiver in side) for side in self._apart)
