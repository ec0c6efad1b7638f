"""The command `watch`."""

from functools import partial
from pathlib import Path

import click

from implicast.net.options import debug_option, dir_option
from implicast.net.snapshot import folders, take_snapshot


@click.command("watch")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two snapshots.",
)
@dir_option
@debug_option
def watch_command(every_s: float, directory: Path | None, debug: bool) -> None:
    """Watch a network in the terminal: state of nodes, progress of casts, queues. `q` quits.

    \b
    implicast local 20            in one terminal
    implicast watch               in another
    """
    from implicast.net.watch import WatchApp

    where = folders(directory.expanduser() if directory is not None else None)
    WatchApp(partial(take_snapshot, where), every_s).run()
