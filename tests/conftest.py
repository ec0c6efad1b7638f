"""What all tests share: where real data may be found, and how much Hypothesis tries."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real maps, bibliographies, queries and ticks; tests that need it are skipped without it."""
    root = Path(__file__).parents[1]
    found = Path(os.environ.get("IMPLICAST_DATA", root.parent / "shared" / "data"))
    if not found.is_dir():
        pytest.skip(f"no real data at {found}; set IMPLICAST_DATA to its folder")
    return found


@pytest.fixture
def readable_core(monkeypatch):
    """For tests that look into the world itself: its parts are Python's on the readable core."""
    monkeypatch.setenv("IMPLICAST_CORE", "python")


def pytest_addoption(parser):
    """For schedules of faults (`tests/live`)."""
    parser.addoption("--seed", type=int, default=1, help="Seed of the schedules of faults.")
    parser.addoption("--schedules", default="0-199", help="Which of them, by number: 17, or 0-199.")
