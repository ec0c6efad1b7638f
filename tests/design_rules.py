"""Rules of the layers inside a design, checked on the text of each folder of `overlay`, `casting` and `net`.

    python tests/design_rules.py                 counts by folder and rule
    python tests/design_rules.py overlay/ice     the offenders of one folder

| rule | meaning |
|---|---|
| owner | a class hands `self` to a part, other than as a small protocol that the part names in its constructor |
| cycle | classes of one folder that use each other in a circle |
| parts | more than eight parts in a folder |
| foreign | a container of another part is mutated from outside |
| assured | a condition on the assurance outside a constructor |
| class | an assignment to `__class__`, or a second way to build a part |
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "implicast"
ROOMS = ("overlay", "casting", "net")
PARTS_MAX = 8
PROTOCOL_MAX = 8
"""Methods and attributes of a protocol through which a part reports."""
MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end"),
    *("pop", "popitem", "popleft", "put", "remove", "setdefault", "update"),
}
VALUES = ("Struct", "Message", "NamedTuple", "Enum", "TypedDict")
"""Bases of plain values. A value has no state to protect; its owner may change its containers."""
SECOND_WAYS = ("inherit_from", "rest_later", "restore_lazily", "settle_alone", "piecemeal")
MODES = ("assured", "monitored")
BUILDERS = ("__init__", "__new__", "from_settings", "for_settings")
"""Functions that choose the objects of a part once."""


@dataclass(frozen=True)
class ClassText:
    """A class of a folder."""

    folder: str
    file: str
    node: ast.ClassDef

    @property
    def bases(self) -> list[str]:
        return [ast.unparse(base).split("[")[0].rpartition(".")[2] for base in self.node.bases]

    @property
    def is_protocol(self) -> bool:
        return "Protocol" in self.bases

    @property
    def is_value(self) -> bool:
        decorators = {ast.unparse(each).split("(")[0] for each in self.node.decorator_list}
        return "dataclass" in decorators or any(base in VALUES for base in self.bases)

    @property
    def members(self) -> int:
        return sum(isinstance(each, ast.FunctionDef | ast.AnnAssign) for each in self.node.body)


@cache
def folders() -> dict[str, list[Path]]:
    found = defaultdict(list)
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            found[str(path.parent.relative_to(SOURCE))].append(path)
    return dict(found)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def classes_of(folder: str) -> dict[str, ClassText]:
    found = {}
    for path in folders()[folder]:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = ClassText(folder, path.name, node)
    return found


@cache
def all_classes() -> dict[str, ClassText]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = ClassText(str(path.parent.relative_to(SOURCE)), path.name, node)
    return found


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (
        each for each in ast.walk(node) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


# --- owner


def owners(folder: str) -> list[str]:
    known = all_classes()
    found = []
    for each in classes_of(folder).values():
        for call in (node for node in ast.walk(each.node) if isinstance(node, ast.Call)):
            target = ast.unparse(call.func)
            given = [(i, arg) for i, arg in enumerate(call.args) if _is_self(arg)]
            named = [(word.arg, word.value) for word in call.keywords if _is_self(word.value)]
            if not (given or named) or not _makes_a_part(target, known):
                continue
            made = known.get(target)
            for place, _ in [*given, *named]:
                if made is None or not _is_small_protocol(made, place, known):
                    found.append(
                        f"{folder}/{each.file}:{call.lineno} {each.node.name} hands itself to {target}"
                    )
    return found


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _makes_a_part(target: str, known: dict[str, ClassText]) -> bool:
    """True if the call makes an object that can keep what it is given: a class, or a variable that holds one."""
    if target in known:
        return not known[target].is_value
    return target in ("kind", "cls", "type", "made", "factory", "make", "part")


def _is_small_protocol(
    made: ClassText, place: int | str | None, known: dict[str, ClassText]
) -> bool:
    init = next((each for each in functions(made.node) if each.name == "__init__"), None)
    if init is None:
        return False
    names = [*init.args.posonlyargs, *init.args.args][1:] + init.args.kwonlyargs
    if isinstance(place, int):
        argument = names[place] if place < len(names) else None
    else:
        argument = next((each for each in names if each.arg == place), None)
    if argument is None or argument.annotation is None:
        return False
    wanted = ast.unparse(argument.annotation).strip("'\"").split(" |")[0].split("[")[0]
    protocol = known.get(wanted)
    return protocol is not None and protocol.is_protocol and protocol.members <= PROTOCOL_MAX


# --- cycle


def cycles(folder: str) -> list[str]:
    here = classes_of(folder)
    edges = {name: _uses(each.node, set(here)) for name, each in here.items()}
    return [
        f"{folder}: {', '.join(sorted(group))}" for group in _components(edges) if len(group) > 1
    ]


def _uses(node: ast.ClassDef, names: set[str]) -> set[str]:
    """Classes that a class names in its body: made, annotated, or read through."""
    text = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            text.add(each.value)
    return (text & names) - {node.name}


def _components(edges: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            found.append(group)

    for name in edges:
        if name not in index:
            visit(name)
    return found


# --- parts


def too_many_parts(folder: str) -> list[str]:
    """Classes of the folder that are parts: subclasses of `Part` that no class of the folder refines."""
    known, here = all_classes(), classes_of(folder)
    refined = {base for each in here.values() for base in each.bases}
    parts = sorted(
        name
        for name, each in here.items()
        if name not in refined and not each.is_value and _descends(each, "Part", known)
    )
    return [f"{folder}: {len(parts)} parts: {', '.join(parts)}"] if len(parts) > PARTS_MAX else []


def _descends(each: ClassText, root: str, known: dict[str, ClassText]) -> bool:
    return any(
        base == root
        or (base in known and known[base] is not each and _descends(known[base], root, known))
        for base in each.bases
    )


# --- foreign


def foreign(folder: str) -> list[str]:
    known = all_classes()
    found = []
    for each in classes_of(folder).values():
        types = _attribute_types(each.node)
        for method in functions(each.node):
            aliases = _aliases(method, types)
            for node, container in _mutations(method):
                part = _part_of(container, types, aliases)
                if part is None or (part in known and known[part].is_value):
                    continue
                if part == "?" or part in known:
                    found.append(f"{folder}/{each.file}:{node.lineno} {ast.unparse(container)}")
    return found


def _attribute_types(node: ast.ClassDef) -> dict[str, str]:
    """Type of each attribute, from annotations and from what `__init__` assigns."""
    found = {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found[each.target.id] = _plain(ast.unparse(each.annotation))
    for init in (each for each in functions(node) if each.name == "__init__"):
        arguments = {
            each.arg: _plain(ast.unparse(each.annotation))
            for each in [*init.args.args, *init.args.kwonlyargs]
            if each.annotation is not None
        }
        for each in ast.walk(init):
            if isinstance(each, ast.Assign):
                found |= _assigned_types(each, arguments)
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Attribute):
                found[each.target.attr] = _plain(ast.unparse(each.annotation))
    return found


def _assigned_types(each: ast.Assign, arguments: dict[str, str]) -> dict[str, str]:
    found = {}
    for target, value in _pairs(each):
        if isinstance(target, ast.Attribute) and _is_self(target.value):
            if isinstance(value, ast.Name) and value.id in arguments:
                found[target.attr] = arguments[value.id]
            elif isinstance(value, ast.Call):
                found[target.attr] = ast.unparse(value.func)
    return found


def _pairs(each: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    target = each.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
        return list(zip(target.elts, each.value.elts, strict=False))
    return [(one, each.value) for one in each.targets]


def _plain(annotation: str) -> str:
    return annotation.strip("'\"").split(" |")[0].split("[")[0]


def _aliases(method: ast.AST, types: dict[str, str]) -> dict[str, str]:
    """Local names for attributes of `self`."""
    found = {}
    for each in ast.walk(method):
        if isinstance(each, ast.Assign):
            for target, value in _pairs(each):
                if (
                    isinstance(target, ast.Name)
                    and isinstance(value, ast.Attribute)
                    and _is_self(value.value)
                ):
                    found[target.id] = value.attr
    return found


def _mutations(method: ast.AST) -> Iterator[tuple[ast.AST, ast.expr]]:
    for node in ast.walk(method):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node, node.value
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in MUTATORS
        ):
            yield node, node.func.value


def _part_of(container: ast.expr, types: dict[str, str], aliases: dict[str, str]) -> str | None:
    """Type of the part whose container this is: `self.part.container` or an alias of `self.part`."""
    if not isinstance(container, ast.Attribute):
        return None
    holder = container.value
    if isinstance(holder, ast.Attribute) and _is_self(holder.value):
        return types.get(holder.attr)
    if isinstance(holder, ast.Name) and holder.id in aliases:
        return types.get(aliases[holder.id])
    if isinstance(holder, ast.Attribute) and isinstance(holder.value, ast.Attribute):
        return "?" if _is_self(holder.value.value) else None
    return None


# --- assured


def modes(folder: str) -> list[str]:
    found = []
    for path in folders()[folder]:
        if path.name == "settings.py":
            continue
        tree = tree_of(path)
        allowed = {
            id(inner)
            for function in functions(tree)
            if function.name in BUILDERS
            for inner in ast.walk(function)
        }
        for node in ast.walk(tree):
            tests = list(_tests(node))
            if id(node) not in allowed and any(_asks(test) for test in tests):
                found.append(f"{folder}/{path.name}:{node.lineno} {ast.unparse(tests[0])[:70]}")  # type: ignore[attr-defined]
    return found


def _tests(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        yield node.test
    if isinstance(node, ast.BoolOp):
        yield from node.values
    if isinstance(node, ast.comprehension):
        yield from node.ifs


def _asks(test: ast.expr) -> bool:
    for each in ast.walk(test):
        name = each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", None)
        if name in MODES:
            return True
        if isinstance(each, ast.Compare) and any(
            isinstance(one, ast.Constant) and one.value is None for one in each.comparators
        ):
            left = each.left
            name = left.attr if isinstance(left, ast.Attribute) else getattr(left, "id", None)
            if name == "detector":
                return True
    return False


# --- class


def second_ways(folder: str) -> list[str]:
    found = []
    for path in folders()[folder]:
        for node in ast.walk(tree_of(path)):
            name = _second_way(node)
            if name is not None:
                found.append(f"{folder}/{path.name}:{getattr(node, 'lineno', 0)} {name}")
    return found


def _second_way(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return "__class__" if node.attr == "__class__" else None
    if isinstance(node, ast.FunctionDef):
        name = node.name
        return name if name == "stand" or name in SECOND_WAYS else None
    if isinstance(node, ast.Name) and node.id in SECOND_WAYS:
        return node.id
    return None


RULES = {
    "owner": owners,
    "cycle": cycles,
    "parts": too_many_parts,
    "foreign": foreign,
    "assured": modes,
    "class": second_ways,
}


def offenders(folder: str) -> dict[str, list[str]]:
    return {rule: check(folder) for rule, check in RULES.items()}


if __name__ == "__main__":
    chosen = sys.argv[1:]
    for folder in folders():
        if chosen and folder not in chosen:
            continue
        found = offenders(folder)
        print(f"{folder}:", ", ".join(f"{rule} {len(each)}" for rule, each in found.items()))
        if chosen:
            print(
                "".join(f"  {rule}: {one}\n" for rule, each in found.items() for one in each),
                end="",
            )
