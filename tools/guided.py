"""Compares blind and guided wide campaigns: scenarios and CPU seconds until a mistake that was put
in on purpose is found.

python tools/guided.py --seeds 1,2 --scenarios 12 [DESIGN:NAME ...]

A mistake of tests/faults/mistakes_*.py is found by a scenario that reports its text, and does not
report it without the mistake. Both campaigns have the same seeds and the same number of scenarios.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mistakes import mistakes

from implicast.casting.designs import design
from implicast.trials import wide
from implicast.trials.campaign import CampaignOptions, check
from implicast.trials.feedback import Feedback, WideCheck

DEFAULT = (
    "centralised:no memory of received casts",
    "centralised:requests not repeated",
    "broker:filters not rebuilt",
    "broker:lost brokers are not probed",
    "condcast:no memory of received casts",
    "condcast:suspicion never forgiven",
    "dht:no copies",
    "dht:suspicions never forgiven",
)
MESSAGES = 30_000
"""Estimated messages of a scenario: about half a second of CPU time, so that many are run."""


def until_found(mistake: Any, seed: int, scenarios: int, guided: bool) -> tuple[int | None, float]:
    """Number of scenarios until the mistake is found, None if it is not; and the CPU seconds."""
    found, feedback, begun_s, again_s = design(mistake.design), Feedback(), time.process_time(), 0.0
    one = WideCheck(mistake.design, seed, CampaignOptions())
    for number in range(scenarios):
        blind = wide.choices_of(found, seed, number)
        choices = feedback.choose(found, seed, number) if guided else blind
        with pytest.MonkeyPatch.context() as patch:
            mistake.put(patch)
            shown = one(choices)
        feedback.take(shown)
        if any(mistake.says in reason for reason in shown.finding.reasons):
            spent_s = time.process_time()
            right = check(shown.finding.scenario)
            again_s += time.process_time() - spent_s
            if not any(mistake.says in reason for reason in right.reasons):
                return number + 1, time.process_time() - begun_s - again_s
    return None, time.process_time() - begun_s - again_s


def row(mistake: Any, seeds: list[int], scenarios: int) -> str:
    cells = []
    for guided in (False, True):
        every = [until_found(mistake, seed, scenarios, guided) for seed in seeds]
        counts = [str(scenarios) + "+" if count is None else str(count) for count, _ in every]
        cells += [", ".join(counts), f"{mean(spent_s for _, spent_s in every):.1f}"]
    return f"| {mistake.design} | {mistake.name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--scenarios", type=int, default=12)
    parser.add_argument("mistakes", nargs="*", default=DEFAULT)
    given = parser.parse_args()
    wide.MESSAGES = MESSAGES
    seeds = [int(each) for each in given.seeds.split(",")]
    print("| design | mistake | blind, scenarios | CPU s | guided, scenarios | CPU s |")
    print("|---|---|---|---:|---|---:|")
    named = {f"{each.design}:{each.name}": each for each in mistakes()}
    for name in given.mistakes:
        print(row(named[name], seeds, given.scenarios), flush=True)


if __name__ == "__main__":
    main()
