"""How often the table of a Chord# ring is refreshed, and how patient its upkeep is."""

from dataclasses import dataclass

RENEWAL = 2
"""A question holds for so many rounds; then it is put again. Rarely enough to save messages, often enough that clocks
which differ in speed do not make answers look much older than they are."""


@dataclass(frozen=True, slots=True)
class SharpSettings:
    """The waits of table upkeep."""

    period_us: int = 24_000_000
    """From one round to the next; 0: there are no rounds, and a node asks for its table when it is told to."""
    stale_us: int = 32_000_000
    """What is older than this is unknown. A period, and what a round may take."""
    catch_up_us: int = 1_000_000
    """After so long a node looks for levels that have not come."""
    step_us: int = 400_000
    """And again after this, each time one level higher: what is missing below is the reason for most that is missing
    above, and comes by itself when the reason is gone."""
    again_us: int = 1_000_000
    """The same node is not asked again before this."""
    tries: int = 4
    """Questions in vain before the silent one is suspected, or dropped where nobody is suspected."""
    resting: bool = False
    """Nothing will change: rounds need not begin, and nothing grows old."""

    @property
    def rounds(self) -> bool:
        return self.period_us > 0

    @property
    def age_us(self) -> int:
        """How old a table lets its entries grow; 0: it does not keep their age."""
        return NEVER_US if self.resting and self.rounds else self.stale_us if self.rounds else 0


NEVER_US = 1 << 62

ON_DEMAND = SharpSettings(period_us=0, tries=3)
"""Tables are asked for when somebody says so: update flows, and newcomers of a world without receipts."""
