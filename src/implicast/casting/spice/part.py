"""Base of the parts of a SPICE peer: what all of them are handed, and the back-off of repeated
requests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US, SpiceSettings
from implicast.overlay.ice.fixed_surface import FixedSurface
from implicast.peer.backoff import backed_off_us
from implicast.peer.contract import Part
from implicast.peer.signing import Signing
from implicast.peer.timer_wheel import TimerWheel


class Tools(NamedTuple):
    """What every part of one peer is handed. None of it knows a part."""

    settings: SpiceSettings
    surface: FixedSurface
    timer_wheel: TimerWheel
    signing: Signing
    next_token: Callable[[], int]
    """A new token for a request of this peer."""


class SpicePart(Part):
    """A part of a peer that handles messages. Its constructor names the parts that it uses and the
    callbacks by which it reports to the others.
    """

    __slots__ = ("next_token", "settings", "signing", "surface", "timer_wheel")

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools.surface.address, tools.surface.host)
        self.settings, self.surface, self.timer_wheel, self.signing, self.next_token = tools


class SpiceTable:
    """A table of work in progress that parts share. It handles no messages itself."""

    __slots__ = ("address", "host", "next_token", "settings", "signing", "surface", "timer_wheel")

    def __init__(self, tools: Tools) -> None:
        self.address, self.host = tools.surface.address, tools.surface.host
        self.settings, self.surface, self.timer_wheel, self.signing, self.next_token = tools


@dataclass(slots=True)
class StoreBackoff:
    """Wait times of a request that is repeated until it is done: `STORE_US`, doubling up to
    `WAIT_LONGEST_US`.
    """

    wait_us: int = field(default=STORE_US, init=False)

    def next_wait_us(self) -> int:
        """The time to wait now. The next one is twice as long."""
        wait_us, self.wait_us = self.wait_us, backed_off_us(self.wait_us, 1, WAIT_LONGEST_US)
        return wait_us
