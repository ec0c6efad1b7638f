"""What a paper published beside what was measured here, with a verdict: met, bettered or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from implicast.lab.experiment import Published

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compared:
    """A row of the table of published against measured."""

    says: str
    measure: str
    at: str
    published: str
    measured: str
    verdict: str
    style: str


def compare(claim: Published, rows: Sequence[Row]) -> Compared | None:
    """The claim beside the summary's rows; None when its design did not take part."""
    found = _found(claim.design, claim, rows)
    if not found:
        return None
    value, shown = _value(claim, found, rows)
    if value is None:
        return None
    at = claim.at if found[0]["point"] == claim.at else f"{found[0]['point']} (the paper's {claim.at} was not run)"
    met = _met(claim, value)
    return Compared(
        claim.says, claim.measure, at if claim.at else "everywhere", _published(claim), shown,
        "met" if met else "not met", "good" if met else "bad",
    )  # fmt: skip


def _found(series: str, claim: Published, rows: Sequence[Row]) -> list[Row]:
    """The rows the claim speaks of: the point it names, or the last when that was not run; all when it names none."""
    mine = [row for row in rows if row["series"] == series and row["measure"] == claim.measure]
    if not claim.at or not mine:
        return mine
    named = [row for row in mine if row["point"] == claim.at]
    return named or [max(mine, key=lambda row: row["position"])]


def _value(claim: Published, found: Sequence[Row], rows: Sequence[Row]) -> tuple[float | None, str]:
    # A bound is judged by the point that is nearest to breaking it, a value by the furthest from it.
    hardest = max(found, key=lambda row: _strain(claim, row["mean"]))
    if not claim.against:
        return hardest["mean"], _interval(hardest)
    other = [row for row in _found(claim.against, claim, rows) if row["point"] == hardest["point"]]
    if not other or not other[0]["mean"]:
        return None, ""
    ratio = hardest["mean"] / other[0]["mean"]
    return ratio, f"{ratio:.3g} times {claim.against}"


def _strain(claim: Published, value: float) -> float:
    if claim.value is not None:
        return abs(value - claim.value)
    return value if claim.at_most is not None else -value


def _interval(row: Row) -> str:
    half = row["high"] - row["mean"]
    return f"{row['mean']:,.4g}" + (f" ± {half:,.0f}" if half >= 10 else f" ± {half:.2g}" if half else "")


def _published(claim: Published) -> str:
    if claim.value is not None:
        return f"{claim.value:g}"
    if claim.at_most is not None:
        return f"at most {claim.at_most:g}"
    return "" if claim.at_least is None else f"at least {claim.at_least:g}"


def _met(claim: Published, value: float) -> bool:
    if claim.value is not None and abs(value - claim.value) > claim.near * abs(claim.value):
        return False
    if claim.at_most is not None and value > claim.at_most:
        return False
    return claim.at_least is None or value >= claim.at_least
