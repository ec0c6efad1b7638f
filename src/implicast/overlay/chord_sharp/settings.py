"""Waits of table maintenance on a Chord# ring."""

from dataclasses import dataclass

from implicast.overlay.chord_sharp.table import NEVER_US


@dataclass(frozen=True, slots=True)
class SharpSettings:
    """Waits of table maintenance."""

    period_us: int = 24_000_000
    """Period of the rounds; 0: no rounds, the table is refreshed on demand."""
    stale_us: int = 32_000_000
    """Older entries count as unknown. One period plus the longest duration of a round."""
    catch_up_us: int = 1_000_000
    """After this time in a round a node requests the levels that are missing."""
    step_us: int = 400_000
    """The request for missing levels is repeated after this, each time one level higher: most
    missing levels are missing because of one below, and arrive without a request once that one is
    known.
    """
    again_us: int = 1_000_000
    """Least time between two requests to the same node."""
    tries: int = 4
    """Unanswered requests before a node is suspected, or dropped where there is no detector."""
    resting: bool = False
    """Nothing will change: no rounds begin and no entry expires."""

    @property
    def rounds(self) -> bool:
        return self.period_us > 0

    @property
    def age_us(self) -> int:
        """The largest age of entries in a table; 0: the table does not track ages."""
        return NEVER_US if self.resting and self.rounds else self.stale_us if self.rounds else 0


ON_DEMAND = SharpSettings(period_us=0, tries=3)
"""Tables are refreshed on demand: by update flows, and by joining nodes in a world without
receipts.
"""
