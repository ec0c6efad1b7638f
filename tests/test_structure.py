"""How the upper floor is built: parts that own their state, shallow classes, one dispatcher, one name for one thing.

Checked on the code of `peer`, `overlay` and `casting`. Each check lists all offenders, and lets nobody pass.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

import design_rules
from house import ROOMS, SOURCE, Class, above, classes, depth, methods, modules, of_self, stores
from implicast.casting.designs import designs

DEEPEST = 2
"""Classes of ours below a root, one below the other."""
LONGEST = 400
"""Lines of a module."""
DISPATCHERS = ("receive", "wake", "arrives")
PUBLIC_API = {
    ("front/network.py", "Message"),
    ("front/network.py", "Network"),
    ("front/network.py", "Peer"),
    ("front/network.py", "Receipt"),
    ("net/client.py", "Client"),
}
"""Names that users import. The inner class of the same name is the one of the simulator or node."""
NUMBERS = Path(__file__).parent / "wire_numbers.txt"


def report(check: str, offenders: list[str]) -> None:
    assert not offenders, f"{check}, {len(offenders)} times:\n  " + "\n  ".join(sorted(offenders))


# --- the checks


def assigned_outside() -> list[str]:
    found = []
    for each in classes().values():
        theirs = {name: base for base in reversed(above(each)) for name in base.declares}
        inherited = {name: base for name, base in theirs.items() if name not in _slots(each)}
        for method in methods(each):
            for target in stores(method):
                if not of_self(target):
                    found.append(
                        f"{each.path}:{target.lineno} {each.name} assigns {ast.unparse(target)}"
                    )
                elif target.attr in inherited:
                    owner = inherited[target.attr]
                    found.append(
                        f"{each.path}:{target.lineno} {each.name} assigns {target.attr} of {owner.name}"
                    )
    for module, tree in modules().items():
        path = module.removeprefix("implicast.").replace(".", "/")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found += [
                    f"{path}:{one.lineno} {node.name} assigns {ast.unparse(one)}"
                    for one in stores(node)
                    if not _mark(one)
                ]
    return found


def _slots(each: Class) -> set[str]:
    """What the class itself declares by name; what only its `__init__` sets may be another's."""
    return {
        one.value
        for node in each.node.body
        if isinstance(node, ast.Assign)
        for one in ast.walk(node.value)
        if isinstance(one, ast.Constant)
    }


def _mark(target: ast.Attribute) -> bool:
    """`handles` marks methods: the one attribute that a decorator sets."""
    return target.attr == "handles"


def too_deep() -> list[str]:
    return [f"{each} is {depth(each)} deep" for each in classes().values() if depth(each) > DEEPEST]


def only_words() -> list[str]:
    found = []
    for each in classes().values():
        if any("Protocol" in base for base in each.bases):
            continue
        for method in methods(each):
            decorated = {ast.unparse(one).rpartition(".")[2] for one in method.decorator_list}
            said = all(
                isinstance(one, ast.Expr | ast.Pass) and not _acts(one) for one in method.body
            )
            if said and not decorated & {"abstractmethod", "overload"}:
                found.append(f"{each}.{method.name}")
    return found


def _acts(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)


def dispatchers() -> list[str]:
    """Nobody but the contract decides by the type of what comes in."""
    found = []
    for each in classes().values():
        if each.module != "implicast.peer.contract":
            found += [
                f"{each}.{method.name}" for method in methods(each) if method.name in DISPATCHERS
            ]
    for module, tree in modules().items():
        path = module.removeprefix("implicast.").replace(".", "/")
        names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)} & {
            "_CALLS",
            "arrives",
            "Bound",
        }
        found += [f"{path}: {name}" for name in sorted(names)]
    return found


def two_things() -> list[str]:
    """Over all rooms: a public class name stands for one thing."""
    where = defaultdict(list)
    for path in sorted((SOURCE / "implicast").rglob("*.py")):
        short = str(path.relative_to(SOURCE / "implicast"))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_public = isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            if is_public and (short, node.name) not in PUBLIC_API:
                where[node.name].append(short)
    return [
        f"{paths[0]}: {name} also in {', '.join(paths[1:])}"
        for name, paths in where.items()
        if len(paths) > 1
    ]


def kinds() -> dict[str, type[Any]]:
    """Every kind of message of every design, by module and name."""
    return {
        f"{kind.__module__}.{kind.__name__}": kind
        for each in designs().values()
        for kind in each.kinds
    }


def path_of(kind: type[Any]) -> str:
    return kind.__module__.removeprefix("implicast.").replace(".", "/")


def boundless() -> list[str]:
    found: dict[str, None] = {}
    for kind in kinds().values():
        for owner, name, what in _unbounded(kind, frozenset()):
            found[f"{path_of(owner)}: {owner.__name__}.{name} ({what})"] = None
    return list(found)


def _unbounded(kind: type[Any], seen: frozenset[type]) -> Iterator[tuple[type[Any], str, str]]:
    if kind in seen:
        return
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for each in info.fields:
        for problem in _problems(each.type, seen | {kind}):
            yield (kind, each.name, problem) if isinstance(problem, str) else problem


def _problems(info: inspect.Type, seen: frozenset[type]) -> Iterator[Any]:
    if isinstance(info, inspect.StructType):
        yield from _unbounded(info.cls, seen)
    if _lacks_bound(info):
        yield type(info).__name__.removesuffix("Type").lower()
    for one in _inside(info):
        yield from _problems(one, seen)


def _lacks_bound(info: inspect.Type) -> bool:
    if isinstance(info, inspect.IntType):
        return (info.ge is None and info.gt is None) or (info.le is None and info.lt is None)
    if isinstance(info, inspect.AnyType | inspect.RawType):
        return True
    return hasattr(info, "max_length") and info.max_length is None


def _inside(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.UnionType):
        # An address: msgspec breaks down over a bounded number beside a tuple of fixed length in one union.
        tupled = any(isinstance(one, inspect.TupleType) for one in info.types)
        return [one for one in info.types if not (tupled and isinstance(one, inspect.IntType))]
    if isinstance(info, inspect.TupleType):
        return list(info.item_types)
    if isinstance(info, inspect.DictType):
        return [info.key_type, info.value_type]
    return [info.item_type] if hasattr(info, "item_type") else []


def unnumbered() -> list[str]:
    return [f"{path_of(kind)}: {kind.__name__}" for kind in kinds().values() if not kind.wire]


def too_long() -> list[str]:
    found = []
    for path in (path for room in ROOMS for path in (SOURCE / "implicast" / room).rglob("*.py")):
        lines = len(path.read_text("utf-8").splitlines())
        if lines > LONGEST:
            found.append(f"{path.relative_to(SOURCE / 'implicast')} has {lines} lines")
    return found


CHECKS = {
    "assigned outside its class": assigned_outside,
    "deeper than two": too_deep,
    "nothing but a docstring": only_words,
    "a dispatcher of its own": dispatchers,
    "a name for two things": two_things,
    "a field without bounds": boundless,
    "no number on the wire": unnumbered,
    "longer than a reader holds": too_long,
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_upper_floor_is_built_of_parts(check):
    report(check, CHECKS[check]())


@pytest.mark.parametrize("rule", design_rules.RULES)
def test_the_layers_of_a_design(rule):
    """The rules of `tests/design_rules.py` hold in every folder of overlay, casting and net."""
    found = [one for folder in design_rules.folders() for one in design_rules.RULES[rule](folder)]
    report(rule, found)


WRONG_LAYERS = """
class Whole(Part):
    def __init__(self):
        self.parts = Helper(self)
        self.detector = None

    def run(self):
        self.parts.table["a"] = 1
        if self.settings.assured:
            self.__class__ = Helper


class Helper(Part):
    def __init__(self, whole: "Whole"):
        self.whole, self.table = whole, {}
"""


def test_the_rules_of_layers_see_what_they_look_for(tmp_path, monkeypatch):
    folder = tmp_path / "overlay" / "wrong"
    folder.mkdir(parents=True)
    more = "".join(f"\n\nclass Part{number}(Part):\n    pass\n" for number in range(8))
    (folder / "wrong.py").write_text(WRONG_LAYERS + more)
    monkeypatch.setattr(design_rules, "SOURCE", tmp_path)
    for cached in (design_rules.folders, design_rules.classes_of, design_rules.all_classes):
        cached.cache_clear()
    try:
        found = design_rules.offenders("overlay/wrong")
    finally:
        monkeypatch.undo()
        for cached in (design_rules.folders, design_rules.classes_of, design_rules.all_classes):
            cached.cache_clear()

    assert {rule: len(each) for rule, each in found.items()} == dict.fromkeys(found, 1)


def numbers() -> dict[int, str]:
    return {
        kind.wire: name.removeprefix("implicast.")
        for name, kind in sorted(kinds().items())
        if kind.wire
    }


def test_no_two_kinds_share_a_number_on_the_wire():
    shared = Counter(kind.wire for kind in kinds().values() if kind.wire)

    assert not [hex(number) for number, count in shared.items() if count > 1]


def test_numbers_on_the_wire_are_those_of_ever():
    """A new kind is added to the file; what is in it never changes: old nodes would misread new ones."""
    lines = [
        line.split()
        for line in NUMBERS.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    listed = {int(number, 16): name for number, name in lines}

    assert [int(number, 16) for number, _ in lines] == sorted(listed), "in order, each once"
    changed = {
        hex(number): name for number, name in numbers().items() if listed.get(number) != name
    }
    assert not changed, "python tests/test_structure.py adds what is new"


def test_the_checks_see_what_they_look_for():
    """Each kind of field that must have a bound is found in a struct that has none."""

    class Loose(msgspec.Struct):
        count: int
        text: str
        blob: bytes
        many: tuple[int, ...]
        anything: Any

    names = [name for _, name, _ in _unbounded(Loose, frozenset())]
    assert names == ["count", "text", "blob", "many", "many", "anything"]


if __name__ == "__main__":
    import sys

    for check, offenders in CHECKS.items():
        found = offenders()
        print(f"{check}: {len(found)}")
        print(
            "".join(
                f"  {one}\n" for one in sorted(found) if one.startswith(tuple(sys.argv[1:]) or "-")
            ),
            end="",
        )
    head = "# Number on the wire and kind of message, for ever. Written by python tests/test_structure.py\n"
    lines = [f"0x{number:04x} {name}\n" for number, name in sorted(numbers().items())]
    NUMBERS.write_text(head + "".join(lines), "utf-8")
