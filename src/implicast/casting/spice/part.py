"""Base of the parts of a SPICE peer, and the back-off of repeated requests."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US
from implicast.peer.backoff import backed_off_us
from implicast.peer.contract import Part

if TYPE_CHECKING:
    from implicast.casting.spice.spice import Spice as Spice
else:
    Spice = Part  # the class is needed only as a type


class SpicePart(Part):
    """A part of a peer. It owns some of the state and reaches the other parts through the peer."""

    __slots__ = ("settings", "spice", "surface")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice.address, spice.host)
        self.spice, self.settings, self.surface = spice, spice.settings, spice.surface


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
