"""From an experiment to the rows of runs: every design, variant, point and seed, each a whole
scenario with a name.

A run's name says what it is and ends in a digest of its scenario: the same scenario has the same
name wherever and whenever it is planned, which is what makes a sweep resumable.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from implicast.casting.designs import design as known
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import (
    SURVIVING,
    Experiment,
    Value,
    Variant,
    patience_settings,
    point_label,
    point_settings,
)
from implicast.language.parameters import Setting
from implicast.space.digest import digest
from implicast.workload.workload import KINDS, workload
from implicast.world.churn import Churn
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario

WEIGHTS = {
    "centralised": 1,
    "condcast": 1.3,
    "broker": 1.4,
    "dht": 2.7,
    "chord-pubsub": 2.7,
    "dht-naive": 2.8,
    "opchord-pubsub": 2.9,
    "spice": 4,
    "spice-unloaded": 7,
    "bft": 57,
}
"""Processor time of a design's runs over that of the server's, as the demonstration had them;
others count as 3.
"""

TOLD = ", told"
"""Behind the name of a series whose replication was told the casts to come; live rates are the
default.
"""
RUNS_MAX = 100_000
"""A larger plan is a typing error, or several experiments."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One run that is to be made: where it stands in the experiment, and its settings."""

    run: str
    experiment: str
    design: str
    series: str
    axis: str
    point: str
    position: int
    seed: int
    settings: str
    """Everything that decides the outcome, as JSON."""
    trial: str = ""

    def scenario(self, stated: str | None = None) -> Scenario:
        """The scenario; with the directory of its workload where that had to be made first."""
        made = scenario_of(json.loads(self.settings))
        return made if stated is None else replace(made, workload=stated)

    @property
    def effort(self) -> int:
        """A rough size, to start the longest runs first and to guess the time left."""
        settings = json.loads(self.settings)
        size = int(settings.get("peers", 1)) * (18 + int(settings.get("casts", 1)))
        return round(size * WEIGHTS.get(self.design, 3))


def plan(
    made: Experiment, scale: str, runs: int | None = None, first_seed: int = 1
) -> list[Planned]:
    """All runs of an experiment at a scale; an `ExperimentError` or `LocalError` before anything
    has begun.
    """
    size = made.scale(scale)
    designs = [""] if made.trial else made.chosen()
    if not designs:
        raise ExperimentError(
            f"experiment {made.name}: none of its designs exists here ({made.designs})"
        )
    planned = []
    for label, variant in (made.variants or {"": Variant()}).items():
        values = (
            size.values
            if variant.values is None
            else [value for value in size.values if value in variant.values]
        )
        for design in variant.designs or designs:
            for position, value in enumerate(values):
                point = _point(made, design, value)
                if point is None:
                    continue
                for seed in range(first_seed, first_seed + (runs or size.runs)):
                    planned.append(
                        _planned(made, scale, design, label, variant, position, value, point, seed)
                    )
    if not planned:
        raise ExperimentError(
            f"experiment {made.name}: no runs at scale {scale}; give values and at least 1 run"
        )
    named = Counter(each.run for each in planned)
    if len(named) < len(planned):
        raise ExperimentError(
            f"experiment {made.name}: the run {named.most_common(1)[0][0]} is asked for twice"
        )
    if len(planned) > RUNS_MAX:
        raise ExperimentError(
            f"experiment {made.name}: {len(planned)} runs are more than {RUNS_MAX}"
        )
    return planned


def _point(made: Experiment, design: str, value: Value) -> Mapping[str, Setting] | None:
    """What a value of the axis sets for a design; None where the design has no such point."""
    return (
        patience_settings(known(design), value)
        if made.axis.by_patience
        else point_settings(made, value)
    )


def _planned(
    made: Experiment,
    scale: str,
    design: str,
    label: str,
    variant: Variant,
    position: int,
    value: Value,
    point: Mapping[str, Setting],
    seed: int,
) -> Planned:
    settings = {
        **_trial(made, design),
        **made.scenario,
        **made.scale(scale).scenario,
        **variant.scenario,
        **_own(made, design),
        **point,
    }
    if made.designs == SURVIVING and "churn" in settings:
        settings["churn"] = _borne(str(settings["churn"]), design)
    described = _described(settings, design, seed) if not made.trial else {**settings, "seed": seed}
    text = json.dumps(described, sort_keys=True)
    if not made.trial:
        _check(scenario_of(described))
    series = (" ".join(part for part in (design, label) if part) or made.name) + _told(settings)
    name = "-".join(filter(None, (design, label, *_words(made, value, point), f"s{seed}")))
    run = f"{_word(name)}-{digest(made.trial, text).hex()[:8]}"
    return Planned(
        run,
        made.name,
        design or label,
        series,
        made.axis.title,
        point_label(value),
        position,
        seed,
        text,
        made.trial,
    )


def _check(scenario: Scenario) -> None:
    """Whatever is wrong with design, parameters or workload is said before any work starts."""
    scenario.settled()
    if scenario.workload in KINDS:
        workload(
            scenario.workload,
            scenario.seed,
            scenario.peers,
            scenario.casts,
            **scenario.workload_parameters,
        )


def _own(made: Experiment, design: str) -> dict[str, Setting]:
    return {f"design.{name}": value for name, value in made.design.get(design, {}).items()}


def _trial(made: Experiment, design: str) -> dict[str, Setting]:
    """What every experiment sets: with the designs that survive change, what trials of change set,
    and receipts; with all others, the designs as the papers measure them, unless the experiment
    says otherwise.
    """
    if made.trial or not design:
        return {}
    if made.designs == SURVIVING:
        return {f"design.{name}": value for name, value in known(design).trial.items()}
    return {"design.assurance": "none"}


def _told(settings: Mapping[str, Setting]) -> str:
    """What a series is called beside its design: whether replication knows the casts to come, as in
    the thesis.
    """
    return TOLD if settings.get("design.replication") == "beforehand" else ""


def _borne(churn: str, design: str) -> str:
    """Of what an experiment does to servers and brokers, what there is a server or broker for: the rest is
    the same for all.

    One line speaks for every design; a design without a broker that could fail leaves those words out.
    """
    asked, survives = Churn.parse(churn), known(design).survives
    restarts, fails = asked.restarts * ("restarts" in survives), asked.fails * ("fails" in survives)
    borne = replace(asked, restarts=restarts, fails=fails)
    return churn if borne == asked else borne.text()


def _words(made: Experiment, value: Value, point: Mapping[str, Setting]) -> list[str]:
    """What a run's name says of its point: the value where settings follow from it, else the
    settings.
    """
    plain = made.axis.form or made.axis.by_patience
    return [_word(point_label(value))] if plain else [_word(each) for each in point.values()]


def _word(value: object) -> str:
    """Safe in the name of a directory."""
    return "".join(each if each.isalnum() or each in "-.," else "_" for each in str(value))


def _described(settings: Mapping[str, Setting], design: str, seed: int) -> dict[str, Any]:
    """Scenario fields, with `workload.NAME` and `design.NAME` gathered."""
    described: dict[str, Any] = {
        "design": design,
        "seed": seed,
        "parameters": {},
        "workload_parameters": {},
    }
    for name, value in settings.items():
        if name.startswith("design."):
            described["parameters"][name.removeprefix("design.")] = value
        elif name.startswith("workload."):
            described["workload_parameters"][name.removeprefix("workload.")] = value
        else:
            described[name] = value
    return described


def scenario_of(described: Mapping[str, Any]) -> Scenario:
    """The scenario of these plain values; faults and churn are texts."""
    fields = dict(described)
    faults, churn = Faults.parse(fields.pop("faults", "")), Churn.parse(fields.pop("churn", ""))
    try:
        return Scenario(**fields, faults=faults, churn=churn)
    except TypeError as wrong:
        raise ExperimentError(f"no such scenario: {wrong}") from None
