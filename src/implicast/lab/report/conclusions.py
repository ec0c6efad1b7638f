"""What a report concludes, a sentence for each question: who delivers, who bears the load, how
fast, at what price.

Everything is read at the last point of the axis, where designs differ most. Series whose means lie
within the 95 % interval of the best or the worst are named with it, where there are seeds enough
for an interval.
"""

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
NAMED = 3
"""So many series are named at one end; further ones are counted."""


QUESTIONS = (
    (
        "Who bears the load?",
        "TOUT_G",
        ".2f",
        "sending is spread best by {0} (Gini {1}), least by {2} ({3})",
        "sending is spread alike by all (Gini {0})",
    ),
    (
        "How fast?",
        "latency_ms_mean",
        ".0f",
        "a member hears after {1} ms by {0}, after {3} ms by {2}",
        "a member hears after {0} ms by all",
    ),
    (
        "At what price?",
        "RTH",
        ".3g",
        "for each message of one server there are {1} by {0}, {3} by {2}",
        "for each message of one server there are {0} by all",
    ),
)
"""A measure, how many of its digits are told, and what is said of the best and the worst, or of all
that are alike.
"""


def conclusions(rows: Sequence[Row], contract: Sequence[Row]) -> list[tuple[str, str]]:
    """Pairs of question and answer; of what was not measured, none."""
    found = [("Who delivers?", _delivers(contract))] if contract else []
    last = max((row["position"] for row in rows), default=0)
    at_end = [row for row in rows if row["position"] == last]
    several = len(at_end) < len(rows)
    where = next(
        (f"at {row['axis']} {row['point_label']}" for row in at_end if row["axis"] and several), ""
    )
    for question, measure, digits, answer, alike in QUESTIONS:
        told = [row for row in at_end if row["measure"] == measure]
        if len(told) > 1:
            best, worst = min(told, key=_mean), max(told, key=_mean)
            least, most = (format(each["mean"], digits) for each in (best, worst))
            said = answer.format(_like(best, told, digits), least, _like(worst, told, digits), most)
            found.append(
                (question, _sentence(alike.format(least) if least == most else said, where))
            )
    return found


def _mean(row: Row) -> float:
    return float(row["mean"])


def _like(one: Row, told: Sequence[Row], digits: str) -> str:
    """This series, and those of which the same figure is told."""
    figure = format(one["mean"], digits)
    alike = [row["series"] for row in told if format(row["mean"], digits) == figure]
    alike.sort(key=lambda name: name != one["series"])
    more = f" and {len(alike) - NAMED} more" if len(alike) > NAMED else ""
    shown = alike[:NAMED]
    return (
        ", ".join(shown) + more
        if more or len(shown) < 2
        else f"{', '.join(shown[:-1])} and {shown[-1]}"
    )


def _delivers(contract: Sequence[Row]) -> str:
    due = sum(row["expected"] for row in contract)
    short = sorted((row for row in contract if row["missing"]), key=lambda row: -row["missing"])
    if not due:
        return "Nothing was due: no cast selected a member."
    if not short:
        return f"All of them: {due:,} deliveries were due, and none is missing."
    worst = ", ".join(
        f"{row['series']} missed {row['missing']:,} of {row['expected']:,}" for row in short[:NAMED]
    )
    rest = len(contract) - len(short)
    return f"{rest} of {len(contract)} series delivered everything; {worst}."


def _sentence(text: str, where: str) -> str:
    told = f"{where}, {text}" if where else text
    return told[:1].upper() + told[1:] + "."
