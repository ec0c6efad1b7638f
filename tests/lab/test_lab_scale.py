"""The laboratory at work: interrupted and taken up, on a cluster, at the sizes it is made for. Minutes, not seconds."""

import contextlib
import itertools
import os
import random
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from implicast.lab.experiment import experiment
from implicast.lab.plan import plan
from implicast.lab.run import claim
from implicast.lab.storage import Location
from implicast.world.journal import SCHEMAS
from implicast.world.simulate import simulate

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1800)]

LAB = [sys.executable, "-m", "implicast.cli", "lab"]
QUICK = """
title = "Quick"
about = "Short runs for trials of the sweep."
source = "nowhere"
designs = ["centralised", "broker"]
[axis]
of = "peers"
[scenario]
network = "national"
casts = 64
[small]
values = [256, 512]
runs = 8
[paper]
values = [256]
"""


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    path = tmp_path / "quick.toml"
    path.write_text(QUICK)
    return path


def tables_of(out: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every result of an experiment but the seconds it took."""
    names = ("measures", "contract", "costs", "lorenz", "summary")
    return {
        name: sorted(tuple(row.values()) for row in pq.read_table(out / name).to_pylist())
        for name in names
    }


def finished(out: Path) -> dict[str, int]:
    """The outcomes that are there, with the moment of each."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "outcomes").rglob("[!.]*.json")}


def journals_of(out: Path) -> dict[str, bytes]:
    names = ("sends", "notices", "casts", "registrations", "peers", "links", "paths")
    return {
        str(path.relative_to(out)): path.read_bytes()
        for name in names
        for path in (out / name).rglob("*.parquet")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "quick.toml").write_text(QUICK)
    subprocess.run(
        [*LAB, "run", str(folder / "quick.toml"), "--out", str(folder / "out")],
        check=True,
        timeout=900,
    )
    return folder / "out"


def test_a_sweep_costs_little_more_than_its_runs(tmp_path: Path) -> None:
    """In processor time, so that other work on the machine does not matter: at most half as much again."""
    from implicast.lab.session import session
    from implicast.lab.sweep import sweep

    planned = sorted(plan(experiment("peers"), "small"), key=lambda each: (each.seed, each.run))[
        :32
    ]
    begun = time.process_time()
    for each in planned:
        simulate(each.scenario())
    bare = time.process_time() - begun

    spark = session("local[2]", brief=True)
    try:
        made = experiment("peers")
        warm, out = (
            claim(Location.of(tmp_path / name), made, "small", None) for name in ("warm", "out")
        )
        sweep(spark, planned[:2], warm)  # starting workers belongs to starting the session
        began = processor_s()
        went = sweep(spark, planned, out)
        spent = processor_s() - began
    finally:
        spark.stop()

    assert went.finished == 32
    print(f"bare {bare:.1f} s, sweep {spent:.1f} s of processor time")
    assert spent <= 1.5 * bare


def processor_s() -> float:
    """Processor time of this process and all below it."""
    everyone = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(each.cpu_times()[:4]) for each in everyone if each.is_running())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master and two workers of the installed pyspark, on loopback, with ports of their own."""
    import pyspark

    home = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    run_class = [str(home / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    started = [
        subprocess.Popen(
            [*run_class, f"{deploy}.master.Master", *master], env=env, stderr=subprocess.DEVNULL
        )
    ]
    try:
        await_port(port)
        for _ in range(2):
            worker = [
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                str(free_port()),
                url,
            ]
            started.append(
                subprocess.Popen(
                    [*run_class, f"{deploy}.worker.Worker", *worker],
                    env=env,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int) -> None:
    for _ in range(1800):
        with socket.socket() as knock:
            if knock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"nothing listens on port {port}")


CONF = [
    "--conf",
    "spark.driver.host=127.0.0.1",
    "--conf",
    "spark.driver.bindAddress=127.0.0.1",
    "--conf",
    "spark.executor.memory=800m",
]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    """A Spark Connect server on loopback, as `start-connect-server.sh` starts it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port = free_port()
    words = [
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--name",
        "connect",
    ]
    words += [
        "--master",
        "local[2]",
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "--conf",
        "spark.ui.enabled=false",
    ]
    words += [
        "--conf",
        "spark.driver.host=127.0.0.1",
        "--conf",
        "spark.driver.bindAddress=127.0.0.1",
        "spark-internal",
    ]
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    server = subprocess.Popen(
        [str(home / "bin" / "spark-submit"), *words], env=env, stderr=subprocess.DEVNULL
    )
    try:
        await_port(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def test_local_standalone_submitted_and_connected_sweeps_are_equal_to_the_last_byte(
    cluster: str, connect: str, quick: Path, tmp_path: Path
) -> None:
    import pyspark

    quick.write_text(QUICK.replace("runs = 8", "runs = 1"))
    submit = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--master",
        cluster,
        *CONF,
    ]
    entry = subprocess.run(
        [*LAB, "entry"], check=True, capture_output=True, text=True
    ).stdout.strip()
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ways = {
        "local": [*LAB, "run", str(quick), "--master", "local[2]"],
        "standalone": [*LAB, "run", str(quick), "--master", cluster, *CONF],
        "connect": [*LAB, "run", str(quick), "--master", connect],
        "submit": [*submit, entry, "run", str(quick)],
    }
    for name, words in ways.items():
        subprocess.run([*words, "--out", str(tmp_path / name)], check=True, timeout=900, env=env)

    for name in list(ways)[1:]:
        assert tables_of(tmp_path / name) == tables_of(tmp_path / "local"), name
        assert journals_of(tmp_path / name) == journals_of(tmp_path / "local"), name


def test_under_spark_submit_master_and_memory_are_the_submitters(tmp_path: Path) -> None:
    import pyspark

    script = tmp_path / "asks.py"
    script.write_text(
        "from implicast.lab.session import session\n"
        "spark = session()\n"
        "print([spark.conf.get(name) for name in ('spark.master', 'spark.driver.memory', 'spark.sql.session.timeZone',"
        " 'spark.sql.shuffle.partitions')])\n"
    )
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    submit += [
        "--driver-memory",
        "777m",
        "--conf",
        "spark.sql.shuffle.partitions=5",
        "--conf",
        "spark.ui.enabled=false",
    ]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    said = subprocess.run(
        [*submit, str(script)], check=True, timeout=300, env=env, capture_output=True, text=True
    )

    assert "['local[1]', '777m', 'UTC', '5']" in said.stdout


def test_killed_at_random_moments_nothing_is_lost_repeated_or_relabelled(
    quick: Path, whole: Path, tmp_path: Path
) -> None:
    """Driver or Java process seven times, each sweep taken up by the next; then three Python workers of the last."""
    cut, rng = tmp_path / "cut", random.Random(1)
    words = [*LAB, "run", str(quick), "--out", str(cut)]
    seen: dict[str, int] = {}
    for turn in range(7):
        seen = _killed(words, cut, rng, ("driver", "java")[turn % 2], seen)
    assert len(seen) < 32, "there must be runs left for workers to die in"
    before = _workers_killed(words, cut, rng, seen)

    again = subprocess.run(words, check=True, timeout=900, stderr=subprocess.PIPE, text=True)

    assert (
        f"{32 - len(before)} runs made, {len(before)} were there before, 0 failed" in again.stderr
    )
    after = finished(cut)
    assert {name: after[name] for name in before} == before, "finished runs are not made again"
    assert tables_of(cut) == tables_of(whole)
    assert journals_of(cut) == journals_of(whole)
    assert not list((cut / "_scratch").glob("*"))


def _begun(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def _await(
    sweep: subprocess.Popen[bytes], out: Path, runs: int, words: str
) -> list[psutil.Process]:
    """So many runs are there, and processes below the sweep with these words on their line: those processes."""
    while sweep.poll() is None:
        there = _below(psutil.Process(sweep.pid), words)
        if there and len(finished(out)) >= runs:
            return there
        time.sleep(0.02)
    return []


def _below(process: psutil.Process, words: str) -> list[psutil.Process]:
    found = []
    for each in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it may end while one looks
            if words in " ".join(each.cmdline()):
                found.append(each)
    return found


def _killed(
    words: list[str], out: Path, rng: random.Random, who: str, seen: dict[str, int]
) -> dict[str, int]:
    """Start a sweep, kill its driver or Java process a few runs later; what is finished then."""
    sweep = _begun(words)
    java = _await(sweep, out, len(seen) + rng.randint(0, 2), "org.apache.spark.deploy.SparkSubmit")
    time.sleep(rng.uniform(0, 0.3))
    below = psutil.Process(sweep.pid).children(recursive=True)
    for victim in java if who == "java" else [psutil.Process(sweep.pid)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
    if who == "java":
        assert sweep.wait(120) != 0, "it says what happened, and ends by itself"
    time.sleep(1)
    for each in below:  # of the driver's death its children learn at their own pace
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    sweep.wait(120)
    found = finished(out)
    print(f"{who} killed: {len(seen)} runs before, {len(found)} after")
    assert {name: found[name] for name in seen} == seen, f"after killing the {who}"
    return found


def _workers_killed(
    words: list[str], out: Path, rng: random.Random, seen: dict[str, int]
) -> dict[str, int]:
    """One sweep in which three Python workers die; what is finished at its end."""
    sweep = _begun(words)
    for _ in range(3):
        workers = _await(sweep, out, len(finished(out)) + rng.randint(0, 1), "pyspark.daemon")
        if len(workers) > 1:  # the first is the one that makes the others
            workers[-1].kill()
            print("worker killed")
    assert sweep.wait(600) in (0, 1)
    found = finished(out)
    assert {name: found[name] for name in seen} == seen, "after killing workers"
    return found


def test_an_executor_and_a_worker_of_a_cluster_are_killed_and_nothing_is_lost(
    cluster: str, quick: Path, whole: Path, tmp_path: Path
) -> None:
    out, env = tmp_path / "out", {**os.environ, "PYSPARK_PYTHON": sys.executable}
    sweep = subprocess.Popen(
        [*LAB, "run", str(quick), "--master", cluster, *CONF, "--out", str(out)], env=env
    )
    for runs, who in ((3, "CoarseGrainedExecutorBackend"), (8, "deploy.worker.Worker")):
        while len(finished(out)) < runs:
            assert sweep.poll() is None, "it was over before anything could be killed"
            time.sleep(0.05)
        _below(psutil.Process(), who)[-1].kill()

    assert sweep.wait(600) == 0
    assert tables_of(out) == tables_of(whole)
    assert journals_of(out) == journals_of(whole)


def test_of_two_sweeps_at_once_one_waits_and_finds_everything_done(
    quick: Path, tmp_path: Path
) -> None:
    words = [*LAB, "run", str(quick), "--out", str(tmp_path / "out")]
    both = [
        subprocess.Popen([*words, "--wait"], stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    while not (tmp_path / "out" / "_lock.json").exists():
        assert both[0].poll() is None
        time.sleep(0.1)

    refused = subprocess.run(words, capture_output=True, text=True, timeout=300)
    said = sorted(
        [each.communicate(timeout=900)[1] for each in both], key=lambda text: "waiting for" in text
    )

    assert refused.returncode == 2
    assert "is being worked on by" in refused.stderr
    assert [each.returncode for each in both] == [0, 0]
    assert "32 runs made, 0 were there before, 0 failed" in said[0]
    assert "waiting for" in said[1]
    assert "0 runs made, 32 were there before, 0 failed" in said[1]


def test_a_full_disk_is_told_and_the_sweep_is_taken_up_when_there_is_room(
    quick: Path, whole: Path, tmp_path: Path
) -> None:
    """A file system of half the size that is needed, where that can be made."""
    small = tmp_path / "small"
    small.mkdir()
    half = sum(path.stat().st_blocks * 512 for path in whole.rglob("*")) // 2
    mount = ["mount", "-t", "tmpfs", "-o", f"size={half}", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        words = [*LAB, "run", str(quick), "--out", str(small / "out")]
        full = subprocess.run(words, capture_output=True, text=True, timeout=900)
        before = finished(small / "out")
        print(f"{half} bytes, {len(before)} runs: {full.stderr}")
        subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)

        subprocess.run(words, check=True, timeout=900)

        assert full.returncode == 1
        assert "Traceback" not in full.stderr
        assert "no space" in full.stderr.lower()
        assert 0 < len(before) < 32
        after = finished(small / "out")
        assert {name: after[name] for name in before} == before
        assert tables_of(small / "out") == tables_of(whole)
        assert journals_of(small / "out") == journals_of(whole)
    finally:
        subprocess.run(["umount", str(small)], check=False)


def test_what_is_packed_runs_elsewhere(tmp_path: Path) -> None:
    subprocess.run(
        [*LAB, "pack", "--out", str(tmp_path / "packed.tar.gz")], check=True, timeout=900
    )
    with tarfile.open(tmp_path / "packed.tar.gz") as archive:
        assert not any("pyspark/jars" in each for each in archive.getnames())
        archive.extractall(tmp_path / "env", filter="fully_trusted")

    code = "import implicast.lab.task, pyspark, sys; print(implicast.__file__, sys.prefix)"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run(
        [tmp_path / "env" / "bin" / "python", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )

    assert said.stdout.count(str(tmp_path / "env")) == 2, said.stdout


def test_a_million_peers_and_ten_thousand_casts_are_drawn_and_resolved(tmp_path: Path) -> None:
    words = [
        "workload",
        "zipf",
        "--peers",
        "1000000",
        "--casts",
        "10000",
        "--groups",
        "--out",
        str(tmp_path / "big"),
    ]
    begun = time.monotonic()
    subprocess.run([*LAB, *words], check=True, timeout=1800)
    print(f"{time.monotonic() - begun:.0f} s for workload, groups and description together")

    found = pq.read_table(tmp_path / "big" / "groups", columns=["cast", "block", "size"])
    assert len(set(found["block"].to_pylist())) == 16
    assert 100_000_000 < sum(found["size"].to_pylist()) < 300_000_000


def test_ten_million_rows_are_measured(tmp_path: Path) -> None:
    """A journal as a server would leave it: 5 million messages and as many notifications."""
    journal = tmp_path / "run=ten"
    write_large_journal(journal, peers=4096, casts=1024, messages=5_000_000)
    begun = time.monotonic()
    subprocess.run(
        [*LAB, "measure", str(journal), "--out", str(tmp_path / "out")], check=True, timeout=1800
    )
    print(f"{time.monotonic() - begun:.0f} s")

    row = pq.read_table(tmp_path / "out" / "measures").to_pylist()[0]
    assert row["TOUT_M"] == 5_000_000
    contract = pq.read_table(tmp_path / "out" / "contract").to_pylist()[0]
    assert contract["notified"] == 5_000_000


CHUNK = 5_000_000
"""Messages that are written at once."""


def write_large_journal(directory: Path, peers: int, casts: int, messages: int) -> None:
    """One server, a hundred routers in a row of six links between any two, casts to everybody, receivers at random."""
    directory.mkdir(parents=True)
    rng = np.random.default_rng(1)
    times_us = np.arange(casts) * 1_000_000 + 10_000_000
    cuts = np.linspace(0, casts, -(-messages // CHUNK) + 1).round().astype(int)
    with (
        pq.ParquetWriter(directory / "sends.parquet", SCHEMAS["sends"]) as sends,
        pq.ParquetWriter(directory / "notices.parquet", SCHEMAS["notices"]) as notices,
    ):
        for turn, (first, last) in enumerate(itertools.pairwise(cuts.tolist())):
            serial = np.arange(turn * CHUNK, min(messages, (turn + 1) * CHUNK))
            count = len(serial)
            cast, receiver = (
                np.sort(rng.integers(first, last, count)),
                rng.integers(0, peers, count),
            )
            kind, phase = (
                pa.DictionaryArray.from_arrays(np.zeros(count, np.int16), [of])
                for of in ("Notify", "cast")
            )
            two = np.full(count, 2)
            sends.write_table(
                columns(
                    "sends",
                    serial,
                    serial,
                    serial,
                    serial + 5000,
                    np.full(count, peers),
                    receiver,
                    kind,
                    phase,
                    cast,
                    two,
                    np.full(count, 90),
                )
            )
            told_us = times_us[cast] + receiver
            notices.write_table(
                columns("notices", serial, told_us, receiver, cast, two, np.zeros(count, bool))
            )
    everyone = np.arange(peers + 1)
    write(
        directory,
        "casts",
        np.arange(casts),
        np.zeros(casts),
        times_us,
        ["jazz"] * casts,
        *[pa.nulls(casts, pa.int64())] * 2,
        np.zeros(casts, bool),
        *[pa.nulls(casts, pa.int64())] * 4,
    )
    begun = np.zeros(peers)
    tags, values = [["jazz", "go"]] * peers, [[]] * peers
    write(
        directory,
        "registrations",
        everyone[:-1],
        begun + 1,
        begun,
        begun + 1,
        begun.astype(bool),
        tags,
        values,
    )
    roles = ["peer"] * (peers + 1)
    write(
        directory, "peers", everyone, roles, everyone % 100, everyone, everyone, np.ones(peers + 1)
    )
    write(directory, "links", *[np.arange(100)] * 4)
    pair, position = np.divmod(np.arange(60_000), 6)
    write(directory, "paths", pair // 100, pair % 100, position, np.arange(60_000) % 100)


def write(directory: Path, name: str, *given: Any) -> None:
    """One table of a journal, its columns in order."""
    pq.write_table(columns(name, *given), directory / f"{name}.parquet")


def columns(name: str, *given: Any) -> pa.Table:
    kinds = [field.type for field in SCHEMAS[name]]
    arrays = [
        pa.array(each, kind) if isinstance(each, list) else pa.array(each).cast(kind)
        for each, kind in zip(given, kinds, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMAS[name])


def test_the_peers_experiment_runs_clean_at_small_scale(tmp_path: Path) -> None:
    subprocess.run([*LAB, "run", "peers", "--out", str(tmp_path / "out")], check=True, timeout=3600)

    assert len(pq.read_table(tmp_path / "out" / "contract")) == len(
        plan(experiment("peers"), "small")
    )
    assert "Kept in all" in (tmp_path / "out" / "report.html").read_text("utf-8")
