"""Many different groups of one size: any k of `a` tags select the same share g of the peers.

Thesis section 4.3.2 (equations 4.9 and 4.10): each of the `a` tags is given to exactly `n g^(1/k)`
random peers; `a` is the least number with C(a, k) >= c, so that every cast is another combination.
Unique filler tags, which no cast asks for, make all registrations equally long.
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from implicast.workload.base import DescriptionColumns, TargetColumns, Workload
from implicast.workload.draw import Numbers, Shuffle, Stream, span
from implicast.workload.knobs import WorkloadError, knob

GROUP_TAGS_MAX = 1_000
"""Tags that a peer may come to hold; a registration longer than this is no use of the experiment.
"""


@dataclass(frozen=True, kw_only=True)
class Groups(Workload):
    name: ClassVar[str] = "groups"
    summary: ClassVar[str] = "casts to many different groups of about the same size"

    share: float = knob(0.1, "g, share of peers that each cast selects", 0.0, 1.0)
    tags_per_cast: int = knob(2, "k, tags of each cast", 1, 8)
    tags_per_peer: int = knob(
        18, "length of a registration; at least the number of group tags", 1, 1_000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_tags > GROUP_TAGS_MAX:
            raise WorkloadError(
                f"workload groups: {self.casts} casts of {self.tags_per_cast} tags need "
                f"{self.group_tags} tags,"
                f" more than {GROUP_TAGS_MAX}; give fewer casts or more tags_per_cast"
            )

    @cached_property
    def group_tags(self) -> int:
        """`a`: the least number of tags with enough combinations."""
        tags = self.tags_per_cast
        while tags <= GROUP_TAGS_MAX and comb(tags, self.tags_per_cast) < self.casts:
            tags += 1
        return tags

    @property
    def holders(self) -> int:
        """How many peers hold each group tag."""
        return round(self.peers * float(self.share ** (1 / self.tags_per_cast)))

    @property
    def length(self) -> int:
        """Tags of every registration."""
        return max(self.tags_per_peer, self.group_tags)

    def descriptions(self, first: int, last: int) -> DescriptionColumns:
        peers = span(first, last)
        fillers = self.group_tags + peers[:, None] * self.length + span(0, self.length)
        held = np.zeros(fillers.shape, dtype=np.bool_)
        held[:, : self.group_tags] = self._held(peers)
        return DescriptionColumns(
            np.repeat(peers, self.length), np.where(held, span(0, self.length), fillers).ravel()
        )

    def _held(self, peers: Numbers) -> NDArray[np.bool_]:
        """A row for each peer, a column for each group tag."""
        streams = (Stream.of(self.seed, "groups", f"tag {tag}") for tag in range(self.group_tags))
        return np.stack(
            [Shuffle(self.peers, stream).places(peers) < self.holders for stream in streams], axis=1
        )

    def targets(self, first: int, last: int) -> TargetColumns:
        casts = span(first, last)
        shuffle = Shuffle(
            comb(self.group_tags, self.tags_per_cast), Stream.of(self.seed, "groups", "casts")
        )
        tags = combinations(shuffle.places(casts), self.tags_per_cast, self.group_tags)
        owners = np.repeat(casts, self.tags_per_cast)
        return TargetColumns(
            owners, np.zeros_like(owners), tags.ravel(), np.zeros(len(owners), dtype=np.bool_)
        )

    def tag_names(self, tags: Numbers) -> list[str]:
        width = len(str(self.group_tags - 1))
        return [
            f"group{tag:0{width}}"
            if tag < self.group_tags
            else "filler{}-{}".format(*divmod(tag - self.group_tags, self.length))
            for tag in tags.tolist()
        ]


def combinations(numbers: Numbers, size: int, tags: int) -> Numbers:
    """The combination of each number, in the combinatorial number system: one row of `size`
    distinct tags.
    """
    left = numbers.copy()
    chosen = np.empty((len(numbers), size), dtype=np.int64)
    for position in range(size, 0, -1):
        counts = np.array([comb(tag, position) for tag in range(tags)], dtype=np.int64)
        chosen[:, position - 1] = np.searchsorted(counts, left, side="right") - 1
        left -= counts[chosen[:, position - 1]]
    return chosen
