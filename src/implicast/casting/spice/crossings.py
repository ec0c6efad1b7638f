"""Casts that come by without receipts leave nothing behind: what is plain of them is done by compiled code.

`Walks` is the law for it, and does all that is not plain: where something is confirmed, signed, limited or complained
of, at a tag's own address, on ground that is not one firm piece, for parts to which nobody is nearer.
"""

from typing import Any

from implicast.casting.spice.homes import address_of
from implicast.casting.spice.messages import CastAgain, CastTo
from implicast.casting.spice.share import Spice, SpicePart
from implicast.casting.telling import Notify
from implicast.overlay.ice.estate import Way
from implicast.peer.contract import Address, handles
from implicast.peer.policy import FREE
from implicast.space.built import built

_BUILT = built("casting.spice._records")


class Crossings(SpicePart):
    """Casts of others that come by. `swift` takes those that are plain: a world that knows it may go there first."""

    __slots__ = ("swift",)

    def __init__(self, spice: Spice) -> None:
        super().__init__(spice)
        plain = not (self.settings.assured or spice.words.signed) and spice.policy is FREE
        self.swift: Any = None
        if plain and _BUILT is not None:
            self.swift = _BUILT.Walker(spice, CastTo, Way, Notify, address_of)

    @handles(CastTo, CastAgain)
    def on_cast(self, sender: Address, cast: CastTo) -> None:
        if self.swift is None or not self.swift.go(cast):
            self.spice.walks.on_cast(sender, cast)

    def heed(self) -> None:
        """Complaints are heeded from now on."""
        if self.swift is not None:
            self.swift.stop()
