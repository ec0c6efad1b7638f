"""What Spark says when it fails, as one sentence for people; the trace goes to a log file.

A trace of Spark's is a hundred lines of two languages, of which one says what happened.
"""

import re
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from implicast.lab.errors import SparkFailed
from implicast.peer.errors import ImplicastError

_JAR = "docs/how-to/run-on-a-cluster.md says which jar to bring"
KNOWN = (
    (r"No FileSystem for scheme \"?(\w+)", f"Spark has no file system for {{0}}://; {_JAR}"),
    (r"ClassNotFoundException: Class (org\.apache\.hadoop\.fs\.\S+)", f"Spark lacks {{0}}; {_JAR}"),
    (
        r"OutOfMemoryError",
        "Spark's Java process ran out of memory; give it more with --conf spark.driver.memory=6g",
    ),
    (r"No space left on device", "no space is left on a disk"),
    (
        r"ModuleNotFoundError: No module named '([\w.]+)'",
        "workers lack the Python module {0}; `implicast lab pack` makes an archive of all they need",
    ),
    (
        r"PYTHON_VERSION_MISMATCH.*?(\d+\.\d+).*?(\d+\.\d+)",
        "workers have Python {0}, not {1}; set PYSPARK_PYTHON",
    ),
    (
        r"SparkContext was shut down|Job \d+ cancelled because SparkContext",
        "Spark was shut down in the middle",
    ),
    (r"Connection refused|All masters are unresponsive|UNAVAILABLE", "the cluster does not answer"),
    (r"Py4JNetworkError|Answer from Java side is empty", "Spark's Java process is gone"),
)
"""What is met most, and what to do about it."""
LOG = "implicast-lab-{}.log"


@contextmanager
def plainly() -> Iterator[None]:
    """Errors that are not ours become a `SparkFailed` with one sentence; ours pass."""
    try:
        yield
    except (ImplicastError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except Exception as failed:
        raise SparkFailed(f"{sentence(failed)} ({_log(failed)})") from failed


def sentence(failed: BaseException) -> str:
    """What happened, in one line."""
    text = f"{type(failed).__name__}: {failed}"
    for pattern, says in KNOWN:
        found = re.search(pattern, text, re.DOTALL)
        if found:
            return says.format(*found.groups())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [
        line
        for line in lines
        if re.search(r"(Error|Exception|\[[A-Z_.]+\])", line) and "Traceback" not in line
    ]
    return _short((telling or lines)[-1 if "Traceback" in text else 0])


def _short(line: str) -> str:
    line = re.sub(r"^(?:[\w.$]+(?:Error|Exception): )+", "", line) or line
    return line if len(line) < 240 else f"{line[:240]}..."


def _log(failed: BaseException) -> str:
    """Where the trace is, in words: a full disk may have no room for it."""
    path = Path(tempfile.gettempdir()) / LOG.format(time.strftime("%Y%m%d-%H%M%S"))
    try:
        path.write_text("".join(traceback.format_exception(failed)), "utf-8")
    except OSError as full:
        return f"the trace could not be written to {path}: {full.strerror}"
    return f"the trace is in {path}"
