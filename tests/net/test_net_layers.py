"""The folders of `net` are layers: each imports from itself and from those below."""

import ast
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src" / "implicast" / "net"
LAYERS = ("storage", "transport", "identity", "observation", "application", "commands")
SHARED = {"errors": 0, "config": 1, "environment": 1, "settings": 2}
"""Modules beside the folders, and the number of layers below them."""
API = {"node", "parts", "client"}
LINES_MAX = 410


def imported(path):
    """The name after `implicast.net.` of each import of the room."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("implicast.net."):
            yield node.module.split(".")[2]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_from_those_below(layer):
    allowed = {*LAYERS[: LAYERS.index(layer) + 1], *SHARED}
    if layer == "commands":
        allowed |= API
    for path in sorted((ROOM / layer).glob("*.py")):
        assert set(imported(path)) <= allowed, path.name


def test_nothing_below_the_commands_imports_them():
    for path in [*ROOM.glob("*.py")]:
        assert "commands" not in set(imported(path)), path.name


@pytest.mark.parametrize("shared", SHARED)
def test_a_module_beside_the_folders_imports_what_is_below_it(shared):
    assert set(imported(ROOM / f"{shared}.py")) <= {*LAYERS[: SHARED[shared]], *SHARED}


def test_the_storage_layer_needs_no_other():
    for path in sorted((ROOM / "storage").glob("*.py")):
        assert set(imported(path)) <= {"storage", "errors"}, path.name


def test_a_module_is_short():
    lengths = {
        str(path.relative_to(ROOM)): len(path.read_text("utf-8").splitlines())
        for path in ROOM.rglob("*.py")
    }
    assert {name: count for name, count in lengths.items() if count > LINES_MAX} == {}
