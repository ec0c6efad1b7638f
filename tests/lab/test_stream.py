"""A stream over a lake: killed where it hurts and started again it counts every row once, and equals the batch."""

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from implicast.lab.lake import STREAMED, Lake
from implicast.lab.measures import small
from implicast.lab.storage import Location
from implicast.lab.stream.run import Wishes, start
from implicast.lab.stream.sketch import ERROR, add, percentile
from implicast.lab.stream.source import EVENTS
from implicast.lab.stream.state import Fold, RunState
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


def wished(lake, out, **more):
    return Wishes(Location.of(lake), Location.of(out), once=True, **more)


def minutes_of(out):
    """Closed and open ones."""
    names = [each for each in ("minutes", "minutes_open") if (out / each).exists()]
    rows = [row for name in names for row in pq.read_table(out / name).to_pylist()]
    return sorted(rows, key=lambda row: row["minute_us"])


def totals(out):
    (row,) = pq.read_table(out / "totals").to_pylist()
    return row


def agree(row, journal):
    """The totals of a stream are the measures of the batch; percentiles within the stated error."""
    found = small.measured(small.reader(journal))
    batch = {**found["measures"][0], "notified": found["contract"][0]["notified"]}
    costs = {each["phase"]: each for each in found["costs"]}
    for name in row.keys() & batch.keys():
        about = ERROR if name in ("latency_ms_median", "latency_ms_p99") else 1e-12
        assert row[name] == pytest.approx(batch[name], rel=about), name
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
def test_a_stream_that_is_killed_twice_counts_every_row_once(spark, journal, tmp_path):
    poured(tmp_path / "lake", journal, 3)
    wishes = wished(tmp_path / "lake", tmp_path / "out", open_s=1.0, steps_max=1)

    for number in (0, 1):
        with pytest.raises(Exception, match="Killed"):
            start(spark, wishes, killed_at(number)).awaitTermination()
    seen = []
    start(spark, wishes, lambda batch, table: seen.append(batch)).awaitTermination()

    assert seen[0] == 1  # the one that was interrupted came again
    row = totals(tmp_path / "out")
    agree(row, journal)
    assert row["late"] == 0
    minutes = minutes_of(tmp_path / "out")
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
        start(spark, wished(lake, out, delay_s=0.0, open_s=0.0)).awaitTermination()

    row, minute = totals(out), 60_000_000
    newest = max(first["sends"]["sent_us"].to_pylist()) // minute
    made = {each["cast"]: each["time_us"] // minute for each in rows["casts"].to_pylist()}
    late = [
        min(each["sent_us"] // minute, made.get(each["cast"], newest)) < newest
        for each in some["sends"].to_pylist()
    ]
    assert row["late"] == sum(late) > 0
    costs = {each["phase"]: each for each in small.measured(small.reader(journal))["costs"]}
    assert row["messages"] == sum(each["messages"] for each in costs.values())
    assert row["messages_cast"] == costs["cast"]["messages"]
    minutes = minutes_of(out)
    assert sum(each["all_messages"] for each in minutes) == row["messages"] - sum(
        each["sent_us"] // minute < newest for each in some["sends"].to_pylist()
    )


@pytest.mark.long
def test_rows_count_once_after_a_kill_and_a_receipt_that_does_not_come_is_open_too_long(
    spark, journal, tmp_path
):
    there = poured(tmp_path / "aside", journal, 1)
    rows = {name: there.gathered(name).to_pylist() for name in STREAMED}
    rows["receipts"] = rows["receipts"][2:]
    Lake(tmp_path / "lake", "trial", "dht").add(rows)
    wishes = wished(tmp_path / "lake", tmp_path / "out", open_s=20.0)
    with pytest.raises(Exception, match="Killed"):
        start(spark, wishes, killed_at(0)).awaitTermination()
    start(spark, wishes).awaitTermination()

    assert len(rows["receipts"]) == 18
    found = totals(tmp_path / "out")
    assert (found["open_too_long"], found["receipts"]) == (2, 18)
    agree(found, journal)
    assert "trial" in (tmp_path / "out" / "index.html").read_text()


def test_a_sketch_is_within_its_error_of_every_rank():
    rng = np.random.default_rng(1)
    for values in (rng.integers(0, 100, 999), rng.lognormal(10, 2, 5000).astype(np.int64), [7]):
        sketch = {}
        add(sketch, np.asarray(values))
        ordered = np.sort(np.maximum(values, 1))
        for share in (0.001, 0.5, 0.9, 0.99, 1.0):
            rank = max(1, int(np.ceil(share * len(ordered))))
            assert percentile(sketch, share) == pytest.approx(ordered[rank - 1], rel=ERROR)
    assert percentile({}, 0.5) is None


def test_the_state_does_not_grow_with_history():
    """A hundred batches of a minute each: what is kept is that of the last few minutes."""
    state, sizes = RunState(), []
    for batch in range(100):
        begun_us = batch * 60_000_000
        rows = [("peers", begun_us, 0, None)] * (batch == 0)
        for cast in range(batch * 50, batch * 50 + 50):
            rows.append(("casts", begun_us, cast % 20, cast))
            rows += [("sends", begun_us + 5, peer, cast) for peer in range(20)]
            rows += [("notices", begun_us + 9 + peer, peer, cast) for peer in range(20)]
        columns = dict(zip(("of", "time_us", "peer", "cast"), zip(*rows, strict=True), strict=True))
        blank = {"run": ["r"] * len(rows), "bytes": [9] * len(rows)}
        blank |= {"phase": ["cast"] * len(rows), "made_us": [None] * len(rows)}
        events = pa.Table.from_pydict({**columns, **blank}, EVENTS)
        folding = Fold(state, 60_000_000, 0)
        folding.add(events)
        folding.close()
        sizes.append(len(msgspec.msgpack.encode(state)))

    assert sizes[99] < 1.1 * sizes[70]
    assert len(state.minutes) <= 4
    assert len(state.casts) <= 200
    assert (state.counts["casts"], state.counts["deliveries"]) == (5000, 100_000)
    assert state.counts["late"] == 0


def _stamp(name):
    return {"sends": "sent_us", "receipts": "settled_us"}.get(name, "time_us")
