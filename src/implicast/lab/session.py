"""The one place that makes a Spark session, or takes the one that is there.

The submitter decides: under `spark-submit`, in a notebook with a session, or with a
`spark-defaults.conf`, master, memory and settings are theirs, and only what results depend on (UTC,
Arrow) is added where they said nothing of it. Otherwise Spark is embedded: `local[*]`, quiet, no
web page, nothing fetched from any network. Any cluster by one option: `--master spark://host:7077`,
`yarn`, `k8s://...`, or a Spark Connect server as `sc://host:15002`. Whatever is missing (Java,
pyspark, a server) is said before any work starts.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from pyspark.sql import SparkSession

from implicast.lab.error_messages import sentence
from implicast.lab.errors import NoSpark
from implicast.lab.storage import Location

JAVA_MIN = 17
"""Spark 4 needs it."""

DRIVER_MEMORY = "3g"
"""Enough for ten million journal rows on two cores; Spark's own default of 1g spills early."""

PARTITIONS_PER_CORE = 3
"""Shuffle partitions per core: uneven ones even out, and small jobs are not cut to dust."""


BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=160m -XX:+UseSerialGC"
"""For sessions of minutes: the Java process compiles quickly instead of well. Measures of 48 small
runs took 38 s of processor time instead of 67 s, those of 30 million rows, which Python's workers
read, 8.5 instead of 13.4. The many small pieces of code that measures become need room, or
compiling stops.
"""

KEPT = {"MMAP": 1 << 30, "TRIM": 1 << 32}
"""Workers make and drop arrays of some megabytes all the time. The C library keeps their memory up
to these bounds (in bytes), instead of giving it back to the kernel, which clears every page that it
hands out again.
"""


SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit` for the Python that it starts: the Java process is there, with the
submitter's settings.
"""
REMOTE = "SPARK_REMOTE"
"""The address of a Spark Connect server, as pyspark itself reads it."""

NEEDED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A sweep has a directory per run: listing them is quicker here than as a job of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
"""Set on every session unless its owner set it."""


def session(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    app: str = "implicast",
    brief: bool = False,
) -> SparkSession:
    """A session made ready for the laboratory: the submitter's, the one that is active, or a new
    one.

    `conf` overrides every setting made here; `brief` says that the session will have little to do.
    """
    given = dict(conf or {})
    if master is None and (owned() or SparkSession.getActiveSession() is not None):
        return _taken(given)
    master = master or os.environ.get(REMOTE) or _defaults().get("spark.master") or "local[*]"
    if master.startswith("sc://"):
        return _fitted(_connected(master, given), given)
    require_java()
    os.environ.setdefault(
        "PYSPARK_PYTHON", sys.executable
    )  # workers run what we run, unless told otherwise
    settings = {k: v for k, v in _settings(master, brief).items() if k not in _defaults()} | given
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return _fitted(_start(builder, master), given)


def owned() -> bool:
    """Are we in a process that `spark-submit` started? Then master, memory and settings are the
    submitter's.
    """
    return SUBMITTED in os.environ


def _taken(given: Mapping[str, str]) -> SparkSession:
    """The submitter's session, with what the call asks for, and what results depend on where no one else
    spoke of it.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in given.items():
        builder = builder.config(name, value)
    return _fitted(builder.getOrCreate(), given)


def _fitted(spark: SparkSession, given: Mapping[str, str]) -> SparkSession:
    said = set(given) | set(_said(spark))
    for name, value in NEEDED.items():
        if name not in said and spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    if "spark.sql.shuffle.partitions" not in said:
        fit_partitions(spark)
    return spark


def _said(spark: SparkSession) -> list[str]:
    """The settings that were made before the session was there."""
    try:
        return [name for name, _ in spark.sparkContext.getConf().getAll()]
    except Exception:  # a Connect session has no SparkContext and says so in its own words
        return []


def _defaults() -> dict[str, str]:
    """The settings of `spark-defaults.conf`, where an administrator put one."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(
        os.environ.get("SPARK_HOME", ""), "conf"
    )
    path = Path(folder) / "spark-defaults.conf"
    if not path.is_file():
        return {}
    lines = (line.strip() for line in path.read_text().splitlines())
    pairs = (
        re.split(r"[\s=]+", line, maxsplit=1) for line in lines if line and not line.startswith("#")
    )
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def cores(spark: SparkSession) -> int:
    """How many tasks can run at once, as far as the session can tell; the local count for a Connect
    server.
    """
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except Exception:  # a Connect session has no SparkContext and says so in its own words
        return os.cpu_count() or 1


def fit_partitions(spark: SparkSession) -> None:
    """Shuffle partitions to fit the cores, instead of 200 whatever the machine."""
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS_PER_CORE * cores(spark)))


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """What runs meanwhile has this name on Spark's pages and in its event log."""
    try:
        context = spark.sparkContext
    except Exception:  # over Connect, tags are all there is, and they may hold no blanks
        yield
        return
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setJobDescription("implicast")


def require_connector(spark: SparkSession, place: Location) -> None:
    """`NoSpark` unless Spark itself can reach the place: a stream keeps its checkpoint there."""
    if place.local is not None:
        return
    try:
        spark.read.format("binaryFile").load(place.for_spark).schema  # noqa: B018
    except Exception as refused:
        if "PATH_NOT_FOUND" not in str(refused):
            raise NoSpark(
                f"Spark cannot reach {place}, where the stream's checkpoint would be "
                f"({sentence(refused)}); name a folder on this machine with --out"
            ) from None


def require_java() -> None:
    """`NoSpark` with what to do, unless a Java that Spark can use is found."""
    java = _java()
    if java is None:
        raise NoSpark(
            f"Spark needs Java {JAVA_MIN} or later and none was found: install one (Debian: apt-get install "
            f"openjdk-17-jre-headless) or set JAVA_HOME"
        )
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if found is None or int(found[1]) < JAVA_MIN:
        what = f"version {found[1]}" if found else "of unknown version"
        raise NoSpark(
            f"Spark needs Java {JAVA_MIN} or later; {java} is {what}: install a newer one or set JAVA_HOME"
        )


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        return str(path) if path.is_file() else None
    return shutil.which("java")


def _settings(master: str, brief: bool) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": DRIVER_MEMORY,
        **NEEDED,
        "spark.sql.parquet.compression.codec": "zstd",
        # Stages are cut by Parquet that we write aside and rename: no second, slower protection is
        # needed.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.parquet.enable.summary-metadata": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_settings()}"
        + f" {BRIEF}" * brief,
    }
    if brief:
        settings |= {
            f"spark.executorEnv.MALLOC_{what}_THRESHOLD_": str(limit)
            for what, limit in KEPT.items()
        }
    if master.startswith("local"):
        # Without a network, or with a host name that resolves nowhere, embedded Spark must start
        # all the same.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings["spark.local.dir"] = tempfile.gettempdir()
    return settings


def _log_settings() -> str:
    return str(files("implicast.lab") / "log4j2.properties")


def _connected(url: str, conf: Mapping[str, str]) -> SparkSession:
    try:
        builder = SparkSession.builder.remote(url)
        for name, value in conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except ImportError as missing:
        raise NoSpark(
            f"Spark Connect needs a package that is not installed ({missing}); try pip install 'pyspark[connect]'"
        ) from None
    except Exception as refused:
        raise NoSpark(f"no Spark Connect server answers at {url}: {_first_line(refused)}") from None


def _start(builder: "SparkSession.Builder", master: str) -> SparkSession:
    with _quietly() as log:
        try:
            return builder.getOrCreate()
        except Exception as refused:
            said = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise NoSpark(
                f"no Spark session on {master}: {_first_line(refused)} {' '.join(said)}".strip()
            ) from None


@contextmanager
def _quietly() -> Iterator[Path]:
    """The Java process inherits standard error as it is now: a file, so that its banners and
    warnings are not shown.
    """
    with tempfile.NamedTemporaryFile(prefix="implicast-spark-", suffix=".log", delete=False) as log:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield Path(log.name)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.unlink(log.name)  # the Java process keeps it open; it vanishes with that process


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
