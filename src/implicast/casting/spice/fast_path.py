"""Compiled fast path for casts without receipts that pass through a peer.

`Traversals` is the reference implementation, and handles every case that the fast path does not:
acknowledged, signed or rate-limited casts, complaints, notch 0, a peer whose committed tract is not
one interval, and parts for which no neighbour is nearer.
"""

from typing import Any

from implicast.casting.notifier import Notify
from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import CastRequest, RepeatedCastRequest
from implicast.casting.spice.part import Spice, SpicePart
from implicast.overlay.ice.item_store import RouteHeader
from implicast.peer.contract import Address, handles
from implicast.peer.policy import UNLIMITED
from implicast.space.built import built

_BUILT = built("casting.spice._records")


class FastPath(SpicePart):
    """Receives casts. `swift` is the compiled handler or None; the compiled event loop may call it
    directly.
    """

    __slots__ = ("swift",)

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        plain = not (self.settings.assured or spice.signing.signed) and spice.policy is UNLIMITED
        self.swift: Any = None
        if plain and _BUILT is not None:
            self.swift = _BUILT.FastTraversal(spice, CastRequest, RouteHeader, Notify, address_of)

    @handles(CastRequest, RepeatedCastRequest)
    def on_cast(self, sender: Address, cast: CastRequest) -> None:
        if self.swift is None or not self.swift.go(cast):
            self.spice.traversals.on_cast(sender, cast)

    def disable(self) -> None:
        """Leave all casts to `Traversals` from now on, so that the complaint log is checked."""
        if self.swift is not None:
            self.swift.stop()
