"""The commands `implicast journal` and `implicast lab stream`: a deployment's data, gathered and watched."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import click

from implicast.lab.gather import Gatherer, NoJournal


@click.command("journal")
@click.argument("directory", type=click.Path(path_type=Path, exists=True))
@click.option("--to", "lake", type=click.Path(path_type=Path), required=True, help="The lake: a folder that grows.")
@click.option("--run", "name", help="How the run is called. [NETWORK-DESIGN]")
@click.option("--follow", is_flag=True, help="Go on as nodes write, until it is stopped.")
@click.option("--every", "every_s", default=5.0, show_default=True, help="Seconds between two looks with --follow.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def journal_command(
    directory: Path, lake: Path, name: str | None, follow: bool, every_s: float, as_json: bool, debug: bool
) -> None:
    """Gather what the nodes below DIRECTORY wrote down into a LAKE, in the columns of a simulation.

    \b
    implicast local 20 --journal --dir net       nodes that write a journal
    implicast journal net --to lake              all that is new; again later for the rest
    implicast lab measure lake                   the same measures as of a simulation
    implicast lab stream lake                    or as it grows (then gather with --follow)
    """
    gatherer = _gatherer(directory.expanduser(), lake.expanduser(), name, follow)
    total = _followed(gatherer, every_s) if follow else gatherer.take()
    folder = gatherer.whole()
    told: dict[str, Any] = {**total, "foreign": gatherer.foreign, "journal": str(folder)}
    if as_json:
        click.echo(json.dumps(told))
        return
    counted = ", ".join(f"{count:,} {table}" for table, count in total.items())
    click.echo(f"{folder}: {counted} were new")
    if gatherer.foreign:
        click.echo(f"{gatherer.foreign} notices are of casts whose publisher's journal is not here; left out", err=True)


def _gatherer(directory: Path, lake: Path, name: str | None, follow: bool) -> Gatherer:
    """Who follows may begin before the nodes do."""
    while True:
        try:
            return Gatherer(directory, lake, name)
        except NoJournal:
            if not follow:
                raise
            time.sleep(1.0)


def _followed(gatherer: Gatherer, every_s: float) -> dict[str, int]:
    """Until interrupted; then all that is left."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    total: dict[str, int] = {}
    try:
        while True:
            _add(total, gatherer.take())
            time.sleep(every_s)
    except KeyboardInterrupt:
        _add(total, gatherer.take())
    return total


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        total[name] = total.get(name, 0) + count
