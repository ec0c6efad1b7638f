import pytest
from axe import checker
from stage import Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    made = Stage(tmp_path_factory.mktemp("page"))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    return checker(tmp_path_factory.mktemp("axe"))
