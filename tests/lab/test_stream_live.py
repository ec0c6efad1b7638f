"""Ten minutes of a live network into a stream that is killed twice: its totals are those of the batch, exactly."""

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

from implicast.net.commands import control
from implicast.net.commands.live_check import draw
from implicast.net.commands.local import sample_members, wait_for

NODES = 50
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


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_live_network_into_a_stream_that_is_killed_twice(tmp_path):
    net, lake, out = tmp_path / "net", tmp_path / "lake", tmp_path / "out"
    people = sample_members(NODES)
    words = ("local", NODES, "--design", "dht", "--in-process", "--journal", "--dir", net)
    network = started(tmp_path, "net", *words)
    others, stream = [], None
    try:
        while not (net / people[-1].name / "control.sock").exists():
            time.sleep(0.5)
        wait_for([net / each.name for each in people], lambda status: bool(status["registered"]))
        others.append(
            started(tmp_path, "gather", "journal", net, "--to", lake, "--follow", "--run", "ten")
        )
        stream = started(tmp_path, "stream", "lab", "stream", lake, "--out", out, "--every", 10)
        chance, begun, kills = Random(1), time.monotonic(), [SECONDS / 3, 2 * SECONDS / 3]
        casts = iter(draw(people, int(4 * SECONDS), 1))
        made = 0
        while time.monotonic() - begun < SECONDS:
            if kills and time.monotonic() - begun > kills[0]:
                kills.pop(0)
                killed(stream)
                stream = started(
                    tmp_path, "stream", "lab", "stream", lake, "--out", out, "--every", 10
                )
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
        stopped(others.pop())
        killed(stream)
    finally:
        for process in filter(None, (network, stream, *others)):
            killed(process)
    run("lab", "stream", lake, "--out", out, "--once")

    (total,) = pq.read_table(out / "totals").to_pylist()
    found = json.loads(run("lab", "measure", lake, "--json"))["ten"]
    costs = {row["phase"]: row for row in pq.read_table(f"{lake}-measures/costs").to_pylist()}
    print(json.dumps({"stream": total, "batch": found, "casts": made}, indent=1))
    same = {**found["measures"], "notified": found["contract"]["notified"]}
    names = total.keys() & same.keys()
    assert {"TOUT_G", "RTH", "latency_ms_p99", "notified"} <= names
    assert {name: total[name] for name in names} == {name: same[name] for name in names}
    assert total["messages"] == sum(row["messages"] for row in costs.values())
    assert total["bytes_cast"] == costs["cast"]["bytes"]
    assert total["casts"] == made
    assert (
        found["contract"]["missing"]
        == found["contract"]["repeated"]
        == found["contract"]["altered"]
        == 0
    )
    minutes = pq.read_table(out / "minutes").to_pylist()
    assert sum(row["deliveries"] for row in minutes) == total["notified"] > made
    assert len(minutes) >= SECONDS // 60
