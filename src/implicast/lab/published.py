"""Compares a claim of a paper with measurements: published value, tolerance, measured value,
verdict.

The published value is what the paper prints; it is a bound only where the paper states a bound. The
tolerance is the rounding of the printed number plus two standard errors of the mean over the seeds.
Where a paper says that a measure grows, or exceeds another one, the comparison is paired by seed
and exact: every seed must show it.

A claim is `met`; `bettered` if the number is missed on the side that the paper prefers; otherwise
`refuted`. Only runs at the scale of the paper give a verdict. Results of a smaller run are shown
without one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

import msgspec

MET, BETTERED, REFUTED, NOT_RUN = "met", "bettered", "refuted", "not run"
ERRORS = 2.0
"""Standard errors of the mean on either side."""

Seeds = Mapping[int, float]


class Published(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One claim of a paper: a sentence about a measure of a series, at a point of the axis or along
    it.
    """

    says: str
    design: str
    """The series: a design, followed by the label of the variant if the experiment has variants."""
    measure: str
    figure: str = ""
    """Figure, section or formula that states it."""
    at: str = ""
    """Point on the axis; empty: along the whole axis."""
    value: float | None = None
    rounding: float | None = None
    """Largest rounding error of the printed number. Default: half a unit of its last digit."""
    at_most: float | None = None
    at_least: float | None = None
    trend: Literal["", "rises", "falls", "flat"] = ""
    """Direction from the first point to the last; `flat`: changes by at most `rounding`, as a
    share.
    """
    against: str = ""
    """Another series: the measure is divided by that of the other series, seed by seed."""
    better: Literal["", "lower", "higher"] = ""
    reason: str = ""
    """Why the measurement differs, or a remark."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Measured values: by series, point and measure, the value for each seed."""

    values: Mapping[tuple[str, str, str], Seeds]
    points: Sequence[str]
    """In the order of the axis."""
    scale: str = "paper"

    def of(self, claim: Published, point: str) -> Seeds:
        """The claim's measure at a point, divided by that of the series `against` if it is given."""
        mine = self.values.get((claim.design, point, claim.measure), {})
        if not claim.against:
            return mine
        other = self.values.get((claim.against, point, claim.measure), {})
        return {seed: value / other[seed] for seed, value in mine.items() if other.get(seed)}


@dataclass(frozen=True, slots=True)
class Judged:
    """One row of the page: a claim and the comparison with its measurement."""

    claim: Published
    published: str
    tolerance: str
    measured: str
    verdict: str

    @property
    def style(self) -> str:
        return {MET: "good", BETTERED: "good", REFUTED: "bad"}.get(self.verdict, "soft")

    @property
    def at(self) -> str:
        return self.claim.at or "along the axis"


def judge(claim: Published, evidence: Evidence) -> Judged:
    """Compare a claim with the measured values."""
    here = [point for point in evidence.points if evidence.of(claim, point)]
    if claim.trend and len(here) > 1:
        verdict, tolerance, measured = _trend(
            claim, evidence.of(claim, here[0]), evidence.of(claim, here[-1])
        )
        measured = f"{measured} ({here[0]} to {here[-1]})"
    elif not claim.trend and claim.at in here:
        verdict, tolerance, measured = _point(claim, evidence.of(claim, claim.at))
    elif not claim.trend and not claim.at and here:
        rows = [_point(claim, evidence.of(claim, point)) for point in here]
        verdict, tolerance, measured = next((row for row in rows if row[0] != MET), rows[-1])
    else:
        return Judged(claim, printed(claim), "", "", NOT_RUN)
    if evidence.scale != "paper":
        verdict = _smaller(claim, verdict, evidence.scale)
    return Judged(claim, printed(claim), tolerance, measured, verdict)


def _smaller(claim: Published, verdict: str, scale: str) -> str:
    """The verdict for a smaller run. It can agree or differ in trends and ratios; absolute values
    are not comparable.
    """
    if not claim.trend and not claim.against:
        return f"{NOT_RUN}; {scale} runs have values"
    return f"{NOT_RUN}; {scale} runs {'agree' if verdict != REFUTED else 'differ'}"


def printed(claim: Published) -> str:
    """The published value as text."""
    beside = f" times {claim.against}" if claim.against else ""
    if claim.trend:
        return (claim.trend if claim.trend != "flat" else "does not change") + (
            beside and f", as {beside.strip()}"
        )
    if claim.value is not None:
        return f"{claim.value:g}{beside}"
    bounds = (("at least", claim.at_least), ("at most", claim.at_most))
    return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None) + beside


def _point(claim: Published, seeds: Seeds) -> tuple[str, str, str]:
    mean, error = fmean(seeds.values()), _standard_error(seeds)
    measured = f"{mean:,.4g}" + (f" ± {error:.2g}" if error else "")
    if claim.value is None:
        held = all(_within(claim, value) for value in seeds.values())
        return MET if held else REFUTED, f"none; {_seeds(seeds)}", measured
    rounding = _rounding(claim)
    tolerance = f"± {rounding:.2g} rounded ± {ERRORS * error:.2g} (2 s.e., {len(seeds)} seeds)"
    if len(seeds) == 1:
        tolerance = f"± {rounding:.2g} rounded; one seed"
    if abs(mean - claim.value) <= rounding + ERRORS * error:
        return MET, tolerance, measured
    preferred = mean < claim.value if claim.better == "lower" else mean > claim.value
    return BETTERED if claim.better and preferred else REFUTED, tolerance, measured


def _trend(claim: Published, first: Seeds, last: Seeds) -> tuple[str, str, str]:
    both = sorted(first.keys() & last.keys())
    measured = (
        f"{fmean(first[seed] for seed in both):,.4g} to {fmean(last[seed] for seed in both):,.4g}"
    )
    held = {
        "rises": lambda seed: last[seed] > first[seed],
        "falls": lambda seed: last[seed] < first[seed],
        "flat": lambda seed: (
            abs(last[seed] - first[seed]) <= (claim.rounding or 0.0) * abs(first[seed])
        ),
    }[claim.trend]
    so = sum(map(held, both))
    tolerance = f"± {claim.rounding or 0:.0%}" if claim.trend == "flat" else "none"
    return (
        MET if so == len(both) else REFUTED,
        f"{tolerance}; paired, {so} of {len(both)} seeds",
        measured,
    )


def _within(claim: Published, value: float) -> bool:
    return (claim.at_most is None or value <= claim.at_most) and (
        claim.at_least is None or value >= claim.at_least
    )


def _rounding(claim: Published) -> float:
    if claim.rounding is not None:
        return claim.rounding
    digits = f"{claim.value:.6f}".rstrip("0").partition(".")[2]
    return 0.5 * 10.0 ** -len(digits)


def _standard_error(seeds: Seeds) -> float:
    values = list(seeds.values())
    return stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def _seeds(seeds: Seeds) -> str:
    return "one seed" if len(seeds) == 1 else f"each of {len(seeds)} seeds"
