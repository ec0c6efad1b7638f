"""The command `watch`."""

from functools import partial
from pathlib import Path

import click

from implicast.net.options import debug_option, dir_option
from implicast.net.sights import folders, look


@click.command("watch")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@dir_option
@debug_option
def watch_command(every_s: float, directory: Path | None, debug: bool) -> None:
    """Watch the nodes of a network in the terminal: how they are, casts as they spread, queues. `q` ends it.

    \b
    implicast local 20            in one terminal
    implicast watch               in another
    """
    from implicast.net.watch import Watch

    where = folders(directory.expanduser() if directory is not None else None)
    Watch(partial(look, where), every_s).run()
