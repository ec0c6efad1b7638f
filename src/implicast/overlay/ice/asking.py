"""What a peer of the surface asks others, until they answer: the toolbox's asker, with the surface's patience.

One rule for every question: send, wait, twice as long each time up to a bound, so many times in all; then the other is
*suspect* until any word comes from it (`circle.py`). Greetings are asked apart: they are upkeep, and no run waits for
them.
"""

from implicast.overlay.ice.settings import Timers
from implicast.overlay.ice.share import Surface
from implicast.peer.asking import Asking, Lost, Patience
from implicast.peer.contract import Message, handles


class StillOpen(Message):
    """Rings when questions have not been answered for their wait."""


class StillSilent(Message):
    """Rings when greetings have not been echoed for their wait."""

    upkeep = True


class Correspondence(Asking):
    """Questions about hops, gives, copies and backups."""

    __slots__ = ("_timers",)
    alarm = StillOpen()

    def __init__(self, surface: Surface) -> None:
        self._timers = surface.terms.timers
        super().__init__(surface.address, surface.host, self._timers.asks_max, surface.circle.took)

    def declare(self, topic: str, times: int, lost: Lost) -> None:
        """What is asked so many times in all, and who is told when nobody answers."""
        self.topic(topic, patience(self._timers, times), lost)

    @handles(StillOpen)
    def on_still_open(self, alarm: StillOpen) -> None:
        self.ask_again()


class Greeter(Asking):
    """Greetings that await their echoes."""

    __slots__ = ()
    alarm = StillSilent()

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.address, surface.host, surface.terms.timers.asks_max, surface.circle.took)

    @handles(StillSilent)
    def on_still_silent(self, alarm: StillSilent) -> None:
        self.ask_again()


def patience(timers: Timers, times: int) -> Patience:
    return Patience(timers.rto_us, times, 2.0, timers.cap_us)
