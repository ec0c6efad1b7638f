"""The page of bounds is what the code says, and every bound it names is explained and used."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("bounds", ROOT / "tools" / "bounds.py")
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)

FOUND = [(module, each) for module, found in tool.modules() for each in found]


def test_the_page_is_what_the_code_says():
    assert tool.page() == tool.PAGE.read_text("utf-8"), "run: python tools/bounds.py"


@pytest.mark.parametrize(
    ("module", "bound"), FOUND, ids=[f"{module}:{each.name}" for module, each in FOUND]
)
def test_a_bound_says_what_it_is_for(module, bound):
    assert bound.meaning, f"{module}: {bound.name} has no docstring below it"


def dotted(path: Path) -> str:
    """How a module is imported."""
    parts = path.relative_to(tool.SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module) -> set[str]:
    """Modules that a module imports, or names that may be modules."""
    found = {
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def used(tree: ast.Module) -> set[str]:
    """Names and attributes that a module reads; naming, importing and mentioning are no uses."""
    read = [node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Load)]
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in read
        if isinstance(node, ast.Name | ast.Attribute)
    }


def importers(module: str, imports: dict[str, set[str]]) -> set[str]:
    """A module, all that import it, and all that import those."""
    found, left = {module}, [module]
    while left:
        each = left.pop()
        news = {name for name, mine in imports.items() if each in mine} - found
        found |= news
        left += news
    return found


def idle(trees: dict[str, ast.Module], bounds: list[tuple[str, str]]) -> list[str]:
    """Of bounds (module, name) those that neither their module nor one that imports it reads.

    Fields of settings are read by whoever inherits the settings, so there imports count through others too.
    """
    reads, imports = ({name: of(tree) for name, tree in trees.items()} for of in (used, imported))
    heirs = {module: importers(module, imports) for module, name in bounds if "." in name}
    found = []
    for module, name in bounds:
        holder, _, last = name.rpartition(".")
        near = (
            heirs[module]
            if holder
            else {module, *(each for each in trees if module in imports[each])}
        )
        if not any(last in reads[each] for each in near):
            found.append(f"{module}: {name}")
    return found


def test_a_bound_is_used_where_it_stands_or_where_that_is_imported():
    trees = {
        dotted(path): ast.parse(path.read_text("utf-8"))
        for path in sorted(tool.SOURCE.rglob("*.py"))
    }

    assert not idle(trees, [(dotted(tool.SOURCE / module), each.name) for module, each in FOUND])


def test_a_namesake_a_mention_and_an_import_are_no_uses():
    texts = {
        "a": "ROWS_MAX = 5",
        "b": "ROWS_MAX = 9\nprint(ROWS_MAX)",  # its own
        "c": "from a import ROWS_MAX\n'ROWS_MAX is great'",
    }
    used_by = {
        "d": "import a\nprint(a.ROWS_MAX)",
        "e": "from a import ROWS_MAX as most, ROWS_MAX\nprint(ROWS_MAX)",
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}

    assert idle(trees, [("a", "ROWS_MAX"), ("b", "ROWS_MAX")]) == ["a: ROWS_MAX"]
    for name, text in used_by.items():
        assert not idle({**trees, name: ast.parse(text)}, [("a", "ROWS_MAX")]), name


def test_every_room_has_bounds_and_the_page_has_their_values():
    page = tool.PAGE.read_text("utf-8")

    assert {module.partition("/")[0] for module, _ in FOUND} == set(tool.ROOMS)
    assert "| `peer/memory.py` | `BLOCKS_MAX` | 65,536 |" in page
