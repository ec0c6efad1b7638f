"""What all peers of one SPICE network agree on, and how long they wait for each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from implicast.casting.spice.homes import address_of
from implicast.overlay.ice.settings import Terms
from implicast.space.morton import BITS

NO_LIMIT = 1 << 40
STORE_US = 2_000_000
"""After this time a consumer asks again for tags that have not been confirmed; doubling up to `WAIT_LONGEST_US`."""
WAIT_LONGEST_US = 8_000_000
HOP_US = 1_000_000
"""After this time a hop of a walk that was not answered is sent again; doubling."""
HOP_TRIES = 3
"""A hop that was not answered so many times is silent: the walk looks for another way."""
SLOW_US = 700_000
"""A walk that has not been finished for so long says so to the peer it came from: shorter than `HOP_US`."""
CAST_US = 90_000_000
"""A cast lives this long: longer than the patience with a consumer and the repair of a hole together."""
COLLECT_US = 20_000
"""With receipts, entries that come in within this time go on, and are backed up, together."""
SMALLEST_BITS = 24
"""The smallest container above a tag's own address is this many halvings of the surface: between the two, notches would
only matter among more than sixteen million peers, and would be a dozen registries inside one peer among fewer."""
VETO_US = 10_000_000
"""Without an answer from every root in this time a level is not lowered."""
HOLD_WINDOWS = 8
"""After a veto no root proposes to lower a level for so many windows."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters, checked and computed."""

    terms: Terms
    """What the surface below agrees on."""
    storage_limit: int = NO_LIMIT
    deepest: int = 0
    """The deepest level at which a cast looks for a replica, and to which one is raised."""
    frequency_limit: float = 0.0
    """Casts per second at one root beyond which the level is raised; 0: never."""
    rate_us: int = 0
    """The window in which casts are counted."""
    levels: Mapping[str, int] | None = None
    """Replication levels by tag, computed beforehand; None: they are measured."""
    rarest: bool = False
    """Is a term served by the rarest of its tags?"""
    collect_us: int = COLLECT_US
    """How long entries that go on are collected, to travel together."""
    lease_us: int = 600_000_000
    """A record that was not renewed for so long is forgotten; renewals come three times as often."""

    assured: bool = field(init=False)
    """Are steps confirmed and repeated?"""
    live: bool = field(init=False)
    """Are levels measured rather than computed beforehand?"""
    dimensions: int = field(init=False)
    last_notch: int = field(init=False)
    """At which the container is the whole surface."""
    casts_most: int = field(init=False)
    """Casts that may come to one root within a window before its level is raised."""
    first_notch: int = field(init=False)
    """The next notch after a tag's own address."""

    def __post_init__(self) -> None:
        def derive(name: str, value: int) -> None:
            object.__setattr__(self, name, value)

        derive("assured", self.terms.assured)
        derive("live", self.levels is None and self.deepest > 0)
        derive("dimensions", self.terms.dimensions)
        derive("casts_most", max(1, int(self.frequency_limit * self.rate_us / 1e6 + 1e-6)))
        derive("last_notch", BITS // self.dimensions)
        derive("first_notch", max(1, self.last_notch - SMALLEST_BITS // self.dimensions))

    def above(self, notch: int) -> int:
        """The next notch."""
        return notch + 1 if notch else self.first_notch

    def is_root(self, tag: str, root: int) -> bool:
        """Can a registry of this tag begin there?"""
        return not (root ^ address_of(tag)) & (1 << BITS - self.deepest * self.dimensions) - 1

    def is_place(self, tag: str, root: int, notch: int) -> bool:
        """Is there such a registry?"""
        return (
            notch <= self.last_notch
            and (not notch or notch >= self.first_notch)
            and self.is_root(tag, root)
        )

    def notches(self) -> list[int]:
        """All of them, from the tag's own address to the whole surface."""
        return [0, *range(self.first_notch, self.last_notch + 1)]
