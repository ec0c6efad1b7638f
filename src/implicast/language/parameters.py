"""Parameters: declared once with default, range and meaning; checked whenever they are given.

Designs and workloads have them alike: `--set name=value` and `--with name=value`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

from implicast.language.errors import LocalError

Setting = int | float | bool | str
Parameters = Mapping[str, Setting]

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


class ParameterError(LocalError):
    """An unknown parameter, or a value out of its range."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One knob. The type of the default is the type of the value."""

    name: str
    default: Setting
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""

    def range_text(self) -> str:
        if self.choices:
            return " | ".join(self.choices)
        if isinstance(self.default, bool):
            return "true | false"
        low = "" if self.low is None else f"{self.low:g}"
        high = "" if self.high is None else f"{self.high:g}"
        return f"{low}..{high}" if low or high else _KINDS[type(self.default)]

    def read(self, owner: str, given: Setting) -> Setting:
        """The value as its type, within its range, or a `ParameterError`."""
        value = self._converted(given)
        if value is None:
            kind = _KINDS[type(self.default)]
            raise ParameterError(
                f"{owner}: {self.name}={given} is not {kind}; it takes {self.range_text()}"
            )
        if not self._admits(value):
            raise ParameterError(
                f"{owner}: {self.name}={given} is out of range; it takes {self.range_text()}"
            )
        return value

    def _admits(self, value: Setting) -> bool:
        if isinstance(value, str):
            return not self.choices or value in self.choices
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def _converted(self, given: Setting) -> Setting | None:
        if isinstance(self.default, bool):
            return _TRUTHS.get(str(given).lower())
        if isinstance(self.default, str):
            return str(given)
        try:
            value = float(given)
        except (TypeError, ValueError, OverflowError):
            return None
        if isinstance(given, bool) or not isfinite(value):
            return None
        if isinstance(self.default, float):
            return value
        return int(given) if value == int(value) else None


def settle(owner: str, declared: tuple[Parameter, ...], given: Mapping[str, Setting]) -> Parameters:
    """Defaults, with the given values in their place; `ParameterError` names what is unknown or out
    of range.
    """
    known = {parameter.name: parameter for parameter in declared}
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "no parameters"
            raise ParameterError(f"{owner} has no parameter {name!r}; it takes: {takes}")
    values = {
        name: known[name].read(owner, given[name]) if name in given else known[name].default
        for name in known
    }
    return MappingProxyType(values)
