"""Which schedules of faults are run: `--seed`, `--schedules`."""


def pytest_generate_tests(metafunc):
    if "schedule" in metafunc.fixturenames:
        seed, which = metafunc.config.getoption("--seed"), metafunc.config.getoption("--schedules")
        first, _, last = which.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        metafunc.parametrize(
            "schedule",
            [(seed, number) for number in numbers],
            ids=[f"{seed}-{number}" for number in numbers],
        )
