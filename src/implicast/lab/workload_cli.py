"""The commands that make, resolve and describe workloads."""

import json
from pathlib import Path

import click
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from implicast.lab import describe, groups, tables, workloads
from implicast.lab.corpus import casts, papers, taggers
from implicast.lab.errors import LabError, NothingUsable, TableError
from implicast.lab.options import DIRECTORY, on_spark, pair, say, started
from implicast.lab.report.workload_figures import workload_figures

EMPTY_MAX = 0.5
"""Where more casts than this select no peer, a warning is printed."""


@click.command("workload")
@click.argument("name", metavar="WORKLOAD")
@click.option(
    "--out",
    type=DIRECTORY,
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
    "--bibliographies", multiple=True, type=DIRECTORY, help="corpus: BibTeX files or directories."
)
@click.option(
    "--queries",
    multiple=True,
    type=DIRECTORY,
    help="corpus: query lists, or .tsv tables with a column phrase.",
)
@click.option(
    "--tagged", type=DIRECTORY, help="tags: directory of users.dat, item-tag.dat and tags.dat."
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
    out: Path,
    peers: int,
    count: int,
    seed: int,
    knobs: tuple[str, ...],
    bibliographies: tuple[Path, ...],
    queries: tuple[Path, ...],
    tagged: Path | None,
    column: str,
    back_off: bool,
    resolve: bool,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Make a workload: zipf, extreme or groups (drawn), corpus (bibliographies, queries), tags (a
    tagging site).
    """
    if out.exists() and any(out.iterdir()):
        raise LabError(f"{out} exists already; name a new directory with --out")
    if name == "corpus":
        bibs = papers.bibliographies(bibliographies) if bibliographies else []
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
    out.mkdir(
        parents=True, exist_ok=True
    )  # where nothing can be written, that is said before Spark is started
    with started(master, conf) as spark:
        if name == "corpus":
            _corpus(spark, out, bibs, queries, column, back_off, peers, count, seed)
        elif name == "tags":
            assert tagged is not None, "checked above"
            _tags(spark, out, tagged, peers, count, seed)
        else:
            workloads.write(spark, recipe, out)
        _say_what_was_written(out)
        if resolve:
            _resolve(spark, out)
        _describe(spark, out)


def _say_what_was_written(out: Path) -> None:
    registered, cast = (_rows(out / name) for name in ("registrations", "casts"))
    say(f"{registered:,} registrations and {cast:,} casts written")
    if not registered or not cast:
        raise NothingUsable(
            f"nothing could be drawn: {registered} registrations and {cast} casts; see {out}/entries"
        )


def _rows(path: Path) -> int:
    return sum(pq.read_metadata(part).num_rows for part in path.glob("*.parquet"))


def _corpus(
    spark: SparkSession,
    out: Path,
    files: list[Path],
    queries: tuple[Path, ...],
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


def _mind_the_empty(spark: SparkSession, out: Path, asked: DataFrame, back_off: bool) -> None:
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


def _sizes(spark: SparkSession, out: Path, registered: DataFrame) -> DataFrame:
    made = tables.read(spark, out / "casts", tables.WORKLOAD["casts"])
    return groups.sizes(groups.groups(registered, made), made)


def _empty_share(spark: SparkSession, out: Path, registered: DataFrame) -> float:
    row = (
        _sizes(spark, out, registered)
        .agg(F.avg((F.col("size") == 0).cast("double")).alias("share"))
        .collect()[0]
    )
    return float(row["share"] or 0.0)


def _tags(spark: SparkSession, out: Path, tagged: Path, peers: int, count: int, seed: int) -> None:
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


def _resolve(spark: SparkSession, directory: Path) -> None:
    registrations = tables.read(
        spark, directory / "registrations", tables.WORKLOAD["registrations"]
    )
    cast_rows = tables.read(spark, directory / "casts", tables.WORKLOAD["casts"])
    tables.write(groups.groups(registrations, cast_rows), directory / "groups", tables.GROUPS)


def _describe(spark: SparkSession, directory: Path) -> None:
    describe.describe(spark, directory)
    for figure in workload_figures(directory):
        path = directory / "figures" / f"{figure.name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(figure.svg, "utf-8")
    click.echo(json.dumps(describe.described(directory), indent=2))


@click.command("groups")
@click.argument("directory", metavar="WORKLOAD_DIR", type=DIRECTORY)
@on_spark
def groups_command(directory: Path, master: str | None, conf: tuple[str, ...]) -> None:
    """Resolve which peers each cast of a workload selects, into WORKLOAD_DIR/groups."""
    _check_workload(directory)
    with started(master, conf) as spark:
        _resolve(spark, directory)
        _describe(spark, directory)


@click.command("describe")
@click.argument("directory", metavar="WORKLOAD_DIR", type=DIRECTORY)
@on_spark
def describe_command(directory: Path, master: str | None, conf: tuple[str, ...]) -> None:
    """How common a workload's tags are, how long its casts, how large its groups; with figures."""
    _check_workload(directory)
    with started(master, conf) as spark:
        _describe(spark, directory)


def _check_workload(directory: Path) -> None:
    for name, declared in tables.WORKLOAD.items():
        if not (directory / name).is_dir():
            raise TableError(f"{directory} is not a workload: it has no table {name}")
        tables.check(directory / name, declared)
