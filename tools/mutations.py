"""Small faults that can be put into a Python file: each is one edit of its text.

The tool parses the file and edits exactly the text of one node, so that the rest of the file keeps
its lines. Kinds of faults:

    negate          a condition, or the value of a function that returns a bool, is negated
    weaken          one operand of `and` or `or` is left out
    comparison      `<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`, and so on
    off by one      an integer is one larger
    constant        a number is 0, or doubled
    drop            a call, a state update or a `del` is left out
    swap            two neighbouring arguments change places
    return early    a function that returns nothing returns before a statement
    and/or          `and` becomes `or`, or the other way round

Docstrings, annotations, decorators, wire numbers, messages of assertions and errors, f-strings and
imports stay as they are. An edit that does not compile, or that leaves the syntax tree equal, is no
fault (`changes`).
"""

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

KINDS = (
    "negate",
    "weaken",
    "comparison",
    "off by one",
    "constant",
    "drop",
    "swap",
    "return early",
    "and/or",
)
OTHER_COMPARISON: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
}
"""By comparison: how its operator is written, and the operator that the fault writes."""
UNTOUCHED = (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Raise, ast.Global, ast.Nonlocal)
"""Nodes below which there are no faults."""
UNTOUCHED_NAMES = ("wire", "__slots__", "__all__", "__match_args__")
"""Names whose assigned values have no faults."""

SYMMETRIC = ("min", "max")
"""Functions whose arguments are not swapped: the value is the same."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One edit of one file: bytes `start` to `end` are replaced by `text`."""

    path: str
    kind: str
    line: int
    inside: str
    """Dotted name of the function or class around it; empty at the level of the module."""
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """The text of the file with the fault."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()

    def diff(self, source: str) -> str:
        """The changed lines, as `-` and `+` lines."""
        before, after = source.splitlines(), self.applied(source).splitlines()
        lines = difflib.unified_diff(before, after, n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    def key(self, source: str) -> str:
        """Eight hexadecimal digits that depend on path, function and changed lines, not on line
        numbers.
        """
        told = f"{self.path}\n{self.inside}\n{self.kind}\n{self.diff(source)}"
        return sha256(told.encode()).hexdigest()[:8]


def faults(path: str, source: str, only: frozenset[str] = frozenset()) -> list[Fault]:
    """All edits of a file in the order of the text; `only`: in these top-level functions and
    classes. `changes` says whether an edit is a fault.
    """
    found = _Faults(path, source, only)
    found.visit_body(ast.parse(source))
    return sorted(found.made, key=lambda one: (one.start, one.end, one.kind, one.text))


def changes(fault: Fault, source: str) -> bool:
    """Whether the edited file compiles and means something else."""
    try:
        return ast.dump(ast.parse(fault.applied(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


class _Faults:
    """Walks a syntax tree and collects its faults."""

    def __init__(self, path: str, source: str, only: frozenset[str]) -> None:
        self.path, self.only = path, only
        self.raw = source.encode()
        self.starts = [0]
        for line in self.raw.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.made: list[Fault] = []
        self.names: list[str] = []

    def visit_body(self, tree: ast.Module) -> None:
        for each in tree.body:
            if not self.only or getattr(each, "name", None) in self.only:
                self.visit(each)

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, UNTOUCHED) or _is_docstring(node) or _is_for_types(node):
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.names.append(node.name)
        for rule in (
            self._conditions,
            self._comparisons,
            self._numbers,
            self._statements,
            self._arguments,
            self._returns,
        ):
            rule(node)
        for child in _children(node):
            self.visit(child)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.names.pop()

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def _span(self, node: Any) -> tuple[int, int]:
        return self._at(node.lineno, node.col_offset), self._at(
            node.end_lineno, node.end_col_offset
        )

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.raw[start:end].decode()

    def _add(self, kind: str, node: Any, text: str, span: tuple[int, int] | None = None) -> None:
        start, end = span or self._span(node)
        line = node.lineno
        self.made.append(Fault(self.path, kind, line, ".".join(self.names), start, end, text))

    def _conditions(self, node: ast.AST) -> None:
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            self._negate(node.test)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                self._negate(test)
        elif isinstance(node, ast.BoolOp):
            self._boolean(node)

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._add("negate", test, f"({self._text(test.operand)})")
        else:
            self._add("negate", test, f"(not ({self._text(test)}))")

    def _boolean(self, node: ast.BoolOp) -> None:
        for index in range(len(node.values)):
            kept = [one for number, one in enumerate(node.values) if number != index]
            joined = (" and " if isinstance(node.op, ast.And) else " or ").join(
                f"({self._text(one)})" for one in kept
            )
            self._add("weaken", node, f"({joined})")
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._between(node, node.values[0], node.values[1], "and/or", rf"\b{word}\b", other)

    def _comparisons(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            written, other = OTHER_COMPARISON[type(node.ops[0])]
            self._between(node, node.left, node.comparators[0], "comparison", written, other)

    def _between(
        self, node: ast.AST, left: ast.AST, right: ast.AST, kind: str, written: str, other: str
    ) -> None:
        """Replace the operator between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        found = re.search(written.encode(), self.raw[start:end])
        if found:
            self._add(kind, node, other, (start + found.start(), start + found.end()))

    def _numbers(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Constant) or isinstance(node.value, bool):
            return
        if not isinstance(node.value, int | float):
            return
        if isinstance(node.value, int):
            self._add("off by one", node, str(node.value + 1))
        if node.value:
            self._add("constant", node, "0")
            self._add("constant", node, str(node.value * 2))

    def _statements(self, node: ast.AST) -> None:
        if (
            (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
            or isinstance(node, ast.AugAssign | ast.Delete)
            or (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
                and self.names
            )
        ):
            self._add("drop", node, "pass")

    def _arguments(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Call) or any(isinstance(one, ast.Starred) for one in node.args):
            return
        if isinstance(node.func, ast.Name) and node.func.id in SYMMETRIC:
            return
        for left, right in zip(node.args, node.args[1:], strict=False):
            (start, after), (before, end) = self._span(left), self._span(right)
            between = self.raw[after:before].decode()
            if self._text(left) != self._text(right) and not {"(", ")", "#"} & set(between):
                text = f"{self._text(right)}{between}{self._text(left)}"
                self._add("swap", node, text, (start, end))

    def _returns(self, node: ast.AST) -> None:
        if not isinstance(node, ast.FunctionDef) or node.returns is None:
            return
        said = ast.unparse(node.returns)
        for inner in _own_statements(node):
            if said == "bool" and isinstance(inner, ast.Return) and inner.value is not None:
                self._negate(inner.value)
            if said == "None" and not isinstance(inner, ast.Return | ast.Pass):
                start, _ = self._span(inner)
                self._add("return early", inner, "return; ", (start, start))


def _own_statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """The simple statements of a function, without those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and not _is_docstring(node):
            yield node
        waiting += [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes below, without annotations, decorators and messages."""
    if isinstance(node, ast.Assert):
        return [node.test]
    if isinstance(node, ast.FunctionDef):
        defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one)]
        return [*defaults, *node.body]
    if isinstance(node, ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value is not None and not _is_untouched(node.target) else []
    if isinstance(node, ast.Assign) and any(_is_untouched(one) for one in node.targets):
        return []
    return list(ast.iter_child_nodes(node))


def _is_untouched(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id in UNTOUCHED_NAMES


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
