"""Writes docs/reference/bounds.md from the code: every named bound with its value and meaning.

    python tools/bounds.py            write the page
    python tools/bounds.py --check    exit with 1 if the page is out of date

A bound is a module constant `..._MAX`, a field `..._max` with a default (but `..._s_max` is a
measure: the longest time), or a field of a class whose docstring begins with "Bounds". The
docstring below it says what is bounded and what happens beyond the bound.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "implicast"
PAGE = ROOT / "docs" / "reference" / "bounds.md"
ROOMS = ("language", "peer", "overlay", "casting", "world", "trials")

HEAD = """# Bounds

*Every queue, table, retry and hop count has a named bound. `python tools/bounds.py` writes this
page from the code; a test compares the two.*

Peers accept messages from unknown senders, so everything that a sender can fill has a bound. Three
kinds of tables have no bound of their own, because the rules of the design or the scenario limit
them:

- *Descriptions at a server, a broker or a registry*: one for each peer that registered, until it
  withdraws or its lease ends. `tags_per_description` bounds the size of each.
- *Places of an overlay*: the list of a ring, a finger table, the neighbours on a surface. The
  rules of the overlay give their number.
- *Records of the simulator* (`Application`, `World.casts`): one entry for each call of the
  scenario, bounded by `PEERS_MAX` and `CASTS_MAX`. The journal is written in chunks of
  `CHUNK_ROWS` rows, so memory does not grow with the number of messages.

`tests/faults/test_floods.py` floods every design that survives change with casts, registrations
and newcomers, and checks that its memory stops growing.
"""


class Bound(NamedTuple):
    """A bound: name, value and docstring."""

    name: str
    value: str
    meaning: str


def bounds(path: Path) -> list[Bound]:
    """All bounds of a module, in the order of its text."""
    return list(_found(ast.parse(path.read_text("utf-8")).body, ""))


def _found(body: list[ast.stmt], owner: str) -> Iterator[Bound]:
    everything = owner.startswith("Bounds:")
    holder = owner.partition(":")[2]
    for at, statement in enumerate(body):
        if isinstance(statement, ast.ClassDef):
            kind = (
                "Bounds" if (ast.get_docstring(statement) or "").startswith("Bounds") else "Class"
            )
            yield from _found(statement.body, f"{kind}:{statement.name}")
            continue
        named = _named(statement)
        if named is not None and (everything or _is_bound(named[0])):
            name = f"{holder}.{named[0]}" if holder else named[0]
            yield Bound(name, _value(named[1]), _meaning(body[at + 1 :]))


def _is_bound(name: str) -> bool:
    return name.lower().endswith("_max") and not name.endswith("_s_max")


def _named(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if (
        isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.value is not None
    ):
        return statement.target.id, statement.value
    return None


def _value(expression: ast.expr) -> str:
    try:
        value = eval(compile(ast.Expression(expression), "bound", "eval"), {"__builtins__": {}})
    except Exception:  # it refers to other names: show the expression
        return f"`{ast.unparse(expression)}`"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _meaning(following: list[ast.stmt]) -> str:
    """The docstring below a bound, or below the last of several consecutive bounds."""
    for statement in following:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return " ".join(str(statement.value.value).split()).replace("|", "\\|")
        named = _named(statement)
        if named is None or not named[0].lower().endswith("_max"):
            break
    return ""


def modules() -> Iterator[tuple[str, list[Bound]]]:
    """Every module with bounds, by its path in the package."""
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            found = bounds(path)
            if found:
                yield str(path.relative_to(SOURCE)), found


def page() -> str:
    """The text of the page."""
    lines, room = [HEAD], ""
    for module, found in modules():
        if module.partition("/")[0] != room:
            room = module.partition("/")[0]
            lines += [f"\n## {room}\n", "| module | bound | value | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{module}` | `{each.name}` | {each.value} | {each.meaning} |" for each in found
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        sys.exit(
            0
            if PAGE.is_file() and PAGE.read_text("utf-8") == text
            else "docs/reference/bounds.md is out of date"
        )
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
