"""What the parts of a surface share: the surface, by way of which they reach each other, and its asker.

One rule for every question: send, wait, twice as long each time up to a bound, so many times in all; then the other is
*suspect* until any word comes from it (`circle.py`). Greetings are asked apart: they are upkeep, no run waits for them.
"""

from typing import TYPE_CHECKING

from implicast.peer.asking import Asking
from implicast.peer.contract import Message, Part, handles

if TYPE_CHECKING:
    from implicast.overlay.ice.surface import Surface as Surface
else:
    Surface = Part  # it is made of the parts: they only name it


class SurfacePart(Part):
    """A part of a surface: it owns some of the state, and asks other parts for what they own."""

    __slots__ = ("surface", "timers")

    def __init__(self, surface: Surface) -> None:
        super().__init__(surface.address, surface.host)
        self.surface, self.timers = surface, surface.terms.timers


class StillOpen(Message):
    """Rings when questions have not been answered for their wait."""


class Correspondence(Asking):
    """Questions about hops, gives, copies and backups."""

    __slots__ = ()
    alarm = StillOpen()

    @handles(StillOpen)
    def on_still_open(self, alarm: StillOpen) -> None:
        self.ask_again()
