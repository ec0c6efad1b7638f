"""Every command of the laboratory against an S3 store (moto, on loopback), or refused in a sentence."""

import asyncio
import gzip
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lake_rows import named_rows
from pyspark.sql import SparkSession

from implicast.cli import main
from implicast.lab import far_tables
from implicast.lab.errors import LabError
from implicast.lab.gather import Gatherer
from implicast.lab.storage import Location
from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec

pytestmark = pytest.mark.spark

TINY = """
title = "Tiny"
about = "A trial."
source = "nowhere"
designs = ["centralised"]
[axis]
of = "peers"
[scenario]
casts = 3
churn = "joins=1,over_s=5"
[small]
values = [8]
runs = 2
[paper]
values = [8]
"""
BIBLIOGRAPHY = "\n".join(
    f"@article{{k{n}, title = {{routing overlay number{n} naming{n % 7}}}, journal = {{peers}}}}"
    for n in range(40)
)


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """An S3 server that lives in this process; its address comes from the environment of AWS."""
    server = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            patch.setenv(name, value)
        options = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1"
        options += "&allow_bucket_creation=true"
        Location.of(f"s3://key:secret@shelf/?{options}").store.create_dir("shelf")
        yield f"s3://key:secret@shelf/NAME?{options}"
    made.stop()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


def did(*words: str) -> Result:
    went = run(*words)
    assert went.exit_code == 0, went.output
    return went


def test_a_sweep_its_measures_report_and_comparison(
    spark: SparkSession, store: str, tmp_path: Path
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    sweep, near = store.replace("NAME", "sweep"), str(tmp_path / "near")
    for out in (sweep, near):
        did("lab", "run", str(tmp_path / "tiny.toml"), "--out", out)

    did("lab", "report", sweep)
    assert "0 changed" in did("lab", "compare", sweep, near).output
    kept = store.replace("NAME", "measures")
    assert "delivery" not in did("lab", "measure", sweep, "--out", kept).output
    assert "change" in Location.of(kept).names()


@pytest.mark.long
def test_workloads_drawn_and_from_a_corpus_are_those_of_a_folder(
    spark: SparkSession, store: str, tmp_path: Path
) -> None:
    (tmp_path / "bibs").mkdir()
    (tmp_path / "bibs" / "one.bib.gz").write_bytes(gzip.compress(BIBLIOGRAPHY.encode()))
    (tmp_path / "queries.txt").write_text("routing\noverlay naming1\nrouting\n")
    for path in (tmp_path / "bibs" / "one.bib.gz", tmp_path / "queries.txt"):
        Location.of(store.replace("NAME", f"data/{path.name}")).write(path.read_bytes())
    sized = ["--peers", "40", "--casts", "12"]
    drawn = ["lab", "workload", "zipf", *sized, "--groups", "--out"]
    corpus = ["lab", "workload", "corpus", *sized, "--back-off", "--groups"]
    far = [store.replace("NAME", f"data/{name}") for name in ("one.bib.gz", "queries.txt")]
    near = [str(tmp_path / "bibs"), str(tmp_path / "queries.txt")]
    told = {}
    for kind, (bibs, queries) in {"far": far, "near": near}.items():
        outs = [
            str(tmp_path / name) if kind == "near" else store.replace("NAME", name)
            for name in ("zipf", "corpus")
        ]
        did(*drawn, outs[0])
        did(*corpus, "--bibliographies", bibs, "--queries", queries, "--out", outs[1])
        did("lab", "groups", outs[1])
        told[kind] = [did("lab", "describe", out).stdout for out in outs]
        told[kind] += [
            sorted(map(repr, far_tables.load(Location.of(out) / name).to_pylist()))
            for out in outs
            for name in ("registrations", "casts", "groups")
        ]

    assert told["far"] == told["near"]
    assert Location.of(store.replace("NAME", "corpus")).names().count("figures") == 1


PEOPLE = [MemberSpec("ann", "samba"), MemberSpec("bob", "jazz"), MemberSpec("cy", "jazz, go")]


def test_a_lake_and_its_compaction_and_a_stream_of_it(
    spark: SparkSession, store: str, tmp_path: Path
) -> None:
    async def story() -> None:
        local = LocalNetwork(tmp_path / "net", "dht", PEOPLE, plain=True, journal=True)
        local.create_folders()
        tasks = InProcessNodes(local)
        await tasks.start_all()
        for who in PEOPLE:
            await tasks.nodes[who.name].cast("jazz", b"x")
        await tasks.stop()

    asyncio.run(story())
    for path in (tmp_path / "net").rglob("*.rows"):
        place = store.replace("NAME", f"nodes/{path.relative_to(tmp_path / 'net')}")
        Location.of(place).write(path.read_bytes())
    nodes, lake = (store.replace("NAME", name) for name in ("nodes", "lake"))

    did("journal", nodes, "--to", lake, "--run", "r")
    before = named_rows(lake)
    did("lab", "compact", lake)
    did("journal", nodes, "--to", lake, "--run", "r")
    Gatherer(tmp_path / "net", tmp_path / "near", "r").take()

    assert named_rows(lake) == before == named_rows(tmp_path / "near")
    assert len(before["sends"]) > 50
    measured = did("lab", "measure", lake, "--json", "--out", store.replace("NAME", "m"))
    assert json.loads(measured.stdout)["r"]["contract"]["missing"] == 0
    out = tmp_path / "stream"
    did("lab", "stream", lake, "--out", str(out), "--once", "--delay", "0", "--open", "0")
    assert "3 casts" in (out / "index.html").read_text()
    refused = run("lab", "stream", lake, "--out", store.replace("NAME", "stream"), "--once")
    assert refused.exit_code == 2
    assert "Spark cannot reach s3://shelf/stream, where the stream's checkpoint" in refused.output
    assert not Location.of(store.replace("NAME", "stream")).names()


def test_a_folder_that_workers_do_not_see_is_refused_and_nothing_is_left_in_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose disk is another: it has no file of this name."""
    place = Location.of(tmp_path)
    far_tables.require_shared(spark, place)
    monkeypatch.setattr(far_tables, "is_embedded", lambda spark: False)
    far_tables.require_shared(spark, place)
    monkeypatch.setattr(far_tables, "MARKER", "{}")
    own = Location.write

    def elsewhere(self: Location, content: bytes) -> None:
        own(Location(f"{self.url}-elsewhere"), content)

    monkeypatch.setattr(Location, "write", elsewhere)
    with pytest.raises(LabError, match=r"does not see .*: name a place that all machines reach"):
        far_tables.require_shared(spark, place)
