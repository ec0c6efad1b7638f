"""A small journal is measured in the task that made it: the same as the world's tally, and as Spark finds."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_journal import Made, random_journal

from implicast.lab import tables
from implicast.lab.journals import JournalSource
from implicast.lab.measures import large, small
from implicast.lab.storage import Location
from implicast.world.invariants import ContractChecker
from implicast.world.simulate import notices
from implicast.world.tally import messages, tally

SEEDS = (3, 6, 9, 12)
"""Those in which nothing changes."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    base = tmp_path_factory.mktemp("small")
    return [random_journal(base / f"run=r{seed}", seed) for seed in SEEDS]


def test_every_measure_equals_the_tally(made: list[Made]) -> None:
    for each in made:
        found, expected = (
            small.measured(small.reader(each.directory))["measures"][0],
            tally(each.directory),
        )

        assert set(found) == set(tables.MEASURES)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_the_contract_is_judged_as_the_world_judges_it(made: list[Made]) -> None:
    for each in made:
        report = ContractChecker(
            each.casts, each.registrations, notices(each.directory), each.away, exact=True
        ).report()

        found = small.measured(small.reader(each.directory))["contract"][0]

        assert found == {name: getattr(report, name) for name in tables.CONTRACT}
        assert report.missing
        assert report.uninvited
        assert report.misreported


def test_costs_are_those_of_each_phase(made: list[Made]) -> None:
    for each in made:
        costs = small.measured(small.reader(each.directory))["costs"]

        assert {row["phase"]: row["messages"] for row in costs} == messages(each.directory)[
            "messages"
        ]


def test_a_journal_without_casts_has_measures_of_zero(tmp_path: Path) -> None:
    made = random_journal(tmp_path / "run=none", 3, casts=0)

    found = small.measured(small.reader(made.directory))

    assert found["measures"][0]["RTH"] == 0.0
    assert found["contract"][0]["notified"] >= 0


def test_what_is_large_is_left_to_spark() -> None:
    assert small.is_small(small.ROWS_MAX)
    assert not small.is_small(small.ROWS_MAX + 1)


def added_up(parts: list[pa.Table]) -> dict[str, pa.Table]:
    """What Spark makes of the pieces of a journal."""
    sums = [("load", "sum"), ("peak", "max"), ("hops", "sum"), ("deepest", "max")]
    whole = pa.concat_tables(parts).group_by(["of", "key"]).aggregate(sums)
    whole = whole.rename_columns(["of", "key", *(name for name, _ in sums)]).to_pylist()
    kinds = {row["of"] for row in whole}
    ordered = sorted(whole, key=lambda row: row["key"])
    return {of: pa.Table.from_pylist([row for row in ordered if row["of"] == of]) for of in kinds}


def test_a_journal_in_pieces_has_the_measures_and_the_contract_of_the_whole(
    made: list[Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = [random_journal(tmp_path / f"run=r{seed}", seed) for seed in (1, 2, 4, 5)]
    for each in [*made, *changed]:
        source = JournalSource("r", Location.of(each.directory))
        whole = small.measured(source.read, source.changed())
        monkeypatch.setattr(large, "BLOCK_ROWS", source.opened("sends").metadata.num_rows // 5)

        pieces = large.pieces(source)
        found = large._finish(
            source, added_up([large._tried(large._load, piece) for piece in pieces])
        )
        judged = large._verdict(
            source, added_up([large._tried(large._laws, piece) for piece in pieces])
        )

        assert len(pieces) > 3
        assert found["measures"][0] == pytest.approx(whole["measures"][0], rel=1e-12)
        assert (found["costs"], found["lorenz"]) == (whole["costs"], whole["lorenz"])
        assert judged["contract"] == whole["contract"]
        assert judged.get("change") == whole.get("change")
        assert ("change" in whole) == (each in changed)


def test_a_piece_that_makes_no_sense_says_so_and_raises_nothing(tmp_path: Path) -> None:
    journal = random_journal(tmp_path / "run=bad", 3).directory
    sends = pq.read_table(journal / "sends.parquet")
    place = sends.schema.get_field_index("sender")
    pq.write_table(
        sends.set_column(place, sends.schema.field(place), pa.array([-4] * len(sends), pa.int32())),
        journal / "sends.parquet",
    )
    source = JournalSource("bad", Location.of(journal))

    found = large._tried(large._load, large.pieces(source)[0])

    assert found["of"].to_pylist() == [
        "wrong it does not hang together: ValueError: peers have numbers from 0 on"
    ]
