"""The commands that make, resolve and describe workloads."""

import json

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import describe, far_tables, groups, tables, workloads
from implicast.lab.corpus import casts, papers, taggers
from implicast.lab.errors import LabError, NothingUsable, TableError
from implicast.lab.far_tables import require_shared
from implicast.lab.folder import refuse_unwritable
from implicast.lab.options import on_spark, pair, say, started
from implicast.lab.report.workload_figures import workload_figures
from implicast.lab.storage import Location

EMPTY_MAX = 0.5
"""Where more casts than this select no peer, a warning is printed."""


@click.command("workload")
@click.argument("name", metavar="WORKLOAD")
@click.option(
    "--out",
    metavar="URL",
    required=True,
    help="A new directory; `implicast simulate --workload` takes it.",
)
@click.option("--peers", default=4096, show_default=True, type=click.IntRange(min=1))
@click.option("--casts", "count", default=1024, show_default=True, type=click.IntRange(min=0))
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--with",
    "knobs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameters of a drawn workload, such as skew=1.5.",
)
@click.option(
    "--bibliographies", multiple=True, metavar="URL", help="corpus: BibTeX files or directories."
)
@click.option(
    "--queries",
    multiple=True,
    metavar="URL",
    help="corpus: query lists, or .tsv tables with a column phrase.",
)
@click.option(
    "--tagged", metavar="URL", help="tags: directory of users.dat, item-tag.dat and tags.dat."
)
@click.option(
    "--column",
    default=casts.COLUMN,
    show_default=True,
    help="corpus: which column of a table of queries.",
)
@click.option(
    "--back-off",
    is_flag=True,
    help="corpus: casts that select no peer ask for their rarest tag that some peer registers.",
)
@click.option("--groups", "resolve", is_flag=True, help="Resolve the groups of all casts too.")
@on_spark
def workload_command(
    name: str,
    out: str,
    peers: int,
    count: int,
    seed: int,
    knobs: tuple[str, ...],
    bibliographies: tuple[str, ...],
    queries: tuple[str, ...],
    tagged: str | None,
    column: str,
    back_off: bool,
    resolve: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Make a workload: zipf, extreme or groups (drawn), corpus (bibliographies, queries), tags (a
    tagging site).
    """
    place = Location.of(out)
    if place.is_file() or place.names():
        raise LabError(f"{place} exists already; name a new directory with --out")
    asked = [Location.of(each) for each in queries]
    if name == "corpus":
        bibs = (
            papers.bibliographies(list(map(Location.of, bibliographies))) if bibliographies else []
        )
        if not bibs or not queries:
            raise LabError("the corpus workload needs --bibliographies and --queries")
    elif name == "tags":
        if tagged is None:
            raise LabError("the workload from a tagging site needs --tagged")
    else:
        recipe = workloads.Recipe(
            name, seed, peers, count, dict(pair("--with", word) for word in knobs)
        )
        recipe.make()
    refuse_unwritable(place)
    with started(master, conf) as spark:
        require_shared(spark, place)
        if name == "corpus":
            require_shared(spark, *bibs, *asked)
            _corpus(spark, place, bibs, asked, column, back_off, peers, count, seed)
        elif name == "tags":
            assert tagged is not None, "checked above"
            _tags(spark, place, Location.of(tagged), peers, count, seed)
        else:
            workloads.write(spark, recipe, place)
        _say_what_was_written(place)
        if resolve:
            _resolve(spark, place)
        _describe(spark, place)


def _say_what_was_written(out: Location) -> None:
    registered, cast = (far_tables.rows_in(out / name) for name in ("registrations", "casts"))
    say(f"{registered:,} registrations and {cast:,} casts written")
    if not registered or not cast:
        raise NothingUsable(
            f"nothing could be drawn: {registered} registrations and {cast} casts; see {out}/entries"
        )


def _corpus(
    spark: SparkSession,
    out: Location,
    files: list[Location],
    queries: list[Location],
    column: str,
    back_off: bool,
    peers: int,
    count: int,
    seed: int,
) -> None:
    tables.write(papers.read_entries(spark, files), out / "entries", tables.ENTRIES)
    entries = tables.read(spark, out / "entries", tables.ENTRIES)
    for row in papers.reasons(entries).collect():
        say(f"{row['entries']:>9,} entries {row['reason']}")
    tables.write(casts.read_queries(spark, queries, column), out / "queries", tables.QUERIES)
    asked = casts.drawn(tables.read(spark, out / "queries", tables.QUERIES), count, peers, seed)
    tables.write(
        papers.registrations(entries, peers, seed),
        out / "registrations",
        tables.WORKLOAD["registrations"],
    )
    tables.write(casts.with_targets(asked), out / "casts", tables.WORKLOAD["casts"])
    _mind_the_empty(spark, out, asked, back_off)
    named = [each.name for each in files]
    told = {
        "workload": "corpus",
        "peers": peers,
        "casts": count,
        "seed": seed,
        "files": named,
        "back_off": back_off,
    }
    workloads.note(out, told)


def _mind_the_empty(spark: SparkSession, out: Location, asked: DataFrame, back_off: bool) -> None:
    """Say how many casts select no peer; where it is asked for, let them ask for less."""
    registered = tables.read(spark, out / "registrations", tables.WORKLOAD["registrations"])
    share = _empty_share(spark, out, registered)
    if share > EMPTY_MAX and not back_off:
        say(
            f"warning: {share:.1%} of the casts select no peer: their words are not those of the registrations. "
            f"Take key phrases instead of a query log, or --back-off to the rarest tag that some peer registers."
        )
    if back_off:
        sized = _sizes(spark, out, registered)
        tables.write(
            casts.with_targets(casts.back_off(asked, sized, registered)),
            out / "casts",
            tables.WORKLOAD["casts"],
        )
        say(
            f"{share:.1%} of the casts selected no peer; with back-off {_empty_share(spark, out, registered):.1%} do"
        )


def _sizes(spark: SparkSession, out: Location, registered: DataFrame) -> DataFrame:
    made = tables.read(spark, out / "casts", tables.WORKLOAD["casts"])
    return groups.sizes(groups.groups(registered, made), made)


def _empty_share(spark: SparkSession, out: Location, registered: DataFrame) -> float:
    row = (
        _sizes(spark, out, registered)
        .agg(F.avg((F.col("size") == 0).cast("double")).alias("share"))
        .collect()[0]
    )
    return float(row["share"] or 0.0)


def _tags(
    spark: SparkSession, out: Location, tagged: Location, peers: int, count: int, seed: int
) -> None:
    read, marked = taggers.read_tagged(spark, tagged)
    tables.write(
        taggers.registrations(read, marked, peers, seed),
        out / "registrations",
        tables.WORKLOAD["registrations"],
    )
    tables.write(taggers.casts(marked, count, peers, seed), out / "casts", tables.WORKLOAD["casts"])
    workloads.note(
        out,
        {"workload": "tags", "peers": peers, "casts": count, "seed": seed, "source": tagged.name},
    )


def _resolve(spark: SparkSession, directory: Location) -> None:
    registrations = tables.read(
        spark, directory / "registrations", tables.WORKLOAD["registrations"]
    )
    cast_rows = tables.read(spark, directory / "casts", tables.WORKLOAD["casts"])
    tables.write(groups.groups(registrations, cast_rows), directory / "groups", tables.GROUPS)


def _describe(spark: SparkSession, directory: Location) -> None:
    describe.describe(spark, directory)
    for figure in workload_figures(directory):
        (directory / "figures" / f"{figure.name}.svg").write(figure.svg.encode())
    click.echo(json.dumps(describe.described(directory), indent=2))


@click.command("groups")
@click.argument("directory", metavar="WORKLOAD")
@on_spark
def groups_command(directory: str, master: str | None, conf: tuple[str, ...]) -> None:
    """Resolve which peers each cast of a workload selects, into WORKLOAD/groups."""
    place = _workload(directory)
    with started(master, conf) as spark:
        require_shared(spark, place)
        _resolve(spark, place)
        _describe(spark, place)


@click.command("describe")
@click.argument("directory", metavar="WORKLOAD")
@on_spark
def describe_command(directory: str, master: str | None, conf: tuple[str, ...]) -> None:
    """How common a workload's tags are, how long its casts, how large its groups; with figures."""
    place = _workload(directory)
    with started(master, conf) as spark:
        require_shared(spark, place)
        _describe(spark, place)


def _workload(url: str) -> Location:
    place = Location.of(url)
    for name, declared in tables.WORKLOAD.items():
        if not (place / name).names():
            raise TableError(f"{place} is not a workload: it has no table {name}")
        tables.check(place / name, declared)
    refuse_unwritable(place)
    return place
