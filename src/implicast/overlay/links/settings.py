"""The waits and bounds of ring upkeep. In microseconds; every wait but the first is jittered by 0.5 to 1.5."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """What a ring may choose. `grace_us` and `keep_us` must exceed the sum of all waits of one operation plus the
    longest life of a message in the network: a leaver's memory is what settles operations under way."""

    rto_us: int = 250_000
    """The first wait for an answer."""
    rto_cap_us: int = 2_000_000
    """The longest wait; waits double up to it."""
    tries: int = 0
    """Attempts before the silent one is suspected; 0: nobody ever is (a world without crashes), requests repeat."""
    check_us: int = 0
    """Period of the look to the left; 0: only when something gives cause."""
    seek_us: int = 1_000_000
    """A newcomer that got no place asks again after this."""
    again_us: int = 150_000
    """Pause after a refusal."""
    grace_us: int = 30_000_000
    """How long a leaver still answers."""
    keep_us: int = 30_000_000
    """How long answers are remembered."""
    forget_us: int = 20_000_000
    """How long a suspicion lasts without new evidence."""
    lefts: int = 4
    """k_left: nearest nodes on the left that are known."""
    find_hops: int = 1024
    """A look-up for a place is dropped after so many hops; its seeker asks again."""
    gone_max: int = 64
    """Departed lives that are remembered."""
