import pytest
from stage import Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    made = Stage(tmp_path_factory.mktemp("page"))
    yield made
    made.stop()
