"""The runs that the claims of an experiment need, made one after the other without Spark, and kept as numbers.

Only points, series and measures that a claim speaks of are run. What was found is kept in `published.json`, beside the
page that is made of it, with the commit that made it; a run that is there at its scale is not made again unless it is
asked for.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from implicast.lab.case import CORPUS
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import SCALES, Experiment, point_label
from implicast.lab.plan import Planned, plan
from implicast.lab.published import Evidence, Published
from implicast.lab.task import trial
from implicast.world.simulate import simulate

Kept = dict[str, Any]
"""experiment -> scale -> {commit, values: series -> point -> measure -> seed -> value}"""
Said = Callable[[str], None]


def read(path: Path) -> Kept:
    """What was found before; nothing when there is no such file."""
    if not path.exists():
        return {}
    try:
        found: Kept = json.loads(path.read_text("utf-8"))
    except ValueError as wrong:
        raise ExperimentError(f"{path} is not what `lab published` writes: {wrong}") from None
    return found


def write(path: Path, kept: Kept) -> None:
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


def evidence(made: Experiment, kept: Kept) -> Evidence:
    """What is known at the largest scale that was run."""
    for scale in reversed(SCALES):
        found = kept.get(made.name, {}).get(scale)
        if found:
            points = [point_label(value) for value in made.scale(scale).values]
            return Evidence(_flat(found["values"]), points, scale)
    return Evidence({}, (), "paper")


def _flat(values: Kept) -> dict[tuple[str, str, str], dict[int, float]]:
    return {
        (series, point, measure): {int(seed): value for seed, value in seeds.items()}
        for series, points in values.items()
        for point, measures in points.items()
        for measure, seeds in measures.items()
    }


def gather(made: Experiment, scale: str, runs: int | None, kept: Kept, again: bool, said: Said) -> Iterator[None]:
    """Make the runs that claims need and put them in `kept`, run by run."""
    needed = [each for each in plan(made, scale, runs) if _speaks_of(made, scale, each)]
    found = kept.setdefault(made.name, {}).setdefault(scale, {"commit": "", "values": {}})
    if again:
        found["values"] = {}
    for number, each in enumerate(needed, 1):
        measures = {claim.measure for claim in made.published if each.series in (claim.design, claim.against)}
        place = found["values"].setdefault(each.series, {}).setdefault(each.point, {})
        if all(str(each.seed) in place.get(measure, {}) for measure in measures):
            continue
        said(f"{number}/{len(needed)} {each.run}")
        values = _values(each)
        for measure in sorted(measures & values.keys()):
            place.setdefault(measure, {})[str(each.seed)] = float(f"{values[measure]:.6g}")
        found["commit"] = _commit()
        yield


def _values(planned: Planned) -> Mapping[str, float]:
    if planned.trial:
        told: dict[str, float] = trial(planned)["measures"]
        return told
    scenario = planned.scenario()
    if scenario.workload == CORPUS:
        raise ExperimentError(
            f"experiment {planned.experiment} needs a corpus: run `implicast lab run {planned.experiment}`"
        )
    outcome = simulate(scenario)
    if not outcome.kept:
        raise ExperimentError(f"{planned.run} broke its contract; what it measured is worth nothing")
    peers = scenario.peers
    costs = {f"{phase}_messages": count / peers for phase, count in outcome.messages.items()}
    return {**outcome.measures, **costs, **{f"{phase}_bytes": count / peers for phase, count in outcome.bytes.items()}}


def _speaks_of(made: Experiment, scale: str, planned: Planned) -> bool:
    """Does a claim need this run?"""
    points = [point_label(value) for value in made.scale(scale).values]
    return any(
        planned.series in (claim.design, claim.against) and planned.point in _points(claim, points)
        for claim in made.published
    )


def _points(claim: Published, points: list[str]) -> list[str]:
    if claim.trend:
        return [points[0], points[-1]]
    if claim.at:
        return [claim.at] if claim.at in points else [points[-1]]
    return points


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return told.stdout.strip()
