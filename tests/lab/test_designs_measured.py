"""For every design: Spark's measures and verdict equal those the world took itself, and the contract is kept."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from implicast.lab import report, tables
from implicast.lab.experiment import read
from implicast.lab.folder import Folder
from implicast.lab.run import disagreements, run
from implicast.lab.storage import Location

pytestmark = pytest.mark.spark

EVERY_DESIGN = """
title = "Every design"
about = "A small load on a small network."
source = "nowhere"
designs = "tags"
[axis]
of = "changes"
[scenario]
peers = 24
casts = 8
network = "national"
"workload.tags" = 40
[small]
values = [0, 6]
runs = 1
[paper]
values = [0]
"""


@pytest.fixture(scope="module")
def out(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("designs")
    made = read("every-design", EVERY_DESIGN)
    went = run(spark, made, directory)
    assert not went.failed, [
        Folder(Location.of(directory), "every-design").error(name) for name in went.failed
    ]
    return directory


def test_measures_equal_the_tally_for_every_design(out: Path) -> None:
    assert disagreements(Folder(Location.of(out), "every-design")) == []
    runs = pq.read_table(out / "runs").to_pylist()
    assert {row["design"] for row in runs} == set(read("every-design", EVERY_DESIGN).chosen())


def test_verdicts_equal_the_worlds_for_every_design_and_are_clean(out: Path) -> None:
    for row in pq.read_table(out / "contract").to_pylist():
        noted = Folder(Location.of(out), "every-design").outcome(row["run"])["contract"]
        assert {name: row[name] for name in tables.CONTRACT} == {
            name: noted[name] for name in tables.CONTRACT
        }
        assert not any(row[name] for name in tables.BROKEN), row


def test_the_summary_has_every_measure_of_every_series_at_every_point(out: Path) -> None:
    rows = pq.read_table(out / "summary").to_pylist()

    series = {row["series"] for row in rows}
    for name in tables.MEASURES:
        mine = {(row["series"], row["point_label"]) for row in rows if row["measure"] == name}
        assert mine == {(each, point) for each in series for point in ("0", "6")}, name
    assert all(row["low"] is row["high"] is None for row in rows), "one run has no interval"


def test_the_report_is_one_file_that_fetches_nothing(out: Path) -> None:
    path = report.write(out)

    text = path.read().decode("utf-8")
    assert "Kept in all" in text
    sections = [
        text.index(f'<section id="{name}"')
        for name in ("verdict", "figures", "fairness", "tables", "provenance")
    ]
    assert sections == sorted(sections)
    assert "prefers-color-scheme: dark" in text
    for fetched in ('src="http', "@import", "<link", "<script", "url(http"):
        assert fetched not in text
    assert (
        text.count('role="img"')
        == text.count("<figcaption>")
        == len(list((out / "figures").glob("*.svg")))
    )
    assert text.count("<table") == text.count("<caption>")


VALUES = EVERY_DESIGN.replace('designs = "tags"', 'designs = "attributes"').replace("[0, 6]", "[4]")
VALUES = VALUES.replace('"workload.tags" = 40', 'workload = "attributes"\n"workload.share" = 0.3')


def test_casts_to_ranges_of_values_are_judged_as_the_world_judges_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = read("values", VALUES)
    went = run(spark, made, tmp_path / "values")

    assert not went.failed
    assert disagreements(Folder(Location.of(tmp_path / "values"), "values")) == []
    judged = pq.read_table(tmp_path / "values" / "contract").to_pylist()
    assert len(judged) == len(made.chosen()) > 3
    for row in judged:
        noted = Folder(Location.of(tmp_path / "values"), "values").outcome(row["run"])["contract"]
        assert {name: row[name] for name in tables.CONTRACT} == {
            name: noted[name] for name in tables.CONTRACT
        }
        assert row["expected"] > 20
        assert not any(row[name] for name in tables.BROKEN), row
