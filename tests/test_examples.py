"""The examples run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("own_design.py", (), "contract kept: True"),
        ("compare.py", ("--peers", "24", "--casts", "6"), "centralised"),
    ],
)
def test_an_example_runs(name, words, says):
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name, *words], capture_output=True, text=True, timeout=300
    )

    assert ran.returncode == 0, ran.stderr
    assert says in ran.stdout
    assert "BROKEN" not in ran.stdout
