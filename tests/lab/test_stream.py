"""A stream over a lake: killed where it hurts and started again it counts every row once, and equals the batch."""

import pyarrow.parquet as pq
import pytest

from implicast.lab.lake import STREAMED, Lake
from implicast.lab.measures import small
from implicast.lab.stream import events
from implicast.lab.stream.run import Wishes, start
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

pytestmark = pytest.mark.spark
START_US = 1_700_000_040_000_000
"""Twenty seconds before a minute is full."""


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Of a simulation: what the lake gets is what nodes of a network would have written."""
    where = tmp_path_factory.mktemp("stream") / "journal"
    tags = {"tags": 8, "tags_per_peer": 3}
    simulate(
        Scenario(
            "dht", peers=12, casts=20, interval_ms=9000, payload_bytes=8, workload_parameters=tags
        ),
        where,
    )
    return where


def poured(lake, journal, parts):
    """A journal as parts of a lake, in order of time."""
    there = Lake(lake, "trial", "dht")
    tables = {
        name: pq.read_table(journal / f"{name}.parquet").to_pylist()
        for name in ("sends", "notices", "casts")
    }
    peers = pq.read_table(journal / "peers.parquet").to_pylist()
    tables["peers"] = [{"peer": each["peer"], "role": "peer", "time_us": 0} for each in peers]
    tables["receipts"] = [
        {**row, "settled_us": row["settled_us"]} for row in tables["casts"] if row["settled_us"]
    ]
    stamp = {
        "sends": "sent_us",
        "notices": "time_us",
        "casts": "time_us",
        "receipts": "settled_us",
        "peers": "time_us",
    }
    end_us = max(row["sent_us"] for row in tables["sends"]) + 1
    for part in range(parts):
        low, high = part * end_us // parts, (part + 1) * end_us // parts
        some = {
            name: [
                row for row in rows if low <= row[stamp[name]] < high or (part == parts - 1 <= 0)
            ]
            for name, rows in tables.items()
        }
        there.add(
            {name: [_shifted(row, STREAMED[name]) for row in rows] for name, rows in some.items()}
        )
    return there


def _shifted(row, schema):
    return {
        name: START_US + row[name] if name.endswith("_us") and row[name] is not None else row[name]
        for name in schema.names
    }


def totals(out):
    (row,) = pq.read_table(out / "totals").to_pylist()
    return row


def agree(row, journal):
    """The totals of a stream are the measures of the batch, to the last bit."""
    found = small.measured(small.reader(journal))
    batch = {**found["measures"][0], "notified": found["contract"][0]["notified"]}
    costs = {each["phase"]: each for each in found["costs"]}
    assert {name: row[name] for name in row.keys() & batch.keys()} == {
        name: batch[name] for name in row.keys() & batch.keys()
    }
    assert {
        "TOUT_G",
        "TOUT_M",
        "POUT_M",
        "RTH",
        "latency_ms_p99",
        "latency_ms_mean",
        "notified",
    } <= batch.keys()
    assert row["messages"] == sum(each["messages"] for each in costs.values())
    assert (row["messages_cast"], row["bytes_cast"]) == (
        costs["cast"]["messages"],
        costs["cast"]["bytes"],
    )


class Killed(Exception):
    """As far as the stream is concerned, its process is gone."""


def killed_at(number):
    """After the state of a batch was written, before Spark knows."""

    def told(batch, table):
        if batch == number:
            raise Killed

    return told


@pytest.mark.long
def test_a_stream_that_is_killed_twice_counts_every_row_once(spark, journal, tmp_path, monkeypatch):
    monkeypatch.setattr(events, "FILES_MAX", 1)
    poured(tmp_path / "lake", journal, 3)
    wishes = Wishes(tmp_path / "lake", tmp_path / "out", once=True, open_s=1.0)

    for number in (0, 1):
        with pytest.raises(Exception, match="Killed"):
            start(spark, wishes, killed_at(number)).awaitTermination()
    seen = []
    start(spark, wishes, lambda batch, table: seen.append(batch)).awaitTermination()

    assert seen[0] == 1  # the one that was interrupted came again
    row = totals(tmp_path / "out")
    agree(row, journal)
    assert row["late"] == 0
    minutes = pq.read_table(tmp_path / "out" / "minutes").to_pylist()
    assert sum(each["deliveries"] for each in minutes) == row["notified"]
    assert sum(each["casts"] for each in minutes) == 20
    assert len(minutes) >= 3
    assert "trial" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.long
def test_what_comes_late_counts_and_is_counted_as_late(spark, journal, tmp_path):
    lake, out = tmp_path / "lake", tmp_path / "out"
    there = poured(tmp_path / "aside", journal, 1)
    rows = {name: there.gathered(name).sort_by(_stamp(name)) for name in STREAMED}
    some = {
        name: table.slice(0, len(table) // 3) if name == "sends" else table
        for name, table in rows.items()
    }
    first = {
        name: table.slice(len(some[name])) if name == "sends" else table
        for name, table in rows.items()
    }
    target = Lake(lake, "trial", "dht")
    for tables in (first, {"sends": some["sends"]}):  # the oldest third of all messages comes last
        target.add({name: table.to_pylist() for name, table in tables.items()})
        start(spark, Wishes(lake, out, once=True, delay_s=0.0)).awaitTermination()

    row = totals(out)
    agree(row, journal)
    newest = max(first["sends"]["sent_us"].to_pylist()) // 60_000_000
    assert (
        row["late"]
        == sum(each // 60_000_000 + 1 <= newest for each in some["sends"]["sent_us"].to_pylist())
        > 0
    )


@pytest.mark.long
def test_rows_count_once_after_a_kill_and_a_receipt_that_does_not_come_is_open_too_long(
    spark, journal, tmp_path
):
    there = poured(tmp_path / "aside", journal, 1)
    rows = {name: there.gathered(name).to_pylist() for name in STREAMED}
    rows["receipts"] = rows["receipts"][2:]
    Lake(tmp_path / "lake", "trial", "dht").add(rows)
    wishes = Wishes(tmp_path / "lake", tmp_path / "out", once=True, open_s=20.0)
    with pytest.raises(Exception, match="Killed"):
        start(spark, wishes, killed_at(0)).awaitTermination()
    start(spark, wishes).awaitTermination()

    assert len(rows["receipts"]) == 18
    found = totals(tmp_path / "out")
    assert (found["open_too_long"], found["receipts"]) == (2, 18)
    agree(found, journal)
    assert "trial" in (tmp_path / "out" / "index.html").read_text()


def _stamp(name):
    return {"sends": "sent_us", "receipts": "settled_us"}.get(name, "time_us")
