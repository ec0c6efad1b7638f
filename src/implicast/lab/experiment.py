"""An experiment is a small declarative file: what varies, which designs, what network and load, how
many seeds.

    title = "Number of peers"
    designs = "tags"                      # every design that speaks this language, or "surviving", or a list of names
    [axis]
    of = "peers"                          # peers, casts, network, ..., workload.NAME, design.NAME, or several together
    [scenario]
    network = "laboratory"                # what stays the same: scenario fields, workload.NAME, design.NAME
    [small]
    values = [128, 256, 512]
    runs = 3
    [paper]
    values = [512, 1024, 2048, 4096, 8192]

Designs that are added later join by their language, without new code here.
`docs/reference/experiments.md` has it all.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from implicast.casting.designs import Design
from implicast.casting.designs import designs as all_designs
from implicast.lab.errors import ExperimentError
from implicast.lab.published import Published
from implicast.lab.tables import CHANGE, MEASURES
from implicast.language.parameters import Setting

SCALES = ("small", "medium", "paper")
SURVIVING = "surviving"
"""Instead of a language: every design that survives change, with the parameters with which it does.
"""
PATIENCE = "patience"
"""As axis: the points between patience and upkeep that each design names (`Design.upkeep_points` and
`quick`).
"""
Value = Setting | list[Setting]


class Axis(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What varies: one setting, or several that change together; or `patience`, the points that
    each design names.
    """

    of: str | list[str]
    label: str = ""
    log: bool = False
    form: str = ""
    """How a value becomes the setting, such as `turnover={},over_s=300`; the point keeps the plain
    value.
    """

    @property
    def names(self) -> list[str]:
        return [self.of] if isinstance(self.of, str) else list(self.of)

    @property
    def by_patience(self) -> bool:
        return self.of == PATIENCE

    @property
    def title(self) -> str:
        return self.label or " / ".join(name.rpartition(".")[2] for name in self.names)


class Scale(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How large: points of the axis, seeds per point, and settings of this scale alone."""

    values: list[Value]
    runs: int = 5
    scenario: dict[str, Setting] = {}


class Variant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A second thing to compare, such as two networks: settings that make up another series of each
    design.
    """

    scenario: dict[str, Setting] = {}
    designs: list[str] | None = None
    values: list[Value] | None = None


class Figure(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One figure: a measure over the axis."""

    measure: str
    log: bool = False
    title: str = ""
    formula: str = ""
    """A second measure, drawn dotted: what a formula of the paper gives."""
    over: str = ""
    """Another measure along the horizontal axis: what one is bought with in terms of the other,
    point by point.
    """
    limit: float | None = None
    over_limit: float | None = None
    """What is aimed at, of `measure` and of `over`; thin lines."""


class Experiment(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is to be run and shown."""

    title: str
    about: str
    source: str
    designs: str | list[str]
    axis: Axis
    small: Scale
    paper: Scale
    medium: Scale | None = None
    """Between the two, where there is need of it; else as small."""
    name: str = ""
    without: list[str] = []
    scenario: dict[str, Setting] = {}
    design: dict[str, dict[str, Setting]] = {}
    """Parameters of single designs, by design."""
    variants: dict[str, Variant] = {}
    figures: list[Figure] = []
    columns: list[str] = []
    """Measures of one table with a row for each series."""
    published: list[Published] = []
    trial: str = ""
    """`module:function` of a trial that measures something itself instead of simulating casts."""

    def scale(self, name: str) -> Scale:
        if name not in SCALES:
            raise ExperimentError(f"there is no scale {name!r}; choose small, medium or paper")
        chosen: Scale | None = getattr(self, name)
        return chosen or self.small

    def chosen(self) -> list[str]:
        """The designs that take part: those named, or all that speak the language and know what the
        axis varies.
        """
        known = all_designs()
        if isinstance(self.designs, list):
            return [name for name in self.designs if name in known]
        varied = [
            name.removeprefix("design.") for name in self.axis.names if name.startswith("design.")
        ]
        return [
            name
            for name, each in known.items()
            if _takes_part(each, self.designs)
            and name not in self.without
            and all(any(one.name == parameter for one in each.parameters) for parameter in varied)
        ]


def _takes_part(design: Design, asked: str) -> bool:
    return bool(design.survives) if asked == SURVIVING else asked in design.languages


def experiments() -> dict[str, Experiment]:
    """The experiments that come with the laboratory, by name."""
    folder = files("implicast.lab.experiments")
    found = sorted(each.name for each in folder.iterdir() if each.name.endswith(".toml"))
    return {
        name.removesuffix(".toml"): read(
            name.removesuffix(".toml"), (folder / name).read_text("utf-8")
        )
        for name in found
    }


def experiment(name: str) -> Experiment:
    """The experiment of this name, or of the file at this path."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise ExperimentError(f"there is no experiment file {path}")
        try:
            return read(path.stem, path.read_text("utf-8"))
        except UnicodeDecodeError as wrong:
            raise ExperimentError(
                f"experiment {path.stem}: not a text in UTF-8: {wrong.reason}"
            ) from None
    known = experiments()
    if name not in known:
        near = get_close_matches(name, known, 1)
        meant = (
            f"did you mean {near[0]}?"
            if near
            else f"choose one of {', '.join(known)}, or give a .toml file"
        )
        raise ExperimentError(f"there is no experiment {name!r}; {meant}")
    return known[name]


def read(name: str, text: str) -> Experiment:
    """An experiment from its text; `ExperimentError` says what is wrong and where."""
    try:
        found = msgspec.convert(tomllib.loads(text), Experiment)
    except tomllib.TOMLDecodeError as wrong:
        raise ExperimentError(f"experiment {name}: not TOML: {wrong}") from None
    except msgspec.ValidationError as wrong:
        raise ExperimentError(f"experiment {name}: {wrong}") from None
    made = msgspec.structs.replace(found, name=name)
    _check(made)
    return made


def _check(made: Experiment) -> None:
    names = [*([] if made.axis.by_patience else made.axis.names), *made.scenario]
    for scale in SCALES:
        names += made.scale(scale).scenario
        for value in made.scale(scale).values:
            if not made.axis.by_patience:
                point_settings(made, value)
    for variant in made.variants.values():
        names += variant.scenario
    if not made.trial:
        for name in names:
            check_setting(made.name, name)
        measures = [
            name for figure in made.figures for name in (figure.measure, figure.over) if name
        ]
        for name in (*measures, *made.columns):
            _check_measure(made.name, name)
    for claim in made.published:
        _check_claim(made, claim)


def _check_claim(made: Experiment, claim: Published) -> None:
    if not made.trial:
        _check_measure(made.name, claim.measure)
    says = [
        bool(claim.trend),
        claim.value is not None,
        claim.at_most is not None or claim.at_least is not None,
    ]
    if sum(says) != 1:
        raise ExperimentError(
            f"experiment {made.name}: {claim.says!r} must state one of value, trend, or a bound (at_most, at_least)"
        )
    points = [point_label(value) for value in made.paper.values]
    if claim.at and claim.at not in points:
        raise ExperimentError(
            f"experiment {made.name}: {claim.says!r} is at {claim.at!r}; points are {', '.join(points)}"
        )


FIELDS = (
    "peers",
    "casts",
    "network",
    "workload",
    "interval_ms",
    "changes",
    "faults",
    "churn",
    "start",
    "register",
    "strict",
)


def check_setting(experiment_name: str, name: str) -> None:
    """`ExperimentError` for a setting that no scenario has."""
    if name not in FIELDS and not name.startswith(("workload.", "design.")):
        takes = ", ".join(FIELDS)
        raise ExperimentError(
            f"experiment {experiment_name}: there is no setting {name!r}; "
            f"it takes {takes}, workload.NAME or design.NAME"
        )


def _check_measure(experiment_name: str, name: str) -> None:
    known = (*MEASURES, *CHANGE)
    if name not in known and not name.endswith(("_messages", "_bytes")):
        raise ExperimentError(
            f"experiment {experiment_name}: there is no measure {name!r}; there are {', '.join(known)}"
        )


def point_settings(made: Experiment, value: Value) -> Mapping[str, Setting]:
    """What a value of the axis sets."""
    given = value if isinstance(value, list) else [value]
    names = made.axis.names
    if len(given) != len(names):
        raise ExperimentError(
            f"experiment {made.name}: the axis varies {len(names)} settings together, but {value} gives {len(given)}"
        )
    if made.axis.form:
        given = [made.axis.form.format(_plain(each)) for each in given]
    return dict(zip(names, given, strict=True))


def patience_settings(design: Design, value: Value) -> Mapping[str, Setting] | None:
    """What a point between patience and upkeep sets for a design: `default`, `quick`, or its own
    first, second, ...

    None where the design names no such point.
    """
    points: dict[str, Mapping[str, Setting]] = {
        "default": {},
        **({"quick": design.quick} if design.quick else {}),
    }
    points |= {str(number): each for number, each in enumerate(design.upkeep_points, 1)}
    found = points.get(str(value))
    return None if found is None else {f"design.{name}": setting for name, setting in found.items()}


def point_label(value: Value) -> str:
    """How a point is called on the axis."""
    return " / ".join(_plain(each) for each in (value if isinstance(value, list) else [value]))


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
