"""Every column of every table is described: in the code, in the files, on the page."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from random_journal import random_journal

from implicast.cli import main
from implicast.lab import dataset, dictionary, tables
from implicast.lab.folder import Folder
from implicast.lab.storage import Location
from implicast.world.journal import CHANGE_SCHEMAS, SCHEMAS

WORKLOADS = {
    **tables.WORKLOAD,
    **tables.DESCRIPTION,
    "entries": tables.ENTRIES,
    "queries": tables.QUERIES,
    "groups": tables.GROUPS,
}
ROOMS = {"sweep": dataset.SCHEMAS, "journal": {**SCHEMAS, **CHANGE_SCHEMAS}, "workload": WORKLOADS}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"


@pytest.mark.parametrize("room", ROOMS)
def test_every_column_of_every_table_has_a_meaning(room: str) -> None:
    for name, schema in ROOMS[room].items():
        described = dictionary.ROOMS[room][name]
        assert list(described) == schema.names, name
        assert all(meaning for _, meaning in described.values()), name


def test_the_files_of_a_journal_and_of_a_sweep_carry_them(tmp_path: Path) -> None:
    random_journal(tmp_path / "journal", 3)
    folder = Folder(Location.of(tmp_path / "sweep"), "e")
    dataset.store(folder, "measures", dataset.SCHEMAS["measures"].empty_table())

    sent = pq.read_schema(tmp_path / "journal" / "sends.parquet").field("sent_us")
    measured = pq.read_schema(
        tmp_path / "sweep" / "measures" / "experiment=e" / "part-0.parquet"
    ).field("TINK_M")

    assert (sent.metadata[b"unit"], sent.metadata[b"meaning"]) == (b"us", b"when it was sent")
    assert measured.metadata[b"unit"] == b"packets"


def test_the_page_says_the_same() -> None:
    text = PAGE.read_text("utf-8")

    for row in dictionary.rows():
        assert f"| `{row['column']}` | {row['unit']} | {row['meaning']} |" in text, (
            row["table"],
            row["column"],
        )


def test_the_command_prints_a_table_or_all_of_them() -> None:
    shown = CliRunner().invoke(main, ["lab", "tables", "costs"])
    unknown = CliRunner().invoke(main, ["lab", "tables", "chairs"])

    assert "messages_per_peer" in shown.output
    assert "sent_us" not in shown.output
    assert (unknown.exit_code, "there is no table 'chairs'" in unknown.output) == (2, True)


def test_a_table_written_before_a_column_was_added_is_read_with_nulls(tmp_path: Path) -> None:
    folder = Folder(Location.of(tmp_path), "e")
    dataset.store(
        folder, "rejected", pa.Table.from_pylist([{"run": "r", "reason": "x"}], tables.REJECTED)
    )
    path = tmp_path / "rejected" / "experiment=e" / "part-0.parquet"
    pq.write_table(pq.read_table(path).drop(["reason"]), path)

    assert dataset.load(folder, "rejected").to_pylist() == [{"run": "r", "reason": None}]


def test_a_point_that_was_written_as_a_text_is_read_as_a_number_where_it_is_one(
    tmp_path: Path,
) -> None:
    folder = Folder(Location.of(tmp_path), "e")
    kept = [each for each in tables.SUMMARY if each.name not in ("point", "point_label")]
    former = pa.schema([*kept, ("point", pa.string())])
    rows = [{"series": "a", "point": "64"}, {"series": "a", "point": "Kdl"}]
    (tmp_path / "summary" / "experiment=e").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(rows, former),
        tmp_path / "summary" / "experiment=e" / "part-0.parquet",
    )

    found = dataset.load(folder, "summary").to_pylist()

    assert [(row["point"], row["point_label"]) for row in found] == [(64.0, "64"), (None, "Kdl")]
