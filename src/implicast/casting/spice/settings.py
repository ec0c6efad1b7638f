"""What all peers of one SPICE network agree on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, log

from implicast.language.target import Target
from implicast.space.morton import BITS

NO_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters, checked and computed."""

    dimensions: int
    cosine: float
    """Of the branch factor (`space/angle.py`)."""
    merge: bool
    storage_limit: int = NO_LIMIT
    collect_us: int = 0
    """How long records that go on are collected, to travel together."""
    rarest: bool = False
    levels: Mapping[str, int] = field(default_factory=dict)
    """Replication levels by tag, computed beforehand."""
    deepest: int = 0
    """The deepest level at which a cast looks for a replica, and to which one is raised."""
    frequency_limit: float = 0.0
    """Casts per second at one root beyond which the level is raised while things run; 0: levels are as computed."""

    @property
    def live(self) -> bool:
        """Are levels measured rather than computed beforehand?"""
        return self.frequency_limit > 0

    @property
    def last_notch(self) -> int:
        """At which the container is the whole surface."""
        return BITS // self.dimensions


def level_for(frequency: float, limit: float, dimensions: int) -> int:
    """The least level that brings a tag's frequency to the limit (thesis, equation 8.2)."""
    if limit <= 0 or frequency <= limit:
        return 0
    return ceil(log(frequency / limit) / log(1 << dimensions) - 1e-9)


def levels_for(targets: Sequence[Target], interval_us: int, limit: float, dimensions: int) -> dict[str, int]:
    """Replication levels from the casts to come, as in the thesis's experiments (section 8.4)."""
    counts: dict[str, int] = {}
    for target in targets:
        for term in target.terms:
            if term.has:
                counts[term.has[0]] = counts.get(term.has[0], 0) + 1
    seconds = max(1, len(targets)) * interval_us / 1e6
    levels = {tag: level_for(count / seconds, limit, dimensions) for tag, count in sorted(counts.items())}
    return {tag: level for tag, level in levels.items() if level}
