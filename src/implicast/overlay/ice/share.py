"""What every part of a surface has: the surface that it is a part of, and by way of that the other parts."""

from typing import TYPE_CHECKING

from implicast.overlay.ice.settings import Timers
from implicast.peer.contract import Part

if TYPE_CHECKING:
    from implicast.overlay.ice.surface import Surface as Surface
else:
    Surface = Part  # it is made of the parts: they only name it


class SurfacePart(Part):
    """A part of a surface: it owns some of the state, and asks other parts for what they own."""

    __slots__ = ("surface",)

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.address, surface.host)
        self.surface = surface

    @property
    def timers(self) -> Timers:
        return self.surface.terms.timers
