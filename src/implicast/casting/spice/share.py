"""What every part of a SPICE peer has: the peer that it is a part of, and by way of that the other parts."""

from typing import TYPE_CHECKING

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
