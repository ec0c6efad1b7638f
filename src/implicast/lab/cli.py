"""The commands `implicast lab ...`: experiments, measures, reports, workloads and groups, on Spark.

Whatever is wrong with a call is said before Spark is started.
"""

import json
import os
import sys
from importlib.resources import files
from pathlib import Path

import click

from implicast.lab import case, compare, dictionary, journals, report, tables
from implicast.lab.errors import ExperimentError, LabError, TableError
from implicast.lab.experiment import Experiment, experiment, experiments
from implicast.lab.folder import Folder, opened, refuse_unwritable, sole
from implicast.lab.live_cli import compact_command, stream_command
from implicast.lab.lock import refuse
from implicast.lab.measure import measure
from implicast.lab.options import DIRECTORY, on_spark, say, started
from implicast.lab.plan import Planned, plan
from implicast.lab.published_cli import published_command
from implicast.lab.requirements import requirements, unmet
from implicast.lab.run import broken_runs, claim, run
from implicast.lab.storage import Location
from implicast.lab.sweep import SweepTally
from implicast.lab.workload_cli import describe_command, groups_command, workload_command
from implicast.world.requirement import Requirement


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
            name: {
                "title": each.title,
                "about": each.about,
                "source": each.source,
                "designs": each.chosen(),
            }
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
@click.option(
    "--out",
    metavar="URL",
    help="Where results go, and grow: a path, s3://..., hdfs://... [lab-EXPERIMENT-SCALE]",
)
@click.option(
    "--scale",
    default="small",
    show_default=True,
    help="small (minutes on two cores), medium or paper.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    help="Seeds for each point, instead of the experiment's own number.",
)
@click.option(
    "--data", type=DIRECTORY, help=f"Directory of bibliographies and keywords; also by {case.DATA}."
)
@click.option("--wait", is_flag=True, help="Wait while another process works in the folder.")
@click.option(
    "--mixed-code",
    is_flag=True,
    help="Accept workers with other code than this one; each run then names its code.",
)
@click.option(
    "--require",
    "texts",
    multiple=True,
    metavar="TEXT",
    help='A threshold that every run must meet, like "missing == 0" or "RTH < 5".',
)
@on_spark
def run_command(
    name: str,
    out: str | None,
    scale: str,
    runs: int | None,
    data: Path | None,
    wait: bool,
    mixed_code: bool,
    texts: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Run EXPERIMENT (a name, a .toml file, or `all`), or what is left of it, and write its report.

    The folder grows: more seeds, more points, changed captions and further experiments are taken
    up, and what is finished is neither made nor measured again. Exit code 1 when a run failed,
    broke its contract or does not meet a requirement.
    """
    if out is not None and not out.strip():
        raise ExperimentError("--out is empty; name a folder or a URL, or leave it out")
    chosen = _all(data) if name == "all" else [experiment(name)]
    wanted = requirements(texts, chosen)
    place = Location.of(out or f"lab-{'all' if name == 'all' else chosen[0].name}-{scale}")
    data = _possible([plan(each, scale, runs) for each in chosen], place, data, wait)
    for each in (
        chosen[1:] and chosen
    ):  # all are known before the first report is written, and each has its own
        claim(place, each, scale, runs)
    unwell = []
    with started(master, conf, brief=scale == "small") as spark:
        for each in chosen:
            say(f"{each.name}: {each.title}")
            try:
                went = run(spark, each, place, scale, runs, data, say, wait, mixed_code)
                if not _told(
                    each, place, went, [one.run for one in plan(each, scale, runs)], wanted
                ):
                    unwell.append(each.name)
            except LabError as wrong:
                if len(chosen) == 1:
                    raise
                say(f"{each.name}: {wrong}")  # the others are made all the same
                unwell.append(each.name)
    if name == "all":
        say(_closing([each.name for each in chosen], unwell))
    sys.exit(1 if unwell else 0)


def _possible(
    plans: list[list[Planned]], place: Location, data: Path | None, wait: bool
) -> Path | None:
    """Refuse what cannot be done before anything is started; the directory of data, where any is
    needed.
    """
    for planned in plans:
        if case.needed(planned):
            data = case.data_directory(data)
        if lacking := case.maps_lacking(planned):
            raise ExperimentError(
                f"{planned[0].experiment} needs the map {lacking[0]}; run it in a folder that holds it"
            )
    opened(place, make=False)
    refuse(place, wait)
    refuse_unwritable(place)
    return data


def _closing(made: list[str], unwell: list[str]) -> str:
    """How it went with all of them, for a reader who no longer sees the first lines."""
    left_out = sorted(set(experiments()) - set(made))
    parts = [f"{len(made) - len(unwell)} of {len(experiments())} experiments went well"]
    parts += [f"not well: {', '.join(unwell)}"] * bool(unwell)
    parts += [f"left out: {', '.join(left_out)}"] * bool(left_out)
    return "; ".join(parts)


def _all(data: Path | None) -> list[Experiment]:
    """Every experiment; those from real bibliographies and on real maps only where there are any."""
    found = {name: plan(each, "small") for name, each in experiments().items()}
    without = data is None and case.DATA not in os.environ
    lacking = {
        "--data": [name for name, planned in found.items() if without and case.needed(planned)],
        "maps in this folder": [
            name for name, planned in found.items() if case.maps_lacking(planned)
        ],
    }
    for what, names in lacking.items():
        if names:
            say(f"left out, for want of {what}: {', '.join(sorted(names))}")
    return [
        each
        for name, each in experiments().items()
        if not any(name in names for names in lacking.values())
    ]


def _told(
    made: Experiment,
    place: Location,
    went: SweepTally,
    planned: list[str],
    wanted: list[Requirement],
) -> bool:
    """Say how it went and write the report; was everything well?"""
    say(f"{went.finished} runs made, {went.before} were there before, {len(went.failed)} failed")
    folder = Folder(place, made.name)
    for failed in went.failed:
        say(f"  failed: {failed} (see {folder.failures / f'{failed}.json'})")
    click.echo(f"report: {report.write(place, made.name)}")
    missed = unmet(folder, planned, wanted)
    for sentence in missed:
        say(f"implicast: {sentence}")
    return not went.failed and not missed and not broken_runs(folder, planned)


@lab.command("measure")
@click.argument("directory", metavar="JOURNALS")
@click.option("--out", metavar="URL", help="Keep the tables here. [JOURNALS-measures]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@on_spark
def measure_command(
    directory: str, out: str | None, as_json: bool, master: str | None, conf: tuple[str, ...]
) -> None:
    """All measures of a journal, of a folder of journals `run=NAME`, or of a sweep's folder."""
    place = Location.of(directory)
    sources = journals.found(place)
    kept = Location.of(out) if out else Location(f"{place.url.rstrip('/')}-measures")
    if kept.names() and "measures" not in kept.names():
        raise TableError(f"{kept} exists and holds no measures; name another directory with --out")
    with started(master, conf, brief=True) as spark:
        found = measure(spark, sources, kept, say)
    told = {
        row["run"]: {"measures": {name: row[name] for name in tables.MEASURES}}
        for row in found["measures"].to_pylist()
    }
    for row in found["contract"].to_pylist():
        told[row["run"]]["contract"] = {name: row[name] for name in tables.CONTRACT}
    for row in found["rejected"].to_pylist():
        say(f"left out: {row['run']}: {row['reason']}")
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for name, each in sorted(told.items()):
        click.echo(click.style(name, bold=True))
        click.echo(
            "  contract  "
            + "  ".join(f"{key} {value:,}" for key, value in each["contract"].items())
        )
        click.echo(
            "  " + "\n  ".join(f"{key:18} {value:,.6g}" for key, value in each["measures"].items())
        )
    click.echo(f"tables: {kept}")


@lab.command("report")
@click.argument("directory", metavar="URL")
@click.option("--experiment", "name", help="Which, where the folder holds several.")
def report_command(directory: str, name: str | None) -> None:
    """Write the report of a laboratory folder anew; needs no Spark."""
    click.echo(f"report: {report.write(directory, name)}")


@lab.command("compare")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--experiment", "name", help="Which, where a folder holds several.")
@click.option(
    "--measure", "measures", multiple=True, metavar="NAME", help="Only these; may be repeated."
)
@click.option(
    "--tolerance",
    default=compare.TOLERANCE,
    show_default=True,
    help="Relative differences up to this are no change.",
)
def compare_command(
    before: str, after: str, name: str | None, measures: tuple[str, ...], tolerance: float
) -> None:
    """What changed from sweep A to sweep B, with 95 % intervals; needs no Spark.

    Exit code 0: nothing did. 1: something did, or one has what the other lacks.
    """
    found = compare.compare(
        sole(Location.of(before), name), sole(Location.of(after), name), tolerance, measures
    )
    if not found.compared:
        raise TableError(
            f"{before} and {after} have no measure of the same series and point in common"
        )
    for each in found.differences:
        click.echo(str(each))
    for label, alone in zip(("A", "B"), found.only, strict=True):
        for one in alone:
            click.echo(f"only in {label}: {one}")
    click.echo(f"{found.compared} measures compared, {len(found.differences)} changed")
    sys.exit(1 if found.differences or any(found.only) else 0)


@lab.command("tables")
@click.argument("wanted", metavar="[TABLE]", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def tables_command(wanted: str, as_json: bool) -> None:
    """Every column of every table, with its unit and meaning."""
    rows = [row for row in dictionary.rows() if wanted in ("", row["table"])]
    if not rows:
        raise TableError(
            f"there is no table {wanted!r}; there are {', '.join(dict.fromkeys(r['table'] for r in dictionary.rows()))}"
        )
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    shown = None
    for row in rows:
        if (row["room"], row["table"]) != shown:
            shown = row["room"], row["table"]
            click.echo(f"{click.style(row['table'], bold=True)} ({row['room']})")
        unit = f" [{row['unit']}]" if row["unit"] else ""
        click.echo(f"    {row['column']:24} {row['meaning']}{unit}")


for each in (
    workload_command,
    groups_command,
    describe_command,
    stream_command,
    compact_command,
    published_command,
):
    lab.add_command(each)


@lab.command("entry")
def entry_command() -> None:
    """The path of the script for `spark-submit ... $(implicast lab entry) run EXPERIMENT ...`."""
    click.echo(str(files("implicast.lab.submit") / "implicast_lab.py"))


@lab.command("pack")
@click.option(
    "--out",
    type=DIRECTORY,
    default=Path("implicast.tar.gz"),
    show_default=True,
    help="The archive to write.",
)
def pack_command(out: Path) -> None:
    """Write an archive of all that workers need, for clusters without an environment of their own."""
    from implicast.lab.pack import pack

    path = pack(out)
    click.echo(f"{path}: {path.stat().st_size / 1e6:.0f} MB; use it with")
    click.echo(f"  PYSPARK_PYTHON=./env/bin/python ... --conf spark.archives={path}#env")
