"""Parameters of workloads, declared as fields of a frozen dataclass."""

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from implicast.language.errors import LocalError
from implicast.language.parameters import Parameter, Setting, settle


class WorkloadError(LocalError):
    """A workload that cannot be drawn or read as described."""


def knob(default: Setting, doc: str, low: float | None = None, high: float | None = None) -> Any:
    """A field of a workload that is a parameter of it."""
    return field(
        default=default, metadata={"default": default, "doc": doc, "low": low, "high": high}
    )


def knobs_of(kind: type) -> tuple[Parameter, ...]:
    """The parameters that a workload declares."""
    return tuple(
        Parameter(each.name, **each.metadata) for each in fields(kind) if "doc" in each.metadata
    )


def settings_of(workload: str, kind: type, given: Mapping[str, Setting]) -> dict[str, Setting]:
    """Defaults, with the given values checked and put in their place."""
    return dict(settle(f"workload {workload}", knobs_of(kind), given))


def check(workload: str, made: object) -> None:
    """All parameters of a workload that was made directly are within their ranges."""
    for each in knobs_of(type(made)):
        each.read(f"workload {workload}", getattr(made, each.name))
