"""The notices of a run as columns."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Notices:
    """All notices as columns: cast (-1: unknown), member, time, and whether the payload was
    altered.
    """

    cast: Ints
    peer: Ints
    time_us: Ints
    altered: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]], altered: Sequence[int] = ()) -> "Notices":
        """From rows (cast, peer, time_us), and the indices of the altered ones."""
        columns = np.array(list(rows), np.int64).reshape(-1, 3)
        other = np.zeros(len(columns), bool)
        other[list(altered)] = True
        return cls(columns[:, 0], columns[:, 1], columns[:, 2], other)

    def __len__(self) -> int:
        return len(self.cast)

    def by_cast(self, casts: int) -> Iterator[tuple[list[int], list[int]]]:
        """For each cast the notified peers, in order of time, and the times. Notices of unknown
        casts are left out.
        """
        order = np.lexsort((self.time_us, self.cast))
        for start, end in pairwise(np.searchsorted(self.cast[order], np.arange(casts + 1))):
            part = order[start:end]
            yield self.peer[part].tolist(), self.time_us[part].tolist()

    def otherwise(self, casts: Collection[int]) -> int:
        """Number of altered notices of these casts."""
        numbers = self.cast[self.altered].tolist()
        return sum(number in casts for number in numbers)

    def stray(self, casts: int) -> int:
        """Number of notices of casts that were never made."""
        return int(np.count_nonzero((self.cast < 0) | (self.cast >= casts)))
