"""What parts of a SPICE peer have in common: the peer, and by it the other parts; and how they say things again."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US
from implicast.peer.contract import Part

if TYPE_CHECKING:
    from implicast.casting.spice.spice import Spice as Spice
else:
    Spice = Part  # it is made of the parts: they only name it


class SpicePart(Part):
    """A part of a peer: it owns some of the state, and asks other parts for what they own."""

    __slots__ = ("settings", "spice", "surface")

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice.address, spice.host)
        self.spice, self.settings, self.surface = spice, spice.settings, spice.surface


@dataclass(slots=True)
class Repeated:
    """Something that is said again, after longer and longer waits, until it is done."""

    wait_us: int = field(default=STORE_US, init=False)

    def wait_longer(self) -> int:
        """How long to wait now; the next time longer."""
        wait_us, self.wait_us = self.wait_us, min(2 * self.wait_us, WAIT_LONGEST_US)
        return wait_us
