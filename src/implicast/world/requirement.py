"""Thresholds that decide the exit code: `--require "missing == 0" --require "RTH < 5"`."""

import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from implicast.peer.errors import ParameterError

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"\s*([\w.]+)\s*(==|!=|<=|>=|<|>)\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One threshold."""

    name: str
    sign: str
    value: float

    @classmethod
    def read(cls, text: str) -> "Requirement":
        found = _FORM.fullmatch(text)
        try:
            return cls(found[1], found[2], float(found[3]))  # type: ignore[index]
        except (TypeError, ValueError):
            form = 'expected a measure, a sign and a number, like "RTH < 5"'
            raise ParameterError(f"--require {text!r}: {form}") from None

    def check(self, names: Collection[str]) -> None:
        """Raise a `ParameterError` if there is no such figure."""
        if self.name not in names:
            near = get_close_matches(self.name, names, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
            raise ParameterError(f"--require: there is no figure {self.name!r}; {meant}")

    def broken_by(self, figures: Mapping[str, float]) -> str | None:
        """A sentence if these figures do not meet the threshold; `ParameterError` if there is no
        such figure.
        """
        self.check(figures)
        value = figures[self.name]
        if _OPERATORS[self.sign](value, self.value):
            return None
        return f"required {self.name} {self.sign} {self.value:g}, but it is {value:g}"


def read(texts: Sequence[str], names: Collection[str] = ()) -> list[Requirement]:
    """Read thresholds. If names are given, an unknown figure is refused before the run."""
    found = [Requirement.read(each) for each in texts]
    for each in found if names else ():
        each.check(names)
    return found


def broken(requirements: Sequence[Requirement], figures: Mapping[str, float]) -> list[str]:
    """One sentence for each threshold that is not met."""
    found = (each.broken_by(figures) for each in requirements)
    return [sentence for sentence in found if sentence is not None]
