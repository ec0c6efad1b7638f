"""Benchmarks name what is there: what they import from the package exists."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench"
MODULES = sorted(BENCH.rglob("*.py"))


def _imported(path: Path) -> list[tuple[str, str]]:
    """Module and name of everything that a benchmark takes from the package."""
    found = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    return [
        (node.module, each.name)
        for node in found
        if node.module and node.module.startswith("implicast")
        for each in node.names
    ]


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(BENCH)) for path in MODULES])
def test_what_a_benchmark_imports_exists(path):
    missing = [
        f"{module}.{name}"
        for module, name in _imported(path)
        if not hasattr(import_module(module), name) and not _is_module(f"{module}.{name}")
    ]

    assert not missing


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError:
        return False
    return True
