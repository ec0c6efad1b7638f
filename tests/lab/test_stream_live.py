"""Ten minutes of a live network into a lake by two gatherers, and a stream of it, killed ten times.

The rows are those of one gatherer that nothing interrupts, and the stream's totals those of the batch.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from random import Random

import pyarrow.parquet as pq
import pytest
from lake_rows import named_rows

from implicast.lab.lake import Lake
from implicast.lab.stream.sketch import ERROR
from implicast.net.commands import control
from implicast.net.commands.live_check import draw
from implicast.net.commands.local import sample_members, wait_for

NODES = 50
KILLS = 10
SECONDS = float(os.environ.get("IMPLICAST_STREAM_S", "600"))


def started(directory, name, *words):
    log = (directory / f"{name}.log").open("ab")
    return subprocess.Popen(
        [sys.executable, "-m", "implicast", *map(str, words)],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def killed(process):
    """With all that it started, the Java process of Spark too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stopped(process, number=signal.SIGTERM):
    process.send_signal(number)
    process.wait(180)


def run(*words):
    words = [sys.executable, "-m", "implicast", *map(str, words)]
    went = subprocess.run(words, capture_output=True, text=True, check=False)
    assert went.returncode == 0, went.stderr
    return went.stdout


def rows_of(lake, run):
    """Rows with names in place of numbers, and how many files hold them."""
    files = {name: len(each.files()) for name, each in Lake(lake, run, "dht").tables.items()}
    return named_rows(lake, run), files


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_live_network_with_two_gatherers_and_a_stream_that_are_killed_ten_times(tmp_path):
    net, lake, out = tmp_path / "net", tmp_path / "lake", tmp_path / "out"
    people = sample_members(NODES)
    words = ("local", NODES, "--design", "dht", "--in-process", "--journal", "--dir", net)
    network = started(tmp_path, "net", *words)
    gather = ("journal", net, "--to", lake, "--follow", "--run", "ten", "--every", 1)
    commands = {
        "one": gather,
        "two": gather,
        "stream": ("lab", "stream", lake, "--out", out, "--every", 10),
    }
    running = {}
    try:
        while not (net / people[-1].name / "control.sock").exists():
            time.sleep(0.5)
        wait_for([net / each.name for each in people], lambda status: bool(status["registered"]))
        running = {name: started(tmp_path, name, *words) for name, words in commands.items()}
        chance, begun, kills = Random(1), time.monotonic(), 0
        due = sorted(chance.uniform(0.05, 0.95) * SECONDS for _ in range(KILLS))
        casts = iter(draw(people, int(4 * SECONDS), 1))
        made = 0
        while time.monotonic() - begun < SECONDS:
            if kills < KILLS and time.monotonic() - begun > due[kills]:
                name = chance.choice(sorted(running))
                killed(running[name])
                running[name] = started(tmp_path, name, *commands[name])
                kills += 1
            each = next(casts)
            list(
                control.ask(
                    net / each.publisher,
                    {"do": "cast", "target": each.target, "payload": "", "wait": 5},
                )
            )
            made += 1
            time.sleep(chance.uniform(0.4, 0.9))
        stopped(network)
        for name in ("one", "two"):
            stopped(running.pop(name))
    finally:
        for process in filter(None, (network, *running.values())):
            killed(process)
    assert kills == KILLS
    run("journal", net, "--to", lake, "--run", "ten")
    run("lab", "stream", lake, "--out", out, "--once")
    alone = tmp_path / "alone"
    run("journal", net, "--to", alone, "--run", "ten")

    found, before = rows_of(lake, "ten")
    expected, _ = rows_of(alone, "ten")
    counts = {name: len(rows) for name, rows in expected.items()}
    assert {name: len(rows) for name, rows in found.items()} == counts
    assert found == expected
    run("lab", "compact", lake)
    again, after = rows_of(lake, "ten")
    assert again == found
    print(json.dumps({"rows": counts, "files": before, "after compaction": after}))

    (total,) = pq.read_table(out / "totals").to_pylist()
    measured = json.loads(run("lab", "measure", lake, "--json"))["ten"]
    costs = {row["phase"]: row for row in pq.read_table(f"{lake}-measures/costs").to_pylist()}
    print(json.dumps({"stream": total, "batch": measured, "casts": made}, indent=1))
    same = {**measured["measures"], "notified": measured["contract"]["notified"]}
    names = total.keys() & same.keys()
    assert {"TOUT_G", "RTH", "latency_ms_p99", "notified"} <= names
    assert total["late"] == 0
    for name in names:
        about = ERROR if name in ("latency_ms_median", "latency_ms_p99") else 1e-9
        assert total[name] == pytest.approx(same[name], rel=about), name
    assert total["messages"] == sum(row["messages"] for row in costs.values())
    assert total["bytes_cast"] == costs["cast"]["bytes"]
    assert total["casts"] == made
    broken = ("missing", "repeated", "altered")
    assert not any(measured["contract"][name] for name in broken)
    minutes = [*pq.read_table(out / "minutes_open").to_pylist()]
    if (out / "minutes").exists():
        minutes += pq.read_table(out / "minutes").to_pylist()
    assert sum(row["deliveries"] for row in minutes) == total["notified"] > made
    assert len({row["minute_us"] for row in minutes}) == len(minutes) >= SECONDS // 60
