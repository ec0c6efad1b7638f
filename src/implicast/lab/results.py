"""The tables of a sweep's folder for people who go on from there: as Spark's DataFrames, or
pandas'.

    from implicast import lab
    found = lab.measures("s3://bucket/peers")             # name of a table -> DataFrame of Spark
    frames = lab.measures("out/peers", pandas=True)       # the same as pandas

Nothing of ours is needed to read them: every table is Parquet under `TABLE/experiment=NAME/`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from implicast.lab import dataset
from implicast.lab.errors import TableError
from implicast.lab.folder import Folder, experiments_in
from implicast.lab.session import session
from implicast.lab.storage import Location

if TYPE_CHECKING:
    import pandas as pd

Frames = Mapping[str, "DataFrame | pd.DataFrame"]


def measures(
    path: str | Path | Location, spark: SparkSession | None = None, pandas: bool = False
) -> Frames:
    """Table -> its rows, of all experiments of a folder, with the column `experiment`."""
    place = Location.of(path)
    if not experiments_in(place):
        raise TableError(f"{place} is not a laboratory folder: it holds no experiment")
    found = {name: _rows(place, name) for name in dataset.SCHEMAS}
    there = {name: table for name, table in found.items() if table is not None}
    if pandas:
        return {name: table.to_pandas() for name, table in there.items()}
    at = spark or session()
    return {name: at.createDataFrame(table) for name, table in there.items()}


def _rows(place: Location, name: str) -> pa.Table | None:
    parts = []
    for experiment in experiments_in(place):
        folder = Folder(place, experiment)
        if dataset.has(folder, name):
            rows: Any = dataset.load(folder, name)
            parts.append(
                rows.add_column(0, "experiment", pa.array([experiment] * len(rows), pa.string()))
            )
    return pa.concat_tables(parts) if parts else None
