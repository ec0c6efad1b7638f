"""The classes of the upper floor as their text has them: for the tests of its structure."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
ROOMS = ("peer", "overlay", "casting")
ROOTS = {"Part", "Peer", "Member", "Message"}


@dataclass
class Class:
    """A class as its text has it."""

    module: str
    name: str
    node: ast.ClassDef
    bases: list[str]
    """Qualified where they are ours, else as written."""
    declares: set[str] = field(default_factory=set)

    @property
    def path(self) -> str:
        return self.module.removeprefix("implicast.").replace(".", "/")

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for room in ROOMS:
        for path in sorted((SOURCE / "implicast" / room).rglob("*.py")):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text("utf-8"))
    return found


@cache
def classes() -> dict[str, Class]:
    """By qualified name; classes within functions are left out."""
    found: dict[str, Class] = {}
    for module, tree in modules().items():
        known = {
            node.name: f"{module}.{node.name}"
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                known |= {
                    each.asname or each.name: f"{node.module}.{each.name}" for each in node.names
                }
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                bases = [
                    known.get(ast.unparse(_plain(base)), ast.unparse(base)) for base in node.bases
                ]
                made = Class(module, node.name, node, bases)
                made.declares = _declared(node)
                found[f"{module}.{node.name}"] = made
    return found


def _plain(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base


def _declared(node: ast.ClassDef) -> set[str]:
    """Slots, annotated names, and what `__init__` sets."""
    names = set()
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            names.add(each.target.id)
        if isinstance(each, ast.Assign):
            named = {target.id for target in each.targets if isinstance(target, ast.Name)}
            names |= named
            if "__slots__" in named:
                names |= {
                    one.value for one in ast.walk(each.value) if isinstance(one, ast.Constant)
                }
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            names |= {target.attr for target in stores(each) if of_self(target)}
    return names


def stores(node: ast.AST) -> Iterator[ast.Attribute]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store | ast.Del):
            yield each


def of_self(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")


def above(each: Class) -> list[Class]:
    """Its bases of ours, and theirs."""
    found: list[Class] = []
    for base in each.bases:
        if base in classes():
            found += [classes()[base], *above(classes()[base])]
    return found


def depth(each: Class) -> int:
    if each.name in ROOTS:
        return 0
    return 1 + max((depth(classes()[base]) for base in each.bases if base in classes()), default=0)


def methods(each: Class) -> Iterator[ast.FunctionDef]:
    yield from (node for node in each.node.body if isinstance(node, ast.FunctionDef))
