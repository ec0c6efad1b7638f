"""Seeded schedules of faults over real processes, each in namespaces of its own.

pytest tests/live -m faults --seed 1                    200 schedules
pytest tests/live -m faults --seed 1 --schedules 17     that one again
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NAMESPACES = ["unshare", "-rnmpf", "--kill-child", "--mount-proc"]
TIMEOUT_S = 120.0

works = subprocess.run(
    [*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, check=False
)
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(works.returncode, reason="no namespaces on this machine"),
]


def run(seed, number):
    command = [*NAMESPACES, sys.executable, "schedule.py", str(seed), str(number)]
    went = subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert went.stdout.strip(), f"{' '.join(command)}\n{went.stderr[-3000:]}"
    outcome = json.loads(went.stdout.splitlines()[-1])
    again = f"cd tests/live && {' '.join(command)}"
    assert outcome["broken"] == [], f"{again}\n{json.dumps(outcome, indent=1)}"
    return outcome


@pytest.mark.parametrize("number", [1, 6, 10, 66, 160])
def test_five_schedules_of_faults(number):
    """Killed between commit and confirmation, server killed, disk full, clock jump, strangers, an old copy of a disk,
    a reader of one byte a second, a partition."""
    outcome = run(1, number)

    assert outcome["casts"] > 0


@pytest.mark.long
def test_a_schedule_of_faults(schedule):
    run(*schedule)
