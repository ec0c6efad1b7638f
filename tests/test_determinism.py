"""Same scenario, same journal, byte for byte: twice in one process, and under different hash seeds in others."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from implicast.casting.designs import designs
from implicast.world.faults import Faults
from implicast.world.scenario import Scenario
from implicast.world.simulate import simulate

FAULTS = "loss=0.02,duplicate=0.02,reorder=0.2,jitter=0.5,delay=0.02"
TAGS = [name for name, design in designs().items() if "tags" in design.languages]

EVERY_DESIGN = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_determinism import TAGS, journal_digest
print(json.dumps({name: journal_digest(name, Path(sys.argv[2]) / name) for name in TAGS}))
"""


def scenario(name: str) -> Scenario:
    faults = Faults.parse(FAULTS)
    return Scenario(
        name,
        peers=48,
        casts=24,
        seed=3,
        network="national",
        interval_ms=200,
        changes=12,
        faults=faults,
    )


def journal_digest(name: str, directory: Path) -> str:
    """One digest over the names and bytes of all files of a run's journal."""
    simulate(scenario(name), directory)
    found = hashlib.sha256()
    for path in sorted(directory.iterdir()):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


@pytest.mark.parametrize("name", TAGS)
def test_twice_the_same(name, tmp_path):
    assert journal_digest(name, tmp_path / "a") == journal_digest(name, tmp_path / "b")


def test_the_same_under_any_hash_seed(tmp_path):
    digests = []
    for hash_seed in ("1", "2"):
        command = [
            sys.executable,
            "-c",
            EVERY_DESIGN,
            str(Path(__file__).parent),
            str(tmp_path / hash_seed),
        ]
        (tmp_path / hash_seed).mkdir()
        ran = subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        digests.append(json.loads(ran.stdout))

    assert digests[0] == digests[1]
    assert len(set(digests[0].values())) == len(TAGS)


def test_another_seed_is_another_run(tmp_path):
    first = simulate(scenario("centralised"), tmp_path / "a")
    other = simulate(scenario("centralised").with_seed(4), tmp_path / "b")

    assert first.measures != other.measures
