"""The commands `implicast lab ...`: experiments, measures, reports, workloads and groups, on Spark.

Whatever is wrong with a call is said before Spark is started.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from implicast.lab import case, describe, groups, journals, report, tables, workloads
from implicast.lab.corpus import casts, papers, taggers
from implicast.lab.errors import LabError, TableError
from implicast.lab.experiment import experiment, experiments
from implicast.lab.measures.all import measure
from implicast.lab.plan import plan
from implicast.lab.report.workload_figures import workload_figures
from implicast.lab.run import broken_runs, claim, run
from implicast.lab.session import require_java, session

DIRECTORY = click.Path(path_type=Path)


def on_spark(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that starts a session."""
    command = click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")(
        command
    )
    return click.option(
        "--master",
        metavar="URL",
        help="local[*] (the default), spark://host:7077, yarn, k8s://..., or sc://host:15002.",
    )(command)


@contextmanager
def started(master: str | None, conf: tuple[str, ...], brief: bool = False) -> Iterator[SparkSession]:
    """A session for one command."""
    settings = dict(_pair("--conf", word) for word in conf)
    if master is None or not master.startswith("sc://"):
        require_java()
    spark = session(master, settings, brief=brief)
    try:
        yield spark
    finally:
        spark.stop()


def _pair(option: str, word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name.strip():
        raise LabError(f"{option} {word}: expected NAME=VALUE")
    return name.strip(), value.strip()


def say(text: str) -> None:
    click.echo(text, err=True)


@click.group()
def lab() -> None:
    """Experiments, measures and workloads on Spark.

    \b
    implicast lab list                   the experiments
    implicast lab run peers              one of them, with a report
    implicast lab workload zipf --peers 1000000 --casts 10000 --groups --out big
    """


@lab.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_command(as_json: bool) -> None:
    """The experiments that come with the laboratory."""
    found = experiments()
    if as_json:
        told = {
            name: {"title": each.title, "about": each.about, "source": each.source, "designs": each.chosen()}
            for name, each in found.items()
        }
        click.echo(json.dumps(told, indent=2))
        return
    for name, each in found.items():
        click.echo(f"{click.style(name, bold=True):28} {each.title}")
        click.echo(f"    {each.about}")
        click.echo(
            f"    {each.source}; {len(plan(each, 'small'))} runs small, {len(plan(each, 'paper'))} at the paper's scale"
        )


@lab.command("run")
@click.argument("name", metavar="EXPERIMENT")
@click.option("--out", type=DIRECTORY, help="Where results go, and are taken up again. [lab-EXPERIMENT-SCALE]")
@click.option("--scale", default="small", show_default=True, help="small (minutes on two cores), medium or paper.")
@click.option(
    "--runs", type=click.IntRange(min=1), help="Seeds for each point, instead of the experiment's own number."
)
@click.option("--data", type=DIRECTORY, help=f"Directory of bibliographies and keywords; also by {case.DATA}.")
@on_spark
def run_command(
    name: str,
    out: Path | None,
    scale: str,
    runs: int | None,
    data: Path | None,
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Run EXPERIMENT (a name or a .toml file), or what is left of it, and write its report."""
    made = experiment(name)
    planned = plan(made, scale, runs)
    if case.needed(planned):
        data = case.data_directory(data)
    out = out or Path(f"lab-{made.name}-{scale}")
    claim(out, made, scale, runs)
    with started(master, conf, brief=scale == "small") as spark:
        went = run(spark, made, out, scale, runs, data, say)
    say(f"{went.finished} runs made, {went.before} were there before, {len(went.failed)} failed")
    for failed in went.failed:
        say(f"  failed: {failed} (see {out / 'failures' / failed}.json)")
    click.echo(f"report: {report.write(out)}")
    if went.failed or broken_runs(out, [each.run for each in planned]):
        sys.exit(1)


@lab.command("measure")
@click.argument("directory", metavar="JOURNAL_DIR", type=DIRECTORY)
@click.option("--out", type=DIRECTORY, help="Keep the tables here. [JOURNAL_DIR-measures]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@on_spark
def measure_command(
    directory: Path, out: Path | None, as_json: bool, master: str | None, conf: tuple[str, ...]
) -> None:
    """All measures of a journal, or of a directory of journals `run=NAME`."""
    found = journals.found(directory)
    out = out or directory.with_name(f"{directory.name}-measures")
    if out.exists() and any(out.iterdir()) and not (out / "measures").is_dir():
        raise TableError(f"{out} exists and holds no measures; name another directory with --out")
    with started(master, conf) as spark:
        measure(journals.Journals(spark, found), out, say)
    told = {
        row["run"]: {"measures": {name: row[name] for name in tables.MEASURES}}
        for row in pq.read_table(out / "measures").to_pylist()
    }
    for row in pq.read_table(out / "contract").to_pylist():
        told[row["run"]]["contract"] = {name: row[name] for name in tables.CONTRACT}
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for name, each in sorted(told.items()):
        click.echo(click.style(name, bold=True))
        click.echo("  contract  " + "  ".join(f"{key} {value:,}" for key, value in each["contract"].items()))
        click.echo("  " + "\n  ".join(f"{key:18} {value:,.6g}" for key, value in each["measures"].items()))
    click.echo(f"tables: {out}")


@lab.command("report")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
def report_command(directory: Path) -> None:
    """Write the report of a laboratory directory anew; needs no Spark."""
    click.echo(f"report: {report.write(directory)}")


@lab.command("workload")
@click.argument("name", metavar="WORKLOAD")
@click.option("--out", type=DIRECTORY, required=True, help="A new directory; `implicast simulate --workload` takes it.")
@click.option("--peers", default=4096, show_default=True, type=click.IntRange(min=1))
@click.option("--casts", "count", default=1024, show_default=True, type=click.IntRange(min=0))
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--with", "knobs", multiple=True, metavar="NAME=VALUE", help="Parameters of a drawn workload, such as skew=1.5."
)
@click.option("--bibliographies", multiple=True, type=DIRECTORY, help="corpus: BibTeX files or directories.")
@click.option(
    "--queries", multiple=True, type=DIRECTORY, help="corpus: query lists, or .tsv tables with a column phrase."
)
@click.option("--tagged", type=DIRECTORY, help="tags: directory of users.dat, item-tag.dat and tags.dat.")
@click.option("--groups", "resolve", is_flag=True, help="Resolve the groups of all casts too.")
@on_spark
def workload_command(
    name: str, out: Path, peers: int, count: int, seed: int, knobs: tuple[str, ...], bibliographies: tuple[Path, ...],
    queries: tuple[Path, ...], tagged: Path | None, resolve: bool, master: str | None, conf: tuple[str, ...],
) -> None:  # fmt: skip
    """Make a workload: zipf, extreme or groups (drawn), corpus (bibliographies, queries), tags (a tagging site)."""
    if out.exists() and any(out.iterdir()):
        raise LabError(f"{out} exists already; name a new directory with --out")
    if name == "corpus":
        files = papers.bibliographies(bibliographies) if bibliographies else []
        if not files or not queries:
            raise LabError("the corpus workload needs --bibliographies and --queries")
    elif name == "tags":
        if tagged is None:
            raise LabError("the workload from a tagging site needs --tagged")
    else:
        recipe = workloads.Recipe(name, seed, peers, count, dict(_pair("--with", word) for word in knobs))
        recipe.make()
    with started(master, conf) as spark:
        if name == "corpus":
            _corpus(spark, out, files, queries, peers, count, seed)
        elif name == "tags":
            assert tagged is not None, "checked above"
            _tags(spark, out, tagged, peers, count, seed)
        else:
            workloads.write(spark, recipe, out)
        say(f"{peers:,} registrations and {count:,} casts")
        if resolve:
            _resolve(spark, out)
        _describe(spark, out)


def _corpus(
    spark: SparkSession, out: Path, files: list[Path], queries: tuple[Path, ...], peers: int, count: int, seed: int
) -> None:
    tables.write(papers.read_entries(spark, files), out / "entries", tables.ENTRIES)
    entries = tables.read(spark, out / "entries", tables.ENTRIES)
    for row in papers.reasons(entries).collect():
        say(f"{row['entries']:>9,} entries {row['reason']}")
    tables.write(casts.read_queries(spark, queries), out / "queries", tables.QUERIES)
    asked = tables.read(spark, out / "queries", tables.QUERIES)
    tables.write(papers.registrations(entries, peers, seed), out / "registrations", tables.WORKLOAD["registrations"])
    tables.write(casts.casts(asked, count, peers, seed), out / "casts", tables.WORKLOAD["casts"])
    workloads.note(
        out,
        {"workload": "corpus", "peers": peers, "casts": count, "seed": seed, "files": [each.name for each in files]},
    )


def _tags(spark: SparkSession, out: Path, tagged: Path, peers: int, count: int, seed: int) -> None:
    read, marked = taggers.read_tagged(spark, tagged)
    tables.write(
        taggers.registrations(read, marked, peers, seed), out / "registrations", tables.WORKLOAD["registrations"]
    )
    tables.write(taggers.casts(marked, count, peers, seed), out / "casts", tables.WORKLOAD["casts"])
    workloads.note(out, {"workload": "tags", "peers": peers, "casts": count, "seed": seed, "source": tagged.name})


def _resolve(spark: SparkSession, directory: Path) -> None:
    registrations = tables.read(spark, directory / "registrations", tables.WORKLOAD["registrations"])
    cast_rows = tables.read(spark, directory / "casts", tables.WORKLOAD["casts"])
    tables.write(groups.groups(registrations, cast_rows), directory / "groups", tables.GROUPS)


def _describe(spark: SparkSession, directory: Path) -> None:
    describe.describe(spark, directory)
    for figure in workload_figures(directory):
        path = directory / "figures" / f"{figure.name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(figure.svg, "utf-8")
    click.echo(json.dumps(describe.described(directory), indent=2))


@lab.command("groups")
@click.argument("directory", metavar="WORKLOAD_DIR", type=DIRECTORY)
@on_spark
def groups_command(directory: Path, master: str | None, conf: tuple[str, ...]) -> None:
    """Resolve which peers each cast of a workload selects, into WORKLOAD_DIR/groups."""
    _check_workload(directory)
    with started(master, conf) as spark:
        _resolve(spark, directory)
        _describe(spark, directory)


@lab.command("describe")
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
