"""What a workload is: who registers what, who casts what to whom. Columns for large ones, values
for single runs.

A workload is a frozen value: the same fields give the same draws, in the world and on a cluster,
whole or cut into ranges. Tags are numbers in the columns; `tag_names` tells their names.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from implicast.language.normal import target_of
from implicast.language.target import Description, Target, Term
from implicast.workload.draw import Numbers, Stream, span
from implicast.workload.knobs import WorkloadError, check, knob

NUMBER_MAX = 1 << 32
"""Of peers and of casts: draws are exact below it."""

CAPACITY_MAX = 1_000.0
"""The strongest peer bears so many times what the weakest does."""


class DescriptionColumns(NamedTuple):
    """One row for each tag of each peer, ordered by peer."""

    peer: Numbers
    tag: Numbers


class TargetColumns(NamedTuple):
    """One row for each tag of each term of each cast, ordered by cast and term."""

    cast: Numbers
    term: Numbers
    tag: Numbers
    lacks: NDArray[np.bool_]
    """True where the term excludes the tag."""


@dataclass(frozen=True, kw_only=True)
class Workload(ABC):
    """Registrations of `peers` peers (0 to peers - 1) and `casts` casts (0 to casts - 1)."""

    name: ClassVar[str]
    summary: ClassVar[str]

    seed: int
    peers: int
    casts: int
    capacity_skew: float = knob(
        0.0,
        "how unequal peers are in what they can bear: Pareto's law with exponent 1 / this; 0: all "
        "alike",
        0.0,
        2.0,
    )

    def __post_init__(self) -> None:
        for what, number, low in (("peers", self.peers, 1), ("casts", self.casts, 0)):
            if not low <= number <= NUMBER_MAX:
                raise WorkloadError(
                    f"workload {self.name}: {what}={number} is out of range: {low} to {NUMBER_MAX}"
                )
        check(self.name, self)

    def schema(self) -> str:
        """Schema of its peers' values, for designs that need one; empty if no peer has values."""
        return ""

    @abstractmethod
    def descriptions(self, first: int, last: int) -> DescriptionColumns:
        """Tags of the peers in [first, last)."""

    @abstractmethod
    def targets(self, first: int, last: int) -> TargetColumns:
        """Terms of the casts in [first, last)."""

    @abstractmethod
    def tag_names(self, tags: Numbers) -> list[str]:
        """The names of these tags."""

    def publishers(self, first: int, last: int) -> Numbers:
        """Who makes the casts in [first, last): any peer, as likely as another."""
        return Stream.of(self.seed, "publishers").below(self.peers, span(first, last))

    def capacities(self, first: int, last: int) -> NDArray[np.float64]:
        """What the peers in [first, last) can bear; the weakest 1. Rounded, so that no machine's
        last bit shows.
        """
        left = 1 - Stream.of(self.seed, "capacities").uniform(span(first, last))
        drawn: NDArray[np.float64] = np.minimum(CAPACITY_MAX, np.power(left, -self.capacity_skew))
        return drawn.round(6)

    def publisher(self, cast: int) -> int:
        return int(self.publishers(cast, cast + 1)[0])

    def description(self, peer: int) -> Description:
        return self.described(peer, peer + 1)[0]

    def target(self, cast: int) -> Target:
        return self.targeted(cast, cast + 1)[0]

    def described(self, first: int = 0, last: int | None = None) -> list[Description]:
        """The descriptions of the peers in [first, last); of all, if no range is given."""
        last = self.peers if last is None else last
        columns = self.descriptions(first, last)
        names = self.tag_names(columns.tag)
        ends = np.searchsorted(columns.peer, span(first, last + 1)).tolist()
        return [Description(tuple(sorted(set(names[a:b])))) for a, b in pairwise(ends)]

    def targeted(self, first: int = 0, last: int | None = None) -> list[Target]:
        """The targets of the casts in [first, last); of all, if no range is given."""
        last = self.casts if last is None else last
        columns = self.targets(first, last)
        names = self.tag_names(columns.tag)
        rows = list(
            zip(
                columns.cast.tolist(),
                columns.term.tolist(),
                names,
                columns.lacks.tolist(),
                strict=True,
            )
        )
        return [target_of(_terms(list(cast))) for _, cast in groupby(rows, key=lambda row: row[0])]


def _terms(rows: Sequence[tuple[int, int, str, bool]]) -> list[Term]:
    return [_term(list(term)) for _, term in groupby(rows, key=lambda row: row[1])]


def _term(rows: Sequence[tuple[int, int, str, bool]]) -> Term:
    has = tuple(sorted({name for _, _, name, lacks in rows if not lacks}))
    return Term(has, tuple(sorted({name for _, _, name, lacks in rows if lacks})))
