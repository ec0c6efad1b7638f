"""Wide campaigns with feedback: scenarios that showed something new are kept, and further ones are
drawn by changing one of their choices.

New is a pair or triple of messages and causes (`coverage.py`), a longer repair, or a higher cost of
a cast. A share of the draws stays blind, so that no kind of trouble is forgotten. Which scenario
comes next depends on the ones before, so a guided campaign runs one scenario after the other.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from implicast.casting.designs import Design
from implicast.casting.designs import design as by_name
from implicast.space.digest import stream
from implicast.trials.campaign import (
    ALIVE,
    ATTEMPT_BITS,
    REDRAWS,
    CampaignOptions,
    Finding,
    check,
    language_of,
)
from implicast.trials.coverage import NOTHING, Codes, coverage, fresh, joined
from implicast.trials.wide import Choices, choices_of, mutated, wide_scenario

GUIDED_SHARE = 0.6
"""Share of the draws of a guided campaign that change a kept scenario."""
KEPT_MAX = 64
"""Scenarios that are kept; the oldest is given up."""
TRIES = 10
"""How often a change is drawn until it changes something."""


@dataclass(frozen=True, slots=True)
class WideFinding:
    """The result of one scenario, what it was drawn from, and what it showed."""

    finding: Finding
    choices: Choices
    codes: Codes

    def repair_s(self) -> float | None:
        """Longest time from the end of an event to a check without a violation; infinite if one
        lasted to the end; None if the design broke down.
        """
        outcome = self.finding.outcome
        if outcome is None or outcome.change is None:
            return None
        return float("inf") if outcome.change.unrepaired else outcome.change.repair_s_max


@dataclass(frozen=True, slots=True)
class WideCheck:
    """Checks the scenario of some choices. Holds plain values, so that it can be sent to another
    process.
    """

    design: str
    seed: int
    options: CampaignOptions

    def __call__(self, choices: Choices) -> WideFinding:
        """A scenario in which too few members were alive at the end is drawn again."""
        for attempt in range(REDRAWS + 1):
            drawn = replace(choices, number=choices.number + (attempt << ATTEMPT_BITS))
            found = self._checked(drawn)
            outcome = found.finding.outcome
            if found.finding.reasons or outcome is None or outcome.alive >= ALIVE:
                break
        return replace(found, finding=replace(found.finding, redrawn=attempt))

    def _checked(self, choices: Choices) -> WideFinding:
        scenario = wide_scenario(by_name(self.design), self.seed, choices, self.options)
        with tempfile.TemporaryDirectory(prefix="implicast-") as directory:
            journal = Path(directory) / "journal"
            finding = check(scenario, journal)
            codes = coverage(journal) if finding.outcome is not None else NOTHING
        return WideFinding(finding, choices, codes)


@dataclass(slots=True)
class Feedback:
    """What the scenarios of a campaign have shown so far, and those that are kept."""

    seen: Codes = field(default_factory=lambda: NOTHING)
    kept: list[Choices] = field(default_factory=list)
    longest_s: float = 0.0
    costliest: float = 0.0

    def take(self, found: WideFinding) -> int:
        """Note what a scenario showed; return the number of pairs and triples that are new."""
        new = len(fresh(self.seen, found.codes))
        self.seen = joined(self.seen, found.codes)
        outcome = found.finding.outcome
        repair_s = found.repair_s() or 0.0
        cost = outcome.measures["RTH"] if outcome is not None else 0.0
        if new or repair_s > self.longest_s or cost > self.costliest:
            self.kept = [*self.kept, found.choices][-KEPT_MAX:]
        self.longest_s, self.costliest = (
            max(self.longest_s, repair_s),
            max(self.costliest, cost),
        )
        return new

    def choose(
        self, design: Design, seed: int, number: int, options: CampaignOptions | None = None
    ) -> Choices:
        """The choices of the next scenario: a kept one with one change, or blind."""
        blind = choices_of(design, seed, number, options)
        chance = stream(seed, "guided", design.name, number)
        if not self.kept or chance.random() >= GUIDED_SHARE:
            return blind
        parent = chance.choice(self.kept)
        wanted = (options or CampaignOptions()).language
        language = language_of(design, seed, parent.number, wanted)
        for _ in range(TRIES):
            child = mutated(design, language, parent, chance)
            if child != parent:
                return child
        return blind


def wide_campaign(
    design: Design,
    scenarios: int,
    seed: int,
    first: int,
    checked: Callable[[Choices], WideFinding],
    seen: Callable[[WideFinding], None],
    options: CampaignOptions | None = None,
    guided: bool = False,
) -> list[WideFinding]:
    """Run the scenarios one after the other, and return those that failed."""
    feedback, failed = Feedback(), []
    for number in range(first, first + scenarios):
        blind = choices_of(design, seed, number, options)
        found = checked(feedback.choose(design, seed, number, options) if guided else blind)
        feedback.take(found)
        seen(found)
        failed += [found] if found.finding.reasons else []
    return failed
