"""Parameters of workloads: declared once, as fields with default, range and meaning; checked whenever given."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from implicast.language.errors import LocalError

Setting = int | float | bool | str


class WorkloadError(LocalError):
    """A workload that cannot be drawn or read as described."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One parameter. The type of the default is the type of the value."""

    name: str
    default: Setting
    doc: str
    low: float | None = None
    high: float | None = None

    def range_text(self) -> str:
        if isinstance(self.default, bool):
            return "true or false"
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        low = "" if self.low is None else f" from {self.low:g}"
        return kind + low + ("" if self.high is None else f" to {self.high:g}")

    def read(self, workload: str, given: Setting) -> Setting:
        """The value as its type and within its range, or a `WorkloadError`."""
        value = self._convert(given)
        if value is None or not self._within(value):
            raise WorkloadError(
                f"workload {workload}: {self.name}={given} is out of range; it takes {self.range_text()}"
            )
        return value

    def _within(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _convert(self, given: Setting) -> int | float | None:
        if isinstance(self.default, bool):
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
                str(given).lower()
            )
        try:
            value = float(given)
        except (TypeError, ValueError, OverflowError):
            return None
        if isinstance(given, bool) or not isfinite(value):
            return None
        if isinstance(self.default, float):
            return value
        return int(value) if value == int(value) else None


def knob(default: Setting, doc: str, low: float | None = None, high: float | None = None) -> Any:
    """A field of a workload that is a parameter of it."""
    return field(default=default, metadata={"default": default, "doc": doc, "low": low, "high": high})


def knobs_of(kind: type) -> tuple[Knob, ...]:
    """The parameters that a workload declares."""
    declared = (each for each in fields(kind) if "doc" in each.metadata)
    return tuple(
        Knob(each.name, each.metadata["default"], each.metadata["doc"], each.metadata["low"], each.metadata["high"])
        for each in declared
    )


def settle(workload: str, kind: type, given: Mapping[str, Setting]) -> dict[str, Setting]:
    """The given values, checked; `WorkloadError` names what is unknown or out of range."""
    known = {each.name: each for each in knobs_of(kind)}
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "none"
            raise WorkloadError(f"workload {workload} has no parameter {name!r}; it takes: {takes}")
    return {name: known[name].read(workload, value) for name, value in given.items()}


def check(workload: str, kind: object) -> None:
    """All parameters of a workload that was made directly are within their ranges."""
    for each in knobs_of(type(kind)):
        each.read(workload, getattr(kind, each.name))
