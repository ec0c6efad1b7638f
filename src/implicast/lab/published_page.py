"""The page `docs/reference/published.md`: every figure and numbered claim of the papers, beside
what was measured.
"""

from collections import Counter
from collections.abc import Iterable

from implicast.lab.experiment import Experiment
from implicast.lab.published import BETTERED, MET, NOT_RUN, REFUTED, Judged, judge
from implicast.lab.published_values import Kept, evidence

HEAD = """# Published and measured

Made by `implicast lab published`; one row for each figure and numbered claim of the four papers. *Published* is what
the paper prints; most plots are lost or have no numbers, and then the sentence about them is the claim. *Tolerance* is
how far the printed number is rounded, and two standard errors of the mean over seeds; where the paper says that
something rises, falls or exceeds something else, the comparison is paired by seed and exact. *Measured* is the mean
with its standard error.

**met**: the same within the tolerance. **bettered**: missed on the side that the paper would prefer. **refuted**: not
so here, with the reason as far as it is known. **not run**: not run at the scale of the claim; a smaller run is told
and is no verdict. Designs are run as the papers measure them (`assurance=none`). A series is called *told* where its
replication was told the casts to come, as in the thesis (`replication=beforehand`); by default it measures them.

One command remakes the rows of an experiment: `implicast lab published NAME --scale paper`; with `--data DIRECTORY`
where it needs bibliographies or maps. What was measured, seed by seed, is in [published.json](published.json).
"""


def page(made: Iterable[Experiment], kept: Kept) -> str:
    """The whole page."""
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
