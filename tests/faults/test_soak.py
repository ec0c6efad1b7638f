"""State stays level at a fixed population: one simulated hour of gentle churn, by the command that a
user types. `bench/soak.py` runs six hours.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest

SOAK = Path(__file__).parents[2] / "bench" / "soak.py"


@pytest.mark.parametrize("design", ["dht", "spice-unloaded"])
def test_entries_stay_level_for_an_hour_of_gentle_churn(design):
    command = [sys.executable, str(SOAK), design, "--hours=1", "--peers=16", "--samples"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    samples = [each["entries"] for each in json.loads(done.stdout)]
    third = len(samples) // 3
    assert third >= 4
    middle, last = mean(samples[third : 2 * third]), mean(samples[-third:])
    assert abs(last / middle - 1) < 0.1
