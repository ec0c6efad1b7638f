"""Which code made a run: every worker says it, and another one than the driver's is refused."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from implicast.cli import main
from implicast.lab import dataset, installed_code, provenance
from implicast.lab.experiment import Experiment, read
from implicast.lab.folder import Folder
from implicast.lab.installed_code import PACKAGE, CodeRule, OtherCode
from implicast.lab.run import run
from implicast.lab.storage import Location

TWO = """
title = "Two"
about = "Two short runs."
source = "nowhere"
designs = ["centralised"]
[axis]
of = "peers"
[scenario]
network = "national"
casts = 4
[small]
values = [8, 16]
runs = 1
[paper]
values = [8]
"""


@pytest.fixture
def two() -> Experiment:
    return read("two", TWO)


def other_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A copy of the package, which workers of this session run from now on."""
    copied = tmp_path / "src" / "implicast"
    shutil.copytree(PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    wrapper = tmp_path / "python"
    wrapper.write_text(
        f'#!/bin/sh\nPYTHONPATH="{copied.parent}:$PYTHONPATH" exec {sys.executable} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(wrapper))
    return copied


def rows(out: Path) -> list[dict]:
    return dataset.load(Folder(Location.of(out), "two"), "runs").to_pylist()


@pytest.mark.spark
@pytest.mark.long
def test_a_worker_with_an_edited_source_is_refused_by_host_and_digests_or_named_in_its_rows(
    spark: SparkSession, two: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("implicast.lab.sweep.origin", lambda: {"commit": "c", "version": "1"})
    run(spark, two, tmp_path / "own")
    copied = other_python(tmp_path, monkeypatch, spark)
    with (copied / "world" / "world.py").open("a") as file:
        file.write("\nDOUBLED = 2\n")
    mine = installed_code.installed_code()

    with pytest.raises(OtherCode) as refused:
        run(spark, two, tmp_path / "out")

    said = str(refused.value)
    assert said.startswith(f"the worker on {mine.host} runs other code than the driver: sources ")
    assert f"the driver has {mine.sources};" in said
    assert "compiled" not in said
    (tmp_path / "two.toml").write_text(TWO)
    words = ["lab", "run", str(tmp_path / "two.toml"), "--out", str(tmp_path / "out")]
    went = CliRunner().invoke(main, [*words, "--mixed-code"])
    assert went.exit_code == 0, went.output
    own, others = rows(tmp_path / "own"), rows(tmp_path / "out")
    assert {(row["commit"], row["code"], row["host"]) for row in own} == {
        ("c", mine.digest, mine.host)
    }
    assert {(row["error"], row["commit"], row["host"]) for row in others} == {
        (None, None, mine.host)
    }
    assert mine.digest not in {row["code"] for row in others}


@pytest.mark.spark
def test_a_worker_with_a_stale_compiled_module_is_refused(
    spark: SparkSession, two: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = other_python(tmp_path, monkeypatch, spark)
    modules = sorted(copied.rglob("*.so"))
    if not modules:
        pytest.skip("nothing is compiled here")
    with modules[0].open("ab") as file:
        file.write(b"\0")

    with pytest.raises(OtherCode, match=r"runs other code than the driver: compiled \w{16}, the"):
        run(spark, two, tmp_path / "out")


def test_code_that_changes_after_it_was_loaded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, found = CodeRule.here(), installed_code.installed_code()
    assert rule.check() == found

    monkeypatch.setattr(installed_code, "installed_code", lambda: replace(found, sources="new"))
    with pytest.raises(OtherCode, match="changed after the process had loaded it"):
        rule.check()


def test_a_digest_covers_contents_and_names_and_not_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_code, "PACKAGE", tmp_path)
    digests = []
    for name, text, time_s in (
        ("a.py", "x = 1", 1),
        ("a.py", "x = 1", 2),
        ("a.py", "x = 2", 2),
        ("b.py", "x = 2", 2),
    ):
        for path in tmp_path.iterdir():
            path.unlink()
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (time_s, time_s))
        digests.append(installed_code.installed_code().sources)

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_a_package_below_a_repository_that_does_not_track_it_has_no_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"rev-parse": "0123456789ab", "ls-files": "", "status": ""}
    monkeypatch.setattr(provenance, "_git", lambda directory, word, *more: said[word])
    assert provenance.commit() == "unknown"

    said["ls-files"] = "provenance.py"
    assert provenance.commit() == "0123456789ab"
    said["status"] = "?? new.py"
    assert provenance.commit() == "0123456789ab with changes"
