"""A peer of living SPICE: the surface below, registries and casts on it, and the verbs of the application."""

from implicast.casting.spice.alive.registering import Registering
from implicast.casting.spice.alive.settings import LivingSettings
from implicast.peer.contract import Address, Host


class LivingSpice(Registering):
    """One participant; all are alike."""

    __slots__ = ("going",)

    def __init__(self, address: Address, host: Host, settings: LivingSettings) -> None:
        super().__init__(address, host, settings)
        self.going = False

    def join(self, introducers: tuple[Address, ...]) -> None:
        self.surface.join(introducers)

    def leave(self) -> None:
        """Withdraw, wait until that is complete, then hand over the ground with all that is kept on it."""
        self.going = True
        self.withdraw()

    def _confirm_if_complete(self) -> None:
        super()._confirm_if_complete()
        if self.going and not self.awaited:
            self.going = False
            self.surface.leave()
