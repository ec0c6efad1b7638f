"""A place is a URL: the same on a disk and in an object store (moto, on loopback)."""

import json
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from implicast.lab import dataset, report
from implicast.lab.errors import LabError
from implicast.lab.experiment import read
from implicast.lab.folder import Folder
from implicast.lab.lock import Holder, _take, held, holder
from implicast.lab.run import run
from implicast.lab.storage import Location

TINY = """
title = "Tiny"
about = "A trial."
source = "nowhere"
designs = ["centralised", "broker"]
[axis]
of = "peers"
[scenario]
casts = 3
[small]
values = [8, 16]
runs = 2
[paper]
values = [32]
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """An S3 server that lives in this process."""
    server = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    host, port = made.get_host_and_port()
    options = (
        f"scheme=http&endpoint_override={host}:{port}&allow_bucket_creation=true&region=us-east-1"
    )
    Location.of(f"s3://key:secret@shelf/?{options}").store.create_dir("shelf")
    yield f"s3://key:secret@shelf/NAME?{options}"
    made.stop()


@pytest.fixture(params=["disk", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, bucket: str) -> Location:
    return (
        Location.of(tmp_path / "there")
        if request.param == "disk"
        else Location.of(bucket.replace("NAME", tmp_path.name))
    )


def test_what_is_written_is_listed_read_and_removed(place: Location, tmp_path: Path) -> None:
    (place / "a" / "one.txt").write(b"1")
    (place / "a" / "two.txt").write(b"2")
    (tmp_path / "file").write_bytes(b"3" * 100_000)
    (place / "b" / "three").take(tmp_path / "file")

    assert place.names() == ["a", "b"]
    assert (place / "a").names() == ["one.txt", "two.txt"]
    assert [each.read()[:1] for each in place.files()] == [b"1", b"2", b"3"]
    assert sorted(path.name for path in (place / "a").fetch(tmp_path / "copy").iterdir()) == [
        "one.txt",
        "two.txt",
    ]

    (place / "a").remove()
    (place / "nothing").remove()

    assert place.names() == ["b"]
    assert (place / "nothing").names() == []


def test_a_place_is_named_as_spark_names_it_and_shown_without_secrets() -> None:
    there = Location("s3://key:secret@shelf/name?scheme=http&endpoint_override=127.0.0.1:1")

    assert (there / "sends").for_spark == "s3a://shelf/name/sends"
    assert str(there / "sends") == "s3://shelf/name/sends"
    assert (
        Location.of("s3a://shelf/name?region=eu-west-1").url == "s3://shelf/name?region=eu-west-1"
    )
    assert Location.of("file:///tmp/x").local == Path("/tmp/x")


def test_a_store_that_is_unknown_is_refused_in_a_sentence() -> None:
    with pytest.raises(LabError, match="nowhere://x/ cannot be opened"):
        Location.of("nowhere://x/y")


def test_of_two_that_come_one_holds_the_folder_and_the_other_is_told_who(place: Location) -> None:
    told = f"is being worked on by .* \\(process {os.getpid()}\\)"
    with held(place), pytest.raises(LabError, match=told), held(place):
        pytest.fail("both held it")

    assert holder(place) is None
    with held(place):
        pass


def test_a_dead_holder_has_lost_the_folder(place: Location) -> None:
    (place / "_lock.json").write(
        b'{"user": "a", "host": "elsewhere", "pid": 1, "token": "t", "since": "then", "renewed": 0.0}'
    )

    with held(place) as mine:
        assert holder(place).token == mine.token


def test_a_process_that_got_a_dead_holders_number_is_not_taken_for_it(place: Location) -> None:
    dead = replace(Holder.here(), born="another boot:17")
    (place / "_lock.json").write(json.dumps(asdict(dead)).encode())

    with held(place) as mine:
        assert holder(place).token == mine.token


def test_of_many_that_bury_the_same_dead_holder_one_holds_the_folder(tmp_path: Path) -> None:
    place, dead = Location.of(tmp_path), replace(Holder.here(), born="another boot:17")
    for _ in range(50):
        (place / "_lock.json").write(json.dumps(asdict(dead)).encode())

        with ThreadPoolExecutor(8) as pool:
            took = list(pool.map(_come, [place] * 8, [Barrier(8)] * 8))

        assert sum(took) == 1


def _come(place: Location, start: Barrier) -> bool:
    """With all others, at the same moment."""
    start.wait()
    return _take(place / "_lock.json", Holder.here())


@pytest.mark.spark
def test_a_sweep_into_a_store_gives_the_journals_and_tables_of_a_sweep_into_a_folder(
    spark: SparkSession, bucket: str, tmp_path: Path
) -> None:
    made, far, near = (
        read("tiny", TINY),
        Location.of(bucket.replace("NAME", "sweep")),
        Location.of(tmp_path / "near"),
    )

    for out in (far, near):
        assert run(spark, made, out).finished == 8

    for table in ("sends", "notices", "casts", "registrations", "peers", "links", "paths"):
        here, there = list((near / table).files()), list((far / table).files())
        assert len(here) == 8
        assert [each.read() for each in here] == [each.read() for each in there], table
    for table in ("measures", "contract", "costs", "lorenz", "summary"):
        assert dataset.load(Folder(far, "tiny"), table).equals(
            dataset.load(Folder(near, "tiny"), table)
        ), table
    assert run(spark, made, far).finished == 0
    assert b"Kept in all" in report.write(far).read()
    assert not [path for path in Path.cwd().iterdir() if path.name.startswith("s3")], (
        "a local folder of that name"
    )
