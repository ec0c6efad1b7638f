"""`implicast lab published`: make the runs that claims need, and the page that compares."""

from pathlib import Path

import click

from implicast.lab.evidence import gather, read, write
from implicast.lab.experiment import SCALES, experiment, experiments
from implicast.lab.options import say
from implicast.lab.published_page import page

PAGE = Path("docs/reference/published.md")


@click.command("published")
@click.argument("names", nargs=-1, metavar="[EXPERIMENT]...")
@click.option("--scale", type=click.Choice(SCALES), default="paper", show_default=True, help="At which scale to run.")
@click.option("--runs", type=click.IntRange(min=1), help="Seeds for each point, instead of the experiment's own.")
@click.option("--again", is_flag=True, help="Make runs anew that are there already.")
@click.option(
    "--page", "where", type=click.Path(dir_okay=False, path_type=Path), default=PAGE, show_default=True,
    help="The page; what was measured is kept beside it as .json.",
)  # fmt: skip
def published_command(names: tuple[str, ...], scale: str, runs: int | None, again: bool, where: Path) -> None:
    """What the papers published beside what is measured here, as one page.

    With names of experiments: first the runs that their claims need, one after the other, without Spark. Without: the
    page alone, from what was measured before.
    """
    chosen = [experiment(name) for name in names]
    kept = read(where.with_suffix(".json"))
    for each in chosen:
        for _ in gather(each, scale, runs, kept, again, say):
            write(where.with_suffix(".json"), kept)
    where.write_text(page(experiments().values(), kept), "utf-8")
    click.echo(f"page: {where}")
