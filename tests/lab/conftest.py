"""One Spark session for all tests of a process, and journals made at random to measure."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from implicast.lab.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Small partitions and few of them: these tables have hundreds of rows."""
    made = session(
        "local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}, brief=True
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def data() -> Path:
    """Real data: `IMPLICAST_DATA`, else `../shared/data` beside the repository."""
    import os

    path = Path(os.environ.get("IMPLICAST_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set IMPLICAST_DATA")
    return path
