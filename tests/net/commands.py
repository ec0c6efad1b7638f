"""Runs the command `implicast` as a user types it."""

import contextlib
import json
import subprocess
import sys
import time

COMMAND = [sys.executable, "-m", "implicast"]
READY_S = 60


def typed(*words, umask=-1, check=True):
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        umask=umask,
        check=check,
    )


@contextlib.contextmanager
def started(*words, umask=-1):
    """A command that runs until the block ends. `process.stderr` is a file."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        umask=umask,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def wait_until_line(stream, text):
    """Read lines up to the first one that contains a text, and return them."""
    lines = []
    while line := stream.readline():
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} is not in {lines}")


def status(folder):
    return json.loads(typed("status", "--dir", folder, "--json").stdout)


def wait_until_joined(folder):
    deadline = time.monotonic() + READY_S
    while True:
        went = typed("status", "--dir", folder, "--json", check=False)
        if went.returncode == 0 and json.loads(went.stdout)["joined"]:
            return
        assert time.monotonic() < deadline, went.stderr
        time.sleep(0.1)
