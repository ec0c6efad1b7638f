"""A mistake put in on purpose, with what the checkers must say of it. Files `mistakes_*.py` hold them, by family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from drawn import as_found

from implicast.casting.designs import design
from implicast.peer.events import Settled
from implicast.trials.campaign import scenario_of
from implicast.world.churn import Churn
from implicast.world.scenario import Scenario


def without_unreachable(
    cast: Any, notified: int, unreachable: int = 0, *rest: Any, **more: Any
) -> Settled:
    """A receipt that admits no unreachable member."""
    return Settled(cast, notified, 0, *rest, **more)


@dataclass(frozen=True)
class Mistake:
    """One rule switched off. Searched for in the first scenarios of a campaign, or in one scripted scenario."""

    name: str
    design: str
    rule: str
    """What is right, and where it is kept."""
    put: Callable[[pytest.MonkeyPatch], None]
    says: str
    """Part of what the checker must say."""
    churn: str = ""
    """A script instead of a campaign; `{infra}` is the first piece of infrastructure, `{new}` the first newcomer."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """On top of `Design.trial`."""
    scenarios: int = 12
    seed: int = 1
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the scenarios, such as `peers` or `faults`."""
    long: bool = False
    """The proof takes longer than ten seconds and runs in `make test-long`."""

    def candidates(self) -> list[Scenario]:
        """Where it is looked for."""
        drawn = [
            as_found(scenario_of(design(self.design), self.seed, number))
            for number in range(self.scenarios)
        ]
        if self.churn:
            drawn = [replace(drawn[0], **self.changes)]
            drawn = [replace(each, churn=Churn.parse(self._script(each.peers))) for each in drawn]
        return [
            replace(each, parameters={**each.parameters, **self.parameters}, **self.changes)
            for each in drawn
        ]

    def _script(self, peers: int) -> str:
        found = design(self.design)
        infrastructure = found.infrastructure(
            peers, found.settle({**found.trial, **self.parameters})
        )
        return self.churn.format(infra=peers, new=peers + infrastructure)
