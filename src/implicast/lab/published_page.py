"""Writes `docs/reference/published.md`: every figure and numbered claim of the papers, compared
with the measured values.
"""

from collections import Counter
from collections.abc import Iterable

from implicast.lab.experiment import Experiment
from implicast.lab.published import BETTERED, MET, NOT_RUN, REFUTED, Judged, judge
from implicast.lab.published_values import Kept, evidence

HEAD = """# Published and measured

This page compares each figure and numbered claim of the four papers with a measurement of this
code. One row is one claim. `implicast lab published` writes the page.

- *Published*: the number that the paper prints. Most plots are lost or have no numbers; then the
  sentence about the plot is the claim.
- *Tolerance*: the rounding of the printed number plus two standard errors of the mean over seeds.
  Where the paper says that a measure rises, falls or exceeds another one, every seed must show it:
  the comparison is paired by seed, without tolerance.
- *Measured*: the mean over seeds with its standard error.
- *Verdict*: **met**: equal within the tolerance. **bettered**: outside the tolerance, on the side
  that the paper prefers. **refuted**: outside the tolerance, with the reason as far as it is
  known. **not run**: not run at the scale of the claim; results of a smaller run are shown without
  a verdict.

Designs run as the papers measure them (`assurance=none`). In a series named `..., told`
replication knows the casts beforehand, as in the thesis (`replication=beforehand`); the default is
to measure cast rates.

`implicast lab published NAME --scale paper` makes the runs of one experiment and writes its rows;
experiments that need bibliographies or maps also need `--data DIRECTORY`.
[published.json](published.json) has the values seed by seed.
"""


def page(made: Iterable[Experiment], kept: Kept) -> str:
    """The text of the page."""
    found = [
        (each, rows)
        for each in made
        if (rows := [judge(one, evidence(each, kept)) for one in each.published])
    ]
    count = Counter(_kind(row) for _, rows in found for row in rows)
    told = ", ".join(f"{count[kind]} {kind}" for kind in (MET, BETTERED, REFUTED, NOT_RUN))
    parts = [HEAD, f"Of {sum(count.values())} claims: {told}.\n"]
    return "\n".join([*parts, *(_section(each, rows, kept) for each, rows in found)])


def _kind(row: Judged) -> str:
    return NOT_RUN if row.verdict.startswith(NOT_RUN) else row.verdict


def _section(made: Experiment, rows: list[Judged], kept: Kept) -> str:
    scales = kept.get(made.name, {})
    made_of = (
        ", ".join(f"{scale} at commit {told['commit']}" for scale, told in sorted(scales.items()))
        or "not run"
    )
    lines = [
        f"## {made.title}",
        "",
        f"`implicast lab published {made.name} --scale paper` ({made.source}; {made_of})",
        "",
        "| where | claim | series, measure, at | published | tolerance | measured | verdict |",
        "|---|---|---|---|---|---|---|",
        *map(_row, rows),
        "",
    ]
    return "\n".join(lines)


def _row(row: Judged) -> str:
    claim = row.claim
    explained = claim.reason and row.verdict != MET and row.measured
    verdict = f"**{row.verdict}**" + (f": {claim.reason}" if explained else "")
    cells = (
        claim.figure,
        claim.says,
        f"{claim.design}, {claim.measure}, {row.at}",
        row.published,
        row.tolerance,
        row.measured,
        verdict,
    )
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"
