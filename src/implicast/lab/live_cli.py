"""The commands `implicast journal` and `implicast lab stream`: a deployment's data, gathered and
watched.
"""

import json
import signal
import time
from functools import partial
from typing import Any

import click
import pyarrow as pa

from implicast.lab.delta import KEEP_HOURS
from implicast.lab.gather import Gatherer, NoJournal
from implicast.lab.lake import compact
from implicast.lab.options import on_spark, say, started
from implicast.lab.session import require_connector
from implicast.lab.storage import Location


@click.command("journal")
@click.argument("directory", metavar="URL")
@click.option(
    "--to",
    "lake",
    metavar="URL",
    required=True,
    help="The lake, which grows: a path, s3://..., ...",
)
@click.option("--run", "name", help="How the run is called. [NETWORK-DESIGN]")
@click.option("--follow", is_flag=True, help="Go on as nodes write, until it is stopped.")
@click.option(
    "--every",
    "every_s",
    default=5.0,
    show_default=True,
    help="Seconds between two looks with --follow.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def journal_command(
    directory: str,
    lake: str,
    name: str | None,
    follow: bool,
    every_s: float,
    as_json: bool,
    debug: bool,
) -> None:
    """Gather what the nodes below URL wrote down into a lake, in the columns of a simulation.

    Several gatherers may work on one lake at once, and any of them may be killed: every row is
    gathered once.

    \b
    implicast local 20 --journal --dir net       nodes that write a journal
    implicast journal net --to lake              all that is new; again later for the rest
    implicast lab measure lake                   the same measures as of a simulation
    implicast lab stream lake                    or as it grows (then gather with --follow)
    """
    gatherer = _gatherer(Location.of(directory), Location.of(lake), name, follow)
    total = _followed(gatherer, every_s) if follow else gatherer.take()
    folder = gatherer.whole()
    told: dict[str, Any] = {**total, "foreign": gatherer.foreign, "journal": str(folder)}
    if as_json:
        click.echo(json.dumps(told))
        return
    counted = ", ".join(f"{count:,} {table}" for table, count in total.items())
    click.echo(f"{folder}: {counted} were new")
    if gatherer.foreign:
        click.echo(
            f"{gatherer.foreign} notices are of casts whose publisher's journal is not here; left out",
            err=True,
        )


@click.command("compact")
@click.argument("lake", metavar="URL")
@click.option(
    "--keep",
    "keep_hours",
    type=click.IntRange(min=1),
    default=KEEP_HOURS,
    show_default=True,
    help="Hours for which files that were replaced are kept, for readers that are behind.",
)
def compact_command(lake: str, keep_hours: int) -> None:
    """Join the small files of the lake at URL; gatherers and streams may work meanwhile."""
    for each in compact(Location.of(lake), keep_hours):
        files = f"{each.before} files are now {each.after}"
        click.echo(f"{each.table}: {files}; {each.removed} old ones deleted")


@click.command("stream")
@click.argument("lake", metavar="URL")
@click.option(
    "--out",
    metavar="URL",
    help="Where tables, page and checkpoint are. [LAKE-stream]",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    help="Seconds between two batches.",
)
@click.option(
    "--delay",
    "delay_s",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Minutes and casts are closed after so many seconds; rows that come later are counted as late.",
)
@click.option(
    "--open",
    "open_s",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Receipts that are not there so many seconds after their cast are open too long.",
)
@click.option(
    "--from-now", is_flag=True, help="A new stream leaves out what is in the lake already."
)
@click.option("--once", is_flag=True, help="Stop when all that is in the lake has been read.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the totals after every batch as one JSON object a line.",
)
@on_spark
def stream_command(
    lake: str,
    out: str | None,
    every_s: float,
    delay_s: float,
    open_s: float,
    from_now: bool,
    once: bool,
    as_json: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Watch a LAKE grow: deliveries, latency, fairness and open receipts by minute, to Parquet and to a page.

    Whatever kills it, started again it goes on where it was, and counts every row exactly once.

    \b
    implicast journal net --to lake --follow     in one terminal
    implicast lab stream lake                    in another; the page is lake-stream/index.html
    """
    from implicast.lab.stream.run import Wishes, start

    place = Location.of(lake)
    kept = Location.of(out) if out else Location(f"{place.url.rstrip('/')}-stream")
    wishes = Wishes(place, kept, every_s, delay_s, open_s, once, from_now)
    with started(master, conf, brief=True) as spark:
        require_connector(spark, kept)
        query = start(spark, wishes, partial(_tell_batch, as_json))
        say(f"page: {wishes.out / 'index.html'}")
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
            raise SystemExit(130) from None


def _tell_batch(as_json: bool, batch: int, totals: pa.Table) -> None:
    rows = totals.to_pylist()
    if as_json:
        click.echo(json.dumps({"batch": batch, "totals": rows}))
        return
    for row in rows:
        click.echo(
            f"batch {batch}  {row['run']}: {row['casts']:,} casts, {row['notified']:,} deliveries, p99 "
            f"{row['latency_ms_p99']:.2f} ms, TOUT_G {row['TOUT_G']:.3f}, {row['open_too_long']} receipts open "
            f"too long, {row['late']} rows late"
        )


def _gatherer(directory: Location, lake: Location, name: str | None, follow: bool) -> Gatherer:
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
