"""Two sweeps side by side: equal ones are silent, a change of five per cent in one measure is told."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from implicast.cli import main
from implicast.lab import dataset, tables
from implicast.lab.folder import Folder, opened
from implicast.lab.storage import Location

SEEDS = 5


def sweep(
    path: Path, factor: float = 1.0, seeds: range = range(1, SEEDS + 1), noise: str = "x"
) -> Path:
    """Two series at two points; RTH of one of them at one point is changed by the factor."""
    place = Location.of(path)
    opened(place)
    (place / "experiments" / "e.json").write(b"{}")
    folder, runs, measured = Folder(place, "e"), [], []
    for series in ("broker", "spice"):
        for point in ("64", "128"):
            for seed in seeds:
                name = f"{series}-{point}-{noise}{seed}"
                placed = {
                    "run": name,
                    "series": series,
                    "design": series,
                    "axis": "peers",
                    "point_label": point,
                }
                runs.append({**placed, "position": 0, "seed": seed, "planned": True})
                value = 3.0 + seed / 10
                changed = value * factor if (series, point) == ("spice", "64") else value
                measured.append(
                    {"run": name, **dict.fromkeys(tables.MEASURES, value), "RTH": changed}
                )
    dataset.store(folder, "runs", pa.Table.from_pylist(runs, tables.RUNS))
    dataset.store(folder, "measures", pa.Table.from_pylist(measured, tables.RUN_MEASURES))
    return path


def compared(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["lab", "compare", *words])
    return result.exit_code, result.output


def test_equal_sweeps_are_silent(tmp_path: Path) -> None:
    code, said = compared(str(sweep(tmp_path / "a")), str(sweep(tmp_path / "b")))

    assert (code, said) == (0, f"{4 * len(tables.MEASURES)} measures compared, 0 changed\n")


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_change_of_five_per_cent_in_one_measure_is_told_and_nothing_else(
    tmp_path: Path, factor: float
) -> None:
    code, said = compared(str(sweep(tmp_path / "a")), str(sweep(tmp_path / "b", factor)))

    assert code == 1
    assert said.splitlines()[0].startswith("spice at 64: RTH 3.3 -> ")
    assert f"{factor - 1:+.1%}" in said
    assert len(said.splitlines()) == 2


def test_other_seeds_are_compared_by_their_means(tmp_path: Path) -> None:
    other = sweep(tmp_path / "b", seeds=range(2, SEEDS + 2), noise="y")

    assert compared(str(sweep(tmp_path / "a")), str(other))[0] == 0
    twice = sweep(tmp_path / "c", 2.0, range(2, SEEDS + 2), "y")
    assert "spice at 64: RTH" in compared(str(tmp_path / "a"), str(twice))[1]


def test_what_one_has_alone_is_told(tmp_path: Path) -> None:
    sweep(tmp_path / "a")
    folder = Folder(Location.of(sweep(tmp_path / "b")), "e")
    dataset.store(folder, "runs", dataset.load(folder, "runs").slice(0, 3 * SEEDS))

    code, said = compared(str(tmp_path / "a"), str(tmp_path / "b"))

    assert code == 1
    assert "only in A: spice at 128" in said


def test_a_tolerance_and_a_choice_of_measures(tmp_path: Path) -> None:
    one, other = str(sweep(tmp_path / "a")), str(sweep(tmp_path / "b", 1.05))

    assert compared(one, other, "--tolerance", "0.1")[0] == 0
    assert compared(one, other, "--measure", "RAH")[0] == 0


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    code, said = compared(str(tmp_path), str(tmp_path))

    assert code == 2
    assert "is not a laboratory folder" in said
