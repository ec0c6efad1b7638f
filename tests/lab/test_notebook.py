"""The notebook runs from its first cell to its last."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "sweep.ipynb"


@pytest.mark.spark
def test_the_notebook_goes_from_a_sweep_to_a_figure(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(NOTEBOOK, 4)

    nbclient.NotebookClient(
        book, timeout=500, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    told = "".join(str(cell.get("outputs")) for cell in book.cells)
    assert "image/png" in told
    assert "Notify" in told or "messages" in told
    assert not any(cell.get("outputs") for cell in nbformat.read(NOTEBOOK, 4).cells), (
        "it is kept without outputs"
    )
