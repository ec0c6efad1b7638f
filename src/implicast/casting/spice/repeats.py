"""What is said again, after longer and longer waits, until it is done."""

from implicast.casting.spice.settings import STORE_US, WAIT_LONGEST_US
from implicast.space.tract import EMPTY, Tract, subtract


class Repeated:
    """Something that is said again until it is done, to several owners perhaps."""

    __slots__ = ("outstanding", "wait_us")

    def __init__(self, outstanding: Tract = EMPTY) -> None:
        self.outstanding, self.wait_us = outstanding, STORE_US

    def wait_longer(self) -> int:
        """How long to wait now; the next time longer."""
        wait_us, self.wait_us = self.wait_us, min(2 * self.wait_us, WAIT_LONGEST_US)
        return wait_us

    def is_over(self, part: Tract) -> bool:
        """This part has been dealt with; has all?"""
        self.outstanding = subtract(self.outstanding, part)
        return not self.outstanding
