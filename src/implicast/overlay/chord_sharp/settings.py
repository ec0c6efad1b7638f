"""How often the table of a living Chord# ring is refreshed, and how patient its upkeep is."""

from dataclasses import dataclass

RENEWAL = 2
"""A question holds for so many rounds; then it is put again. Rarely enough to save messages, often enough that clocks
which differ in speed do not make answers look much older than they are."""


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """The waits of table upkeep in a living ring."""

    period_us: int = 24_000_000
    """From one round to the next."""
    stale_us: int = 32_000_000
    """What is older than this is unknown. A period, and what a round may take."""
    catch_up_us: int = 1_000_000
    """After so long one looks for levels that have not come."""
    step_us: int = 400_000
    """And again after this, each time one level higher: what is missing below is the reason for most that is missing
    above, and comes by itself when the reason is gone."""
    again_us: int = 1_000_000
    """The same node is not asked again before this."""
    tries: int = 4
    """Questions in vain before the silent one is suspected."""
