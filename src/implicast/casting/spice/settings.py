"""Settings that all peers of one SPICE network share, and the protocol's timeouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from implicast.casting.spice.homes import address_of
from implicast.overlay.ice.settings import SurfaceSettings
from implicast.space.morton import BITS

NO_LIMIT = 1 << 40
NEVER_US = 1 << 62
STORE_US = 2_000_000
"""First wait before a request to store, push or call is repeated. Doubles up to `WAIT_LONGEST_US`.
"""
WAIT_LONGEST_US = 8_000_000
HOP_US = 1_000_000
"""First wait for the answer to a hop of a traversal. Doubles up to `WAIT_LONGEST_US`."""
HOP_TRIES = 3
"""After this many unanswered sends the next peer is suspected and the traversal is routed around
it.
"""
SLOW_US = 700_000
"""A branch that is still open after this time answers `InProgress`. Shorter than `HOP_US`, so that
the sender does not repeat the hop.
"""
CAST_US = 90_000_000
"""Lifetime of a cast. Longer than the retries to a silent consumer (40 s) and the repair of the
surface together.
"""
COLLECT_US = 20_000
"""With receipts, entries that arrive within this time are forwarded and backed up together."""
SMALLEST_BITS = 24
"""The container at the first notch above a tag's own address is 1/2^24 of the surface. Smaller
containers would matter only among more than 2^24 peers; in smaller networks they would be a dozen
nested registries at one peer.
"""
VETO_US = 10_000_000
"""A level is lowered only if every root answers the veto request within this time."""
UNCERTAIN_US = 60_000_000
"""A tract whose registries were lost and recovered may lack registrations for this long: a peer that
another one mistook for dead, or whose extent two peers claimed, was not asked to register again. It
registers again when the claims are settled, within the repair time of the surface.
"""
HOLD_WINDOWS = 8
"""Minimum time, in windows, between two proposals to lower the level of one tag."""


@dataclass(frozen=True, slots=True)
class SpiceSettings:
    """Parameters of the design after validation, with derived values."""

    terms: SurfaceSettings
    """Settings of the ICE surface."""
    storage_limit: int = NO_LIMIT
    deepest: int = 0
    """Maximum replication level. Casts do not look for replicas beyond it."""
    frequency_limit: float = 0.0
    """Casts per second at one root above which the level is raised. 0 disables replication."""
    rate_us: int = 0
    """Length of the window in which casts are counted."""
    levels: Mapping[str, int] | None = None
    """Replication level by tag if computed before the run; None if roots measure their load."""
    rarest: bool = False
    """Whether a term is served by the rarest of its tags rather than the first."""
    collect_us: int = 0
    """How long forwarded entries are collected into one message; with receipts `COLLECT_US`."""
    lease_us: int = 600_000_000
    """A record that is not renewed for this time expires. Consumers renew three times in a lease.
    """

    assured: bool = field(init=False)
    """Whether steps are acknowledged and repeated (`assurance=receipts`)."""
    leases_end: bool = field(init=False)
    """Whether records expire. Without receipts a lease never ends."""
    live: bool = field(init=False)
    """Whether roots measure their load and levels change during the run."""
    dimensions: int = field(init=False)
    last_notch: int = field(init=False)
    """Notch at which the container is the whole surface."""
    casts_most: int = field(init=False)
    """Casts that one root may receive within a window before it counts as busy."""
    first_notch: int = field(init=False)
    """Notch that follows notch 0, the tag's own address."""

    def __post_init__(self) -> None:
        def derive(name: str, value: int) -> None:
            object.__setattr__(self, name, value)

        derive("assured", self.terms.assured)
        derive("collect_us", COLLECT_US if self.assured else self.collect_us)
        derive("leases_end", self.assured)
        derive("lease_us", self.lease_us if self.assured else NEVER_US)
        derive("live", self.levels is None and self.deepest > 0)
        derive("dimensions", self.terms.dimensions)
        derive("casts_most", max(1, int(self.frequency_limit * self.rate_us / 1e6 + 1e-6)))
        derive("last_notch", BITS // self.dimensions)
        derive("first_notch", max(1, self.last_notch - SMALLEST_BITS // self.dimensions))

    def above(self, notch: int) -> int:
        return notch + 1 if notch else self.first_notch

    def is_root(self, tag: str, root: int) -> bool:
        """Whether `root` is the original root of the tag or a replica root of a level up to
        `deepest`.
        """
        return not (root ^ address_of(tag)) & (1 << BITS - self.deepest * self.dimensions) - 1

    def is_place(self, tag: str, root: int, notch: int) -> bool:
        """Whether a registry with this tag, root and notch can exist."""
        return (
            notch <= self.last_notch
            and (not notch or notch >= self.first_notch)
            and self.is_root(tag, root)
        )

    def notches(self) -> list[int]:
        """All notches, from the tag's own address (0) to the whole surface."""
        return [0, *range(self.first_notch, self.last_notch + 1)]
