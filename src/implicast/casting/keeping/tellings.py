"""The publisher tells everybody that its cast selects, each until it confirms, and knows in the end how many did."""

from collections.abc import Mapping

from implicast.casting.reliable import Hops
from implicast.peer.contract import Address, CastId, Host, Message
from implicast.peer.events import Settled

SETTLING_MAX = 16_384
"""Casts whose ends are awaited; the end of the oldest is not told beyond that."""


class Tellings:
    """Casts under way whose audience is known."""

    __slots__ = ("_address", "_host", "_settling", "hops")

    def __init__(self, address: Address, host: Host) -> None:
        self._address, self._host = address, host
        self.hops = Hops(address, host, self._confirmed, self._given_up)
        self._settling: dict[CastId, list[int]] = {}

    def __len__(self) -> int:
        return len(self._settling)

    def tell(self, cast: CastId, messages: Mapping[Address, Message], here: int) -> None:
        """Tell these, each until it confirms; `here` of them were told by a call."""
        if len(self._settling) >= SETTLING_MAX:
            del self._settling[next(iter(self._settling))]
        self._settling[cast] = [here, 0, len(messages) + 1]
        for to, message in messages.items():
            self.hops.send(to, cast, message)
        self._ended(cast)

    def _confirmed(self, to: Address, cast: CastId) -> None:
        if cast in self._settling:
            self._settling[cast][0] += 1
            self._ended(cast)

    def _given_up(self, to: Address, cast: CastId) -> None:
        if cast in self._settling:
            self._settling[cast][1] += 1
            self._ended(cast)

    def _ended(self, cast: CastId) -> None:
        counts = self._settling[cast]
        counts[2] -= 1
        if not counts[2]:
            del self._settling[cast]
            self._host.deliver(Settled(cast, counts[0], counts[1]))
