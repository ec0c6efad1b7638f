"""Journals that bear the table names of version 0.1.0 are read and measured like new ones."""

from pathlib import Path

import pytest

from implicast.world.churn import Churn
from implicast.world.journal import FORMER_NAMES, read, table_path
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    churn = Churn.parse("event=2:crash:3,event=4..9:return:5")
    simulate(Scenario("centralised", peers=12, casts=20, churn=churn), tmp_path / "run")
    return tmp_path / "run"


def rename_back(journal: Path) -> None:
    for name, former in FORMER_NAMES.items():
        (journal / f"{name}.parquet").rename(journal / f"{former}.parquet")


def test_the_writer_uses_the_new_names(journal):
    for name, former in FORMER_NAMES.items():
        assert table_path(journal, name) == journal / f"{name}.parquet"
        assert not (journal / f"{former}.parquet").exists()


def test_a_table_under_its_former_name_is_read(journal):
    before = {name: read(journal, name) for name in FORMER_NAMES}
    rename_back(journal)

    assert {name: read(journal, name) for name in FORMER_NAMES} == before


@pytest.mark.spark
def test_the_laboratory_measures_a_journal_with_the_former_names_alike(journal, spark):
    from implicast.lab.journals import JournalSource
    from implicast.lab.measures.all import measured
    from implicast.lab.storage import Location

    def rows() -> dict[str, list[dict[str, object]]]:
        source = JournalSource("run", Location.of(journal))
        assert source.has_changed()
        return {name: table.to_pylist() for name, table in measured(spark, [source]).items()}

    new = rows()
    rename_back(journal)

    assert rows() == new
    assert new["change"]
