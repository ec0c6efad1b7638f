"""What is said again, after longer and longer waits, until it is done."""

from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US


class Repeated:
    """Something that is said again until it is done."""

    __slots__ = ("wait_us",)

    def __init__(self) -> None:
        self.wait_us = STORE_US

    def wait_longer(self) -> int:
        """How long to wait now; the next time longer."""
        wait_us, self.wait_us = self.wait_us, min(2 * self.wait_us, WAIT_LONGEST_US)
        return wait_us
