"""What every part of a surface knows, and the numbers that identify handoffs, hops and batches."""

from random import Random
from typing import NamedTuple

from implicast.overlay.ice.item_store import ItemStore
from implicast.overlay.ice.settings import SurfaceSettings
from implicast.peer.contract import Address, Host

NUMBER_BITS = 40


class NumberSource:
    """Numbers of handoffs, hops and batches: random at first, to tell incarnations apart, then
    counted.
    """

    __slots__ = ("_last", "_rng")

    def __init__(self, rng: Random) -> None:
        self._rng, self._last = rng, 0

    def begin(self) -> None:
        """Draw the first number now instead of at the first use."""
        self._last = self._rng.getrandbits(NUMBER_BITS)

    def next(self) -> int:
        self._last = (self._last or self._rng.getrandbits(NUMBER_BITS)) + 1
        return self._last


class SurfaceSite(NamedTuple):
    """Identity, host, settings and store of one peer on a surface."""

    address: Address
    host: Host
    settings: SurfaceSettings
    store: ItemStore
    numbers: NumberSource
    born_us: int
    """Start of this incarnation, later than that of any earlier one at this address."""
