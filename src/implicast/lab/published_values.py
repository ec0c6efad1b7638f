"""Makes the runs that the claims of an experiment need, one after the other and without Spark, and
stores their values.

Only points, series and measures of a claim are run. The values are stored in `published.json`, next
to the page, with the commit that made them. A run whose values are stored at its scale is not made
again, unless `--again` is given.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import SCALES, Experiment, point_label
from implicast.lab.inputs import Material
from implicast.lab.plan import Planned, plan
from implicast.lab.published import Evidence, Published
from implicast.lab.task import trial
from implicast.world.simulate import simulate

Kept = dict[str, Any]
"""experiment -> scale -> {commit, values: series -> point -> measure -> seed -> value}"""
Said = Callable[[str], None]


def read(path: Path) -> Kept:
    """The stored values; empty if there is no such file."""
    if not path.exists():
        return {}
    try:
        found: Kept = json.loads(path.read_text("utf-8"))
    except ValueError as wrong:
        raise ExperimentError(f"{path} is not a file written by `lab published`: {wrong}") from None
    return found


def write(path: Path, kept: Kept) -> None:
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")


def evidence(made: Experiment, kept: Kept) -> Evidence:
    """The values at the largest scale that was run."""
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


def needed(made: Experiment, scale: str, runs: int | None = None) -> list[Planned]:
    """The planned runs that some claim needs."""
    return [each for each in plan(made, scale, runs) if _speaks_of(made, scale, each)]


def unmade(made: Experiment, scale: str, wanted: Sequence[Planned], kept: Kept) -> list[Planned]:
    """Of the given runs, those with a measure that a claim needs and that is not stored."""
    values = kept.get(made.name, {}).get(scale, {}).get("values", {})
    return [
        each
        for each in wanted
        if not _known(made, each, values.get(each.series, {}).get(each.point, {}))
    ]


def gather(
    made: Experiment,
    scale: str,
    wanted: Sequence[Planned],
    kept: Kept,
    material: Material,
    said: Said,
) -> Iterator[None]:
    """Make the given runs and store the measures that claims need in `kept`, run by run."""
    found = kept.setdefault(made.name, {}).setdefault(scale, {"commit": "", "values": {}})
    for number, each in enumerate(wanted, 1):
        said(f"{number}/{len(wanted)} {each.run}")
        values = _values(each, material)
        place = found["values"].setdefault(each.series, {}).setdefault(each.point, {})
        for measure in sorted(_asked(made, each) & values.keys()):
            place.setdefault(measure, {})[str(each.seed)] = float(f"{values[measure]:.6g}")
        found["commit"] = _commit()
        yield


def _asked(made: Experiment, planned: Planned) -> set[str]:
    return {
        claim.measure for claim in made.published if planned.series in (claim.design, claim.against)
    }


def _known(made: Experiment, planned: Planned, place: Mapping[str, Mapping[str, float]]) -> bool:
    return all(str(planned.seed) in place.get(measure, {}) for measure in _asked(made, planned))


def _values(planned: Planned, material: Material) -> Mapping[str, float]:
    if planned.trial:
        told: dict[str, float] = trial(planned, material.workloads.get(planned.run))["measures"]
        return told
    scenario = material.scenario(planned)
    outcome = simulate(scenario)
    if not outcome.contract_held:
        raise ExperimentError(f"{planned.run} broke the contract; its measures are not valid")
    peers = scenario.peers
    costs = {f"{phase}_messages": count / peers for phase, count in outcome.messages.items()}
    return {
        **outcome.measures,
        **costs,
        **{f"{phase}_bytes": count / peers for phase, count in outcome.bytes.items()},
    }


def _speaks_of(made: Experiment, scale: str, planned: Planned) -> bool:
    """Whether some claim needs this run."""
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
    told = subprocess.run(
        asked, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return told.stdout.strip()
