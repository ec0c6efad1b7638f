"""Peers that hold values, casts that ask for ranges of them: for designs that speak the language of
attributes.

Every peer has a whole number for each of some numeric attributes, a word as its `kind`, and one of
a few tags. A cast asks for one or two ranges, for a kind, or for a tag and a range, or for either
of two such things; each selects about `share` of the peers. Drawn by key, so any part can be drawn
alone.
"""

from dataclasses import dataclass
from random import Random
from typing import ClassVar, NoReturn

from implicast.language.normal import target_of
from implicast.language.target import Description, Predicate, Target, Term, Value
from implicast.space.digest import stream
from implicast.workload.base import DescriptionColumns, TargetColumns, Workload
from implicast.workload.draw import Numbers
from implicast.workload.knobs import WorkloadError, knob

EITHER = 0.125
"""Share of casts that ask for either of two things."""


@dataclass(frozen=True, kw_only=True)
class Attributes(Workload):
    name: ClassVar[str] = "attributes"
    summary: ClassVar[str] = "peers hold values, casts ask for ranges of them"

    share: float = knob(0.1, "share of peers that each cast selects, about", 0.0, 1.0)
    attributes: int = knob(3, "numeric attributes", 1, 64)
    domain: int = knob(100, "grid values of each of them", 2, 1_000_000)
    words: int = knob(10, "kinds that there are", 1, 1_000_000)
    tags: int = knob(4, "tags that there are; each peer holds one", 1, 1_000_000)

    def schema(self) -> str:
        numbers = "; ".join(f"a{index}: 0..{self.domain - 1}" for index in range(self.attributes))
        return f"{numbers}; kind: text"

    def described(self, first: int = 0, last: int | None = None) -> list[Description]:
        return [
            self._description(peer) for peer in range(first, self.peers if last is None else last)
        ]

    def targeted(self, first: int = 0, last: int | None = None) -> list[Target]:
        return [self._target(cast) for cast in range(first, self.casts if last is None else last)]

    def _description(self, peer: int) -> Description:
        chance = stream(self.seed, "attributes", "peer", peer)
        values = [
            Value(f"a{index}", chance.randrange(self.domain)) for index in range(self.attributes)
        ]
        values.append(Value("kind", f"kind{chance.randrange(self.words)}"))
        return Description((f"tag{chance.randrange(self.tags)}",), tuple(sorted(values)))

    def _target(self, cast: int) -> Target:
        chance = stream(self.seed, "attributes", "cast", cast)
        return target_of([self._term(chance) for _ in range(2 if chance.random() < EITHER else 1)])

    def _term(self, chance: Random) -> Term:
        """A range, two ranges, a kind, or a tag and a range."""
        form = chance.randrange(4)
        if form == 0:
            return Term(where=(self._range(chance, chance.randrange(self.attributes), self.share),))
        if form == 1:
            both = sorted(chance.sample(range(self.attributes), min(2, self.attributes)))
            return Term(
                where=tuple(
                    sorted(
                        self._range(chance, each, self.share ** (1 / len(both))) for each in both
                    )
                )
            )
        if form == 2:
            word = f"kind{chance.randrange(self.words)}"
            return Term(where=(Predicate("kind", word, word),))
        wanted = min(1.0, self.share * self.tags)
        where = self._range(chance, chance.randrange(self.attributes), wanted)
        return Term((f"tag{chance.randrange(self.tags)}",), (), (where,))

    def _range(self, chance: Random, index: int, share: float) -> Predicate:
        width = max(1, round(self.domain * share))
        low = chance.randrange(self.domain - width + 1)
        return Predicate(f"a{index}", low, low + width - 1)

    # --- columns hold tags alone

    def descriptions(self, first: int, last: int) -> DescriptionColumns:
        self._refuse()

    def targets(self, first: int, last: int) -> TargetColumns:
        self._refuse()

    def tag_names(self, tags: Numbers) -> list[str]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise WorkloadError(
            "workload attributes has values and ranges, which columns of tags cannot hold"
        )
