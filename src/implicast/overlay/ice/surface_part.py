"""Base class of the parts of a surface, and the table of their pending requests.

One rule holds for every request: send, wait, double the wait up to a limit, give up after a fixed
number of attempts. The addressee is then *suspect* until any message arrives from it
(`members.py`). Heartbeats have a request table of their own, because they are upkeep: a simulation
does not wait for them to end.
"""

from typing import TYPE_CHECKING

from implicast.peer.contract import Message, Part, handles
from implicast.peer.requests import AbstractRequests

if TYPE_CHECKING:
    from implicast.overlay.ice.surface import IceSurface as IceSurface
else:
    IceSurface = Part  # the surface is composed of the parts, which need it only as a type


class SurfacePart(Part):
    """A part of a surface: it owns some of the state and reaches the other parts through the
    surface.
    """

    __slots__ = ("surface", "timers")

    def __init__(self, surface: IceSurface) -> None:
        super().__init__(surface.address, surface.host)
        self.surface, self.timers = surface, surface.settings.timers


class RequestsDue(Message):
    """Fires when a request has not been answered within its wait."""


class SurfaceRequests(AbstractRequests):
    """Pending requests for hops, handoffs, snapshots and deltas."""

    __slots__ = ()
    alarm = RequestsDue()

    @handles(RequestsDue)
    def on_still_open(self, alarm: RequestsDue) -> None:
        self.resend_due()
