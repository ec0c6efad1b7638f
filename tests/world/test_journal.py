"""A journal is whole or not there; memory does not grow with messages."""

import pytest

from implicast.peer.errors import ScenarioError
from implicast.world import journal as journals
from implicast.world.journal import CHUNK_ROWS, SCHEMAS, Journal, read


def test_rows_come_back_in_order_across_chunks(tmp_path):
    journal = Journal(tmp_path / "run")
    journal.kinds.append("Go")
    count = CHUNK_ROWS + 10
    for serial in range(count):
        journal.send(
            serial, 0, serial, serial + 5 if serial % 2 else -1, 1, 2, serial % 3 - 1, 1, 9, 0
        )
    journal.finish()
    journal.close()

    sends = read(tmp_path / "run", "sends")
    assert sends.num_rows == count
    assert sends["serial"].to_pylist() == list(range(count))
    assert sends["cast"].to_pylist()[:6] == [None, 0, 1, None, 0, 1]
    assert sends["phase"].to_pylist()[:3] == ["upkeep", "cast", "cast"]
    assert sends["arrived_us"].to_pylist()[:2] == [None, 6]


def test_the_directory_bears_its_name_only_when_it_is_whole(tmp_path):
    journal = Journal(tmp_path / "run")
    journal.finish()
    assert not (tmp_path / "run").exists()

    journal.close()

    assert (tmp_path / "run").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_discarded_journal_leaves_nothing(tmp_path):
    Journal(tmp_path / "run").discard()

    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_refused_untouched(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("keep")

    with pytest.raises(ScenarioError, match="exists already"):
        Journal(tmp_path / "run")

    assert (tmp_path / "run" / "precious").read_text() == "keep"


def test_a_directory_that_is_no_journal_is_named(tmp_path):
    with pytest.raises(ScenarioError, match="not a journal"):
        read(tmp_path, "sends")


def test_small_tables_keep_their_declared_schema(tmp_path):
    journal = Journal(tmp_path / "run")
    journal.table("casts", [])
    journal.finish()
    journal.close()

    assert read(tmp_path / "run", "casts").schema.equals(SCHEMAS["casts"])
    assert [
        batch.num_rows for batch in journals.batches(tmp_path / "run", "sends", ["serial"])
    ] == []
