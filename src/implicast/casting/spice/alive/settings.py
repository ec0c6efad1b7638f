"""What all peers of one living SPICE network agree on, and how long they wait for each other."""

from dataclasses import dataclass, field

from implicast.casting.spice.settings import NO_LIMIT
from implicast.overlay.ice.settings import Timers
from implicast.space.morton import BITS

STORE_US = 2_000_000
"""After this time a consumer asks again for tags that have not been confirmed; doubling up to `WAIT_LONGEST_US`."""
BRANCH_US = 3_000_000
"""After this time what has not been covered of a branch is sent again; doubling up to `WAIT_LONGEST_US`."""
WAIT_LONGEST_US = 8_000_000
NOTIFY_US = 500_000
"""After this time a notification that was not confirmed is sent again; doubling up to `NOTIFY_LONGEST_US`."""
NOTIFY_LONGEST_US = 4_000_000
NOTIFY_TRIES = 12
"""Half a minute of patience with a consumer and more: freezes and partitions are to be outlived."""
SILENT_TRIES = 3
"""For a consumer that was silent through all of them lately."""
CAST_US = 90_000_000
"""A cast lives this long: longer than the patience with a consumer and the repair of a hole together."""
COLLECT_US = 20_000
"""Entries that come in within this time are backed up together."""
SMALLEST_BITS = 24
"""The smallest container above a tag's own address is this many halvings of the surface: between the two, notches would
only matter among more than sixteen million peers, and would be a dozen registries inside one peer among fewer."""
VETO_US = 10_000_000
"""Without an answer from every root in this time a level is not lowered."""
HOLD_WINDOWS = 8
"""After a veto nobody proposes to lower a level for so many windows."""


@dataclass(frozen=True, slots=True)
class LivingSettings:
    """Parameters, checked and computed."""

    dimensions: int
    cosine: float
    merge: bool
    storage_limit: int = NO_LIMIT
    deepest: int = 0
    """The deepest level at which a cast looks for a replica, and to which one is raised."""
    frequency_limit: float = 0.0
    """Casts per second at one root beyond which the level is raised; 0: never."""
    rate_us: int = 0
    """The window in which casts are counted."""
    lease_us: int = 600_000_000
    """A record that was not renewed for so long is forgotten; renewals come three times as often."""
    life: Timers = field(default_factory=Timers)

    @property
    def last_notch(self) -> int:
        """At which the container is the whole surface."""
        return BITS // self.dimensions

    @property
    def spreads(self) -> bool:
        """Can a registry become too large for one peer?"""
        return self.storage_limit < NO_LIMIT

    def above(self, notch: int) -> int:
        """The next notch."""
        return notch + 1 if notch else max(1, self.last_notch - SMALLEST_BITS // self.dimensions)

    def notches(self) -> list[int]:
        """All of them, from the tag's own address to the whole surface."""
        return [0, *range(self.above(0), self.last_notch + 1)]
