"""`implicast lab published`: makes the runs that the claims need, and writes the page that
compares.
"""

from pathlib import Path

import click

from implicast.lab import case
from implicast.lab.errors import LabError
from implicast.lab.experiment import SCALES, experiment, experiments
from implicast.lab.inputs import directory, lacking, prepared
from implicast.lab.options import DIRECTORY, say
from implicast.lab.published_page import page
from implicast.lab.published_values import gather, needed, read, unmade, write

PAGE = Path("docs/reference/published.md")
KEPT = Path("lab-published")


@click.command("published")
@click.argument("names", nargs=-1, metavar="[EXPERIMENT]...")
@click.option(
    "--scale",
    type=click.Choice(SCALES),
    default="paper",
    show_default=True,
    help="Scale of the runs.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Seeds for each point, instead of the experiment's own.",
)
@click.option("--again", is_flag=True, help="Repeat runs whose values are stored.")
@click.option(
    "--page",
    "where",
    type=click.Path(dir_okay=False, path_type=Path),
    default=PAGE,
    show_default=True,
    help="The page; the measured values are stored next to it as .json.",
)
@click.option(
    "--data",
    type=DIRECTORY,
    help=f"Directory of bibliographies, keywords and maps; also by {case.DATA}.",
)
@click.option(
    "--workloads",
    type=DIRECTORY,
    default=KEPT,
    show_default=True,
    help="Directory that stores workloads of a corpus.",
)
def published_command(
    names: tuple[str, ...],
    scale: str,
    runs: int | None,
    again: bool,
    where: Path,
    data: Path | None,
    workloads: Path,
) -> None:
    """Compare the claims of the papers with measurements, as one page.

    With names of experiments: first make the runs that their claims need, one after the other;
    Spark starts only if workloads of a corpus have to be made. Experiments whose bibliographies or
    maps are missing are left out. Without names: write only the page, from the stored values.
    """
    chosen, data = [experiment(name) for name in names], directory(data)
    if not where.parent.is_dir():
        raise LabError(f"--page {where}: there is no directory {where.parent}")
    kept = read(where.with_suffix(".json"))
    for each in chosen:
        wanted = needed(each, scale, runs)
        wanted = wanted if again else unmade(each, scale, wanted, kept)
        if why := lacking(wanted, data):
            say(f"left out: {each.name} {why}")
            continue
        if again:
            kept.get(each.name, {}).pop(scale, None)
        for _ in gather(each, scale, wanted, kept, prepared(wanted, data, workloads), say):
            write(where.with_suffix(".json"), kept)
    where.write_text(page(experiments().values(), kept), "utf-8")
    click.echo(f"page: {where}")
