"""Writes docs/reference/bounds.md from the code: every named bound with what it is for.

    python tools/bounds.py            write the page
    python tools/bounds.py --check    say whether it is what the code says

A bound is a module constant `..._MAX`, a field `..._max` with a default, or a field of a class
whose docstring begins with "Bounds". The docstring below it says what is bounded and what happens
beyond.
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

*Every queue, table, retry and hop count has a bound with a name and a reason. This page is written from the code by
`python tools/bounds.py`; a test holds the two together.*

Peers take messages from strangers, so whatever a stranger can fill has a constant of its own. Three kinds of tables
have none, because they hold what their owner asked for itself:

- *Descriptions that a server, a broker or a registry keeps*: one for each peer that registered with it, until it
  withdraws or its lease is over. How large one may be is bounded by `tags_per_description`.
- *Places of an overlay*: a ring's list, a finger table, a surface's neighbours. Their number follows from the
  overlay's own rules.
- *The world's own books* (`Application`, `World.casts`): one entry for each verb of the scenario, bounded by
  `PEERS_MAX` and `CASTS_MAX`. The journal is written away in pieces of `CHUNK_ROWS` rows, so that memory does not
  grow with messages.

`tests/faults/test_floods.py` floods every design that survives change with casts, registrations and newcomers, and
sees its memory level off.
"""


class Bound(NamedTuple):
    """A bound as the code has it."""

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
        if named is not None and (everything or named[0].lower().endswith("_max")):
            name = f"{holder}.{named[0]}" if holder else named[0]
            yield Bound(name, _value(named[1]), _meaning(body[at + 1 :]))


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
    except Exception:  # it needs other names: then its own text says it best
        return f"`{ast.unparse(expression)}`"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _meaning(following: list[ast.stmt]) -> str:
    """The docstring below a bound, or below the last of several that stand together."""
    for statement in following:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return " ".join(str(statement.value.value).split()).replace("|", "\\|")
        named = _named(statement)
        if named is None or not named[0].lower().endswith("_max"):
            break
    return ""


def modules() -> Iterator[tuple[str, list[Bound]]]:
    """Every module with bounds, by its path below the package."""
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            found = bounds(path)
            if found:
                yield str(path.relative_to(SOURCE)), found


def page() -> str:
    """The whole page."""
    lines, room = [HEAD], ""
    for module, found in modules():
        if module.partition("/")[0] != room:
            room = module.partition("/")[0]
            lines += [f"\n## {room}\n", "| module | bound | value | |", "|---|---|---|---|"]
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
