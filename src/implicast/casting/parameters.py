"""Parameters of designs: declared once with default, range and meaning; checked whenever they are given."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from implicast.peer.errors import ParameterError

Setting = int | float | bool | str
Parameters = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One knob: `--set name=value`. The type of the default is the type of the value."""

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
        return f"{low}..{high}" if low or high else type(self.default).__name__

    def read(self, design: str, given: Setting) -> Setting:
        """The value as its type, within its range, or a `ParameterError`."""
        value = self._convert(design, given)
        within = (self.low is None or value >= self.low) and (  # type: ignore[operator]
            self.high is None or value <= self.high  # type: ignore[operator]
        )
        if not within or (self.choices and value not in self.choices):
            raise ParameterError(f"{design}: {self.name}={given} is out of range; it takes {self.range_text()}")
        return value

    def _convert(self, design: str, given: Setting) -> Setting:
        kind = type(self.default)
        takes = f"it takes {self.range_text()}"
        wrong = ParameterError(f"{design}: {self.name}={given} is not {_KIND_NAMES[kind]}; {takes}")
        if kind is bool:
            if str(given).lower() in ("true", "yes", "1", "false", "no", "0"):
                return str(given).lower() in ("true", "yes", "1")
            raise wrong
        try:
            value = kind(given)
        except ValueError:
            raise wrong from None
        if value != value or value in (float("inf"), float("-inf")):
            raise wrong
        return value


_KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def settle(design: str, declared: tuple[Parameter, ...], given: Mapping[str, Setting]) -> Parameters:
    """Defaults, with the given values in their place."""
    known = {parameter.name: parameter for parameter in declared}
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "no parameters"
            raise ParameterError(f"{design} has no parameter {name!r}; it takes: {takes}")
    values = {name: known[name].read(design, given[name]) if name in given else known[name].default for name in known}
    return MappingProxyType(values)
