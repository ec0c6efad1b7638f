"""Extreme casts: every cast selects one tag that exactly a given share of the peers hold.

Thesis section 8.4.1: "1024 casts are made to the same very large implicit group selected by a
target expression consisting of just one tag", which a quarter of the peers hold, while peers
register Zipf tags of skew 1.0. Here that tag replaces a holder's last Zipf tag, so that the share
is exact, all peers register equally many tags, and the skew of the other tags is unchanged.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from implicast.workload.base import DescriptionColumns, TargetColumns, Workload
from implicast.workload.draw import Numbers, Shuffle, Stream, span
from implicast.workload.knobs import WorkloadError, knob
from implicast.workload.zipf import (
    TAGS_MAX,
    distinct_ranks,
    named_by_rank,
    numbered_names,
    thresholds,
)

TAG = "extreme"


@dataclass(frozen=True, kw_only=True)
class Extreme(Workload):
    name: ClassVar[str] = "extreme"
    summary: ClassVar[str] = (
        "all casts ask for one tag that a quarter of the peers hold: the worst case of the thesis"
    )

    share: float = knob(0.25, "share of peers that hold the tag", 0.0, 1.0)
    tags: int = knob(37_000, "how many other tags there are", 1, TAGS_MAX)
    skew: float = knob(1.0, "exponent of the other tags", 0.0, 2.0)
    tags_per_peer: int = knob(18, "tags of each peer, the asked one included", 1, 1_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tags_per_peer > self.tags:
            raise WorkloadError(
                f"workload extreme: {self.tags_per_peer} distinct tags cannot be drawn from "
                f"tags={self.tags}"
            )

    @property
    def holders(self) -> int:
        """How many peers hold the tag."""
        return round(self.share * self.peers)

    def descriptions(self, first: int, last: int) -> DescriptionColumns:
        stream = Stream.of(self.seed, "extreme", "peers")
        table = thresholds(self.tags, self.skew)
        ranks = distinct_ranks(stream, span(first, last), self.tags_per_peer, table)
        tags = named_by_rank(self.seed, self.tags)[ranks]
        places = Shuffle(self.peers, Stream.of(self.seed, "extreme", "holders")).places(
            span(first, last)
        )
        tags[places < self.holders, -1] = self.tags
        return DescriptionColumns(np.repeat(span(first, last), self.tags_per_peer), tags.ravel())

    def targets(self, first: int, last: int) -> TargetColumns:
        casts = span(first, last)
        return TargetColumns(
            casts,
            np.zeros_like(casts),
            np.full_like(casts, self.tags),
            np.zeros(len(casts), dtype=np.bool_),
        )

    def tag_names(self, tags: Numbers) -> list[str]:
        names = numbered_names(np.minimum(tags, self.tags - 1), self.tags)
        for position in np.flatnonzero(tags == self.tags).tolist():
            names[position] = TAG
        return names
