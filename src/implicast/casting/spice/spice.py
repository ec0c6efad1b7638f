"""A peer of SPICE: the surface below, registries and casts on it, and the verbs of the application."""

from implicast.casting.spice.casting import Casting
from implicast.casting.spice.settings import Settings
from implicast.peer.contract import Address, Host


class Spice(Casting):
    """One participant; all are alike."""

    __slots__ = ("going",)

    def __init__(self, address: Address, host: Host, settings: Settings) -> None:
        super().__init__(address, host, settings)
        self.going = False

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.surface.join(introducers)

    def leave(self) -> None:
        """Withdraw, wait until that is complete, then hand over the ground with all that is kept on it."""
        self.going = True
        if self.told:
            self.withdraw()
        else:
            self.surface.leave()

    def _confirm_if_complete(self) -> None:
        super()._confirm_if_complete()
        if self.going and not self.awaited:
            self.surface.leave()
