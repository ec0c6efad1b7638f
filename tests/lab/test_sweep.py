"""A sweep goes on whatever happens to a run, and is taken up where it stopped."""

import json
import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from implicast.lab.errors import ExperimentError
from implicast.lab.experiment import Experiment, read
from implicast.lab.plan import plan
from implicast.lab.run import claim, run
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
    made.write_text(str(int(made.read_text()) + 1 if made.exists() else 1))
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
    planned, out = plan(made, "small"), tmp_path / "out"

    went = sweep(spark, planned, out)

    assert (went.finished, went.before, len(went.failed)) == (2, 0, 2)
    errors = {json.loads(path.read_text())["error"] for path in (out / "failures").iterdir()}
    assert "ValueError: as it was told" in errors
    assert any(error.startswith("the worker died") for error in errors)

    made_before = {path.name: path.read_text() for path in hurt.glob("made-*")}

    (hurt / "fail-2").unlink()
    (hurt / "die-3").unlink()
    again = sweep(spark, planned, out)

    assert (again.finished, again.before, again.failed) == (2, 2, ())
    assert not list((out / "failures").iterdir())
    made_after = {path.name: path.read_text() for path in hurt.glob("made-*")}
    assert {name for name in made_after if made_after[name] != made_before[name]} == {"made-2", "made-3"}


def test_a_trial_is_summarised_like_any_other_run(spark: SparkSession, made: Experiment, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    run(spark, made, tmp_path / "out")

    rows = pq.read_table(tmp_path / "out" / "summary").to_pylist()
    assert {(row["point"], row["measure"], row["mean"]) for row in rows} == {
        ("1", "square", 1.0), ("2", "square", 4.0), ("3", "square", 9.0), ("4", "square", 16.0),
    }  # fmt: skip


def test_what_is_half_written_is_not_a_finished_run(spark: SparkSession, made: Experiment, tmp_path: Path) -> None:
    planned, out = plan(made, "small"), tmp_path / "out"
    (out / "journals" / f".{planned[0].run}.4711").mkdir(parents=True)

    assert sweep(spark, planned, out).finished == 4


def test_the_directory_of_another_experiment_is_left_alone(made: Experiment, tmp_path: Path) -> None:
    claim(tmp_path / "mine", made, "small", None)
    claim(tmp_path / "mine", made, "small", None)

    with pytest.raises(ExperimentError, match="holds the experiment 'trials' at scale small"):
        claim(tmp_path / "mine", made, "paper", None)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    with pytest.raises(ExperimentError, match="is not a laboratory directory"):
        claim(tmp_path / "other", made, "small", None)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.txt"]
