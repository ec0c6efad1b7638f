"""The corpus workloads that an experiment's runs need, made once before the sweep (thesis, section
9.3.2).

A run whose workload is `corpus` is given a directory of tables, one for each number of peers,
number of casts and seed; what a peer registers depends on its number and the seed alone.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from implicast.lab import tables, workloads
from implicast.lab.corpus import casts, papers
from implicast.lab.errors import CorpusError
from implicast.lab.far_tables import require_shared
from implicast.lab.plan import Planned
from implicast.lab.storage import Location

CORPUS = "corpus"
DATA = "IMPLICAST_DATA"
"""The environment variable that names the directory of `bibliographies/`, `queries/` and
`keywords/`.
"""


def data_directory(given: Path | None) -> Path:
    """Where bibliographies and queries are; `CorpusError` says how to name it."""
    found = given or (Path(os.environ[DATA]) if DATA in os.environ else None)
    if found is None:
        raise CorpusError(
            f"this needs bibliographies and queries: name their directory with --data or {DATA}"
        )
    for name in ("bibliographies", "keywords"):
        if not (found / name).is_dir():
            raise CorpusError(f"{found} has no directory {name!r}")
    return found


def needed(planned: Sequence[Planned]) -> bool:
    return any(_key(each) is not None for each in planned)


def maps_lacking(planned: Sequence[Planned]) -> list[str]:
    """Maps that runs name by their paths and that are not here."""
    named = {str(json.loads(each.settings).get("network", "")) for each in planned}
    return sorted(path for path in named if "/" in path and not Path(path).exists())


def made(planned: Sequence[Planned], out: Path) -> Mapping[str, str] | None:
    """Run -> directory of its workload, where all of them were made before; else None."""
    found = {
        each.run: out / "workloads" / _name(key)
        for each in planned
        if (key := _key(each)) is not None
    }
    whole = all((each / "workload.json").exists() for each in found.values())
    return {run: str(each) for run, each in found.items()} if whole else None


def prepare(
    spark: SparkSession, planned: Sequence[Planned], out: Location, data: Path
) -> Mapping[str, str]:
    """Run -> directory of its workload, all of them made."""
    wanted = {each.run: key for each in planned if (key := _key(each)) is not None}
    base = out / "workloads"
    require_shared(spark, out, Location.of(data / "bibliographies"), Location.of(data / "keywords"))
    _make_all(spark, sorted(set(wanted.values())), base, Location.of(data))
    return {run: (base / _name(key)).url for run, key in wanted.items()}


def _make_all(spark: SparkSession, keys: Sequence["Key"], base: Location, data: Location) -> None:
    entries = base / "entries"
    if not entries.names():
        files = papers.bibliographies([data / "bibliographies"])
        tables.write(papers.read_entries(spark, files), entries, tables.ENTRIES)
    queries = base / "queries"
    if not queries.names():
        lists = [data / "keywords" / name for name in (data / "keywords").names() if ".tsv" in name]
        tables.write(casts.read_queries(spark, lists), queries, tables.QUERIES)
    for key in keys:
        _make(spark, base, key)


Key = tuple[int, int, int]
"""peers, casts, seed."""


def _key(planned: Planned) -> Key | None:
    settings = json.loads(planned.settings)
    if settings.get("workload") != CORPUS:
        return None
    return int(settings["peers"]), int(settings["casts"]), int(settings["seed"])


def _name(key: Key) -> str:
    return "corpus-{}-{}-{}".format(*key)


def _make(spark: SparkSession, base: Location, key: Key) -> None:
    peers, count, seed = key
    directory = base / _name(key)
    if (directory / "workload.json").is_file():
        return
    entries = tables.read(spark, base / "entries", tables.ENTRIES)
    queries = tables.read(spark, base / "queries", tables.QUERIES)
    tables.write(
        papers.registrations(entries, peers, seed),
        directory / "registrations",
        tables.WORKLOAD["registrations"],
    )
    tables.write(
        casts.casts(queries, count, peers, seed), directory / "casts", tables.WORKLOAD["casts"]
    )
    workloads.note(directory, {"workload": CORPUS, "peers": peers, "casts": count, "seed": seed})
