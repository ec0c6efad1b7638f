"""Carries messages of casts over one hop until the other end confirms them.

    self.hops = Hops(address, host, given_up=self.on_given_up)
    self.hops.send(to, cast, Notify(cast, ...))  # again every `REPEAT_US` until `to` confirms this cast
    self.hops.confirm(sender, notify.cast)       # at the receiver, also for repeats

Repeats are bounded: whoever stays silent for the whole patience is given up, and the owner is told. Every receiver must
recognise repeats (`inbox.py`), because a confirmation can be lost.
"""

from collections.abc import Callable

from implicast.peer.contract import Address, CastId, Host, Message, Part, handles
from implicast.peer.pending import Pending

REPEAT_US = 2_000_000
REPEATS_MAX = 20
"""Patience of 40 s: longer than the freezes and partitions that are to be outlived."""
UNCONFIRMED_MAX = 65_536
"""Messages awaiting confirmation at one peer; beyond that they are sent once only."""


class Got(Message):
    """Confirms one hop of a cast."""

    cast: CastId


class Repeat(Message):
    """Rings when a hop has not been confirmed for a while."""


Told = Callable[[Address, CastId], None]


def _ignore(to: Address, cast: CastId) -> None:
    """Nobody wants to know."""


class Hops(Part):
    """Unconfirmed messages of one peer."""

    __slots__ = ("_confirmed", "_given_up", "_open")

    def __init__(self, address: Address, host: Host, confirmed: Told = _ignore, given_up: Told = _ignore) -> None:
        super().__init__(address, host)
        self._confirmed, self._given_up = confirmed, given_up
        self._open: Pending[tuple[Address, CastId], tuple[Message, int]] = Pending(
            host, Repeat(), REPEAT_US, UNCONFIRMED_MAX
        )

    def __len__(self) -> int:
        return len(self._open)

    def send(self, to: Address, cast: CastId, message: Message) -> None:
        self._open.ask((to, cast), (message, REPEATS_MAX))
        self.host.send(to, message)

    def drop(self, to: Address, cast: CastId) -> None:
        """It need not be confirmed any more."""
        self._open.answer((to, cast))

    def confirm(self, sender: Address, cast: CastId) -> None:
        self.host.send(sender, Got(cast))

    @handles(Got)
    def on_got(self, sender: Address, got: Got) -> None:
        if self._open.answer((sender, got.cast)) is not None:
            self._confirmed(sender, got.cast)

    @handles(Repeat)
    def on_repeat(self, alarm: Repeat) -> None:
        for (to, cast), (message, left) in self._open.due():
            if left:
                self._open.ask((to, cast), (message, left - 1))
                self.host.send(to, message)
            else:
                self._given_up(to, cast)
