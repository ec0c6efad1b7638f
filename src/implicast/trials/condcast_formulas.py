"""Update flows in numbers: formulas (10) to (15) of the paper, with latency added where it matters.

Times may be in any unit, the same for all. `nodes` is n, `flows` F, `period` P, `hold` M, `weight`
alpha.
"""

from dataclasses import dataclass
from math import floor, log2


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady state of F flows round n nodes."""

    nodes: int
    flows: float
    period: float
    hold: float
    weight: float
    latency: float = 0.0

    @property
    def delta(self) -> float:
        """How long a node holds an update: (12), with latency. Never below M: with too few flows
        updates are late.
        """
        spacing = self.nodes / self.flows
        wanted = (
            self.weight * self.period
            + (1 - self.weight) * self.hold
            - self.weight * spacing * self.latency
        )
        return max(self.hold, wanted / (self.weight * spacing + 1 - self.weight))

    @property
    def rho(self) -> float:
        """Time between two updates of one node: (11), with latency."""
        return (self.delta + self.latency) * self.nodes / self.flows

    @property
    def doublings(self) -> int:
        """m (13): levels below it were refreshed by the same flow; the least m with 2^m > n / F."""
        return max(0, floor(log2(self.nodes / self.flows)) + 1)

    @property
    def age(self) -> float:
        """E (14): about how long a value takes to reach every table. An estimate, not a bound."""
        return log2(self.flows) * self.rho + ((1 << self.doublings) - 2) * self.delta

    @property
    def age_in_rounds(self) -> float:
        """E / rho by its approximation (15)."""
        return log2(self.flows) - 2 * self.flows / self.nodes + 1

    @property
    def calls(self) -> dict[str, float]:
        """getEnt calls of one node until a change is everywhere: Chord#'s own timer, update flows,
        piggy-backed.
        """
        levels, rounds = log2(self.nodes), self.age / self.rho
        return {
            "chord_sharp": levels**2,
            "plain": rounds * levels,
            "piggy_backed": rounds * (levels - self.doublings),
        }
