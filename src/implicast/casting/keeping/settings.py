"""How many copies there are, how often they are compared, how long an entry lasts without its owner's word."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeepingSettings:
    """In microseconds. `NONE` below is what the papers describe: one keeper, nothing repeated, no standing upkeep."""

    copies: int = 2
    """Right neighbours that have what a node keeps. A list is lost when a node and all of these die at once."""
    sync_us: int = 12_000_000
    """Period of comparing copies; 0: only after changes of the neighbourhood."""
    lease_us: int = 1_800_000_000
    """An entry that its owner did not renew for so long is forgotten; owners renew twice as often. 0: never."""
    repeats: bool = True
    """Whether what is not answered is asked again."""
    values_max: int = 1
    """Values of the widest range that anybody may ask for."""


NONE = KeepingSettings(copies=0, sync_us=0, lease_us=0, repeats=False)
