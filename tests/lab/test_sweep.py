"""A sweep goes on whatever happens to a run, and is taken up where it stopped."""

import os
import signal
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from implicast.lab import dataset
from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import Experiment, read
from implicast.lab.folder import Folder
from implicast.lab.plan import plan
from implicast.lab.run import claim, run
from implicast.lab.storage import Location
from implicast.lab.sweep import sweep

pytestmark = pytest.mark.spark

TRIAL = """
title = "Trials"
about = "Trials of the sweep itself."
source = "nowhere"
designs = []
trial = "test_sweep:trial"
[axis]
of = "number"
[scenario]
hurt = "HURT"
[small]
values = [1, 2, 3, 4]
runs = 1
[paper]
values = [1]
"""


def trial(number: int, seed: int, hurt: str) -> dict[str, float]:
    """Counts how often it was made; fails or dies when its marker says so."""
    place = Path(hurt)
    made = place / f"made-{number}"
    with made.open("a") as file:  # not read and written: two seeds of one number may run at once
        file.write("|")
    if (place / f"fail-{number}").exists():
        raise ValueError("as it was told")
    if (place / f"die-{number}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": float(number * number)}


@pytest.fixture
def hurt(tmp_path: Path) -> Path:
    (tmp_path / "hurt").mkdir()
    return tmp_path / "hurt"


@pytest.fixture
def made(hurt: Path) -> Experiment:
    return read("trials", TRIAL.replace("HURT", str(hurt)))


@pytest.fixture(autouse=True)
def workers_find_this_file(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    spark.sparkContext.addPyFile(__file__)


def test_a_run_that_fails_or_dies_is_lost_alone_and_made_again_later(
    spark: SparkSession, made: Experiment, hurt: Path, tmp_path: Path
) -> None:
    (hurt / "fail-2").touch()
    (hurt / "die-3").touch()
    planned, out = plan(made, "small"), claim(Location.of(tmp_path / "out"), made, "small", None)

    went = sweep(spark, planned, out)

    assert (went.finished, went.before, len(went.failed)) == (2, 0, 2)
    errors = {out.error(run) for run in went.failed}
    assert "ValueError: as it was told" in errors
    assert any(error.startswith("the worker died") for error in errors)

    made_before = {path.name: path.read_text() for path in hurt.glob("made-*")}

    (hurt / "fail-2").unlink()
    (hurt / "die-3").unlink()
    again = sweep(spark, planned, out)

    assert (again.finished, again.before, again.failed) == (2, 2, ())
    assert not out.failed()
    made_after = {path.name: path.read_text() for path in hurt.glob("made-*")}
    assert {name for name in made_after if made_after[name] != made_before[name]} == {
        "made-2",
        "made-3",
    }


def test_a_trial_is_summarised_like_any_other_run(
    spark: SparkSession, made: Experiment, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    run(spark, made, tmp_path / "out")

    rows = pq.read_table(tmp_path / "out" / "summary").to_pylist()
    assert {row["experiment"] for row in rows} == {"trials"}
    assert {(row["point"], row["measure"], row["mean"]) for row in rows} == {
        (1.0, "square", 1.0),
        (2.0, "square", 4.0),
        (3.0, "square", 9.0),
        (4.0, "square", 16.0),
    }


def test_what_is_half_written_is_not_a_finished_run(
    spark: SparkSession, made: Experiment, tmp_path: Path
) -> None:
    planned, out = plan(made, "small"), claim(Location.of(tmp_path / "out"), made, "small", None)
    out.scratch(planned[0].run).mkdir(parents=True)
    out.journal("sends", planned[1].run).write(b"PAR1 and no more")

    assert sweep(spark, planned, out).finished == 4
    assert not (out.place / "_scratch").exists() or not (out.place / "_scratch").names()


def test_a_folder_of_something_else_is_left_alone(made: Experiment, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(ExperimentError, match="is not a laboratory folder"):
        claim(Location.of(tmp_path / "other"), made, "small", None)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]

    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "experiment.json").touch()
    with pytest.raises(ExperimentError, match=r"made by a version before 0\.2"):
        claim(Location.of(tmp_path / "old"), made, "small", None)


def test_a_folder_grows_by_seeds_points_and_captions_and_old_runs_keep_their_commit(
    spark: SparkSession,
    made: Experiment,
    hurt: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr("implicast.lab.sweep.origin", lambda: {"commit": "first", "version": "1"})
    run(spark, made, out)
    made_before = {path.name: path.read_text() for path in hurt.glob("made-*")}
    more = read(
        "trials", TRIAL.replace("HURT", str(hurt)).replace("[1, 2, 3, 4]", "[1, 2, 3, 4, 5]")
    )
    monkeypatch.setattr("implicast.lab.sweep.origin", lambda: {"commit": "second", "version": "2"})

    went = run(spark, msgspec.structs.replace(more, title="Another caption"), out, runs=2)

    assert (went.finished, went.before) == (6, 4)
    assert {path.name: path.read_text() for path in hurt.glob("made-*")} == {
        **dict.fromkeys(made_before, "||"),
        "made-5": "||",
    }
    rows = dataset.load(Folder(Location.of(out), "trials"), "runs").to_pylist()
    assert {(row["point_label"], row["seed"]): row["commit"] for row in rows} == {
        **{(str(point), 1): "first" for point in (1, 2, 3, 4)},
        ("5", 1): "second",
        **{(str(point), 2): "second" for point in (1, 2, 3, 4, 5)},
    }
    summed = dataset.load(Folder(Location.of(out), "trials"), "summary").to_pylist()
    assert {(row["point_label"], row["runs"]) for row in summed} == {
        (str(point), 2) for point in (1, 2, 3, 4, 5)
    }


def test_fewer_seeds_leave_the_others_in_the_tables_and_out_of_the_summary(
    spark: SparkSession, made: Experiment, tmp_path: Path
) -> None:
    run(spark, made, tmp_path / "out", runs=2)

    assert run(spark, made, tmp_path / "out", runs=1).finished == 0

    folder = Folder(Location.of(tmp_path / "out"), "trials")
    assert sorted(
        (row["seed"], row["planned"]) for row in dataset.load(folder, "runs").to_pylist()
    ) == ([(1, True)] * 4 + [(2, False)] * 4)
    assert {row["runs"] for row in dataset.load(folder, "summary").to_pylist()} == {1}
