"""Writes the map of all message kinds into ARCHITECTURE.md, from the code.

    python tools/message_map.py            write the map
    python tools/message_map.py --check    exit with 1 if it is out of date

For each protocol (the folder that defines its messages): wire number, kind, the classes that handle
it, and the first sentence of its docstring. Items of the surface are routed to the owner of their
tract, which looks their handler up in a table.
"""

import ast
import sys
from collections import defaultdict
from inspect import getdoc
from pathlib import Path

from implicast.casting.designs import designs
from implicast.peer.contract import Message

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "implicast"
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN = "<!-- The map below is written by `python tools/message_map.py`. -->\n"
END = "<!-- End of the map. -->\n"
ROOMS = ("peer", "overlay", "casting")


def kinds() -> list[type[Message]]:
    """Every kind of message of every design, by wire number."""
    found = {kind.wire: kind for each in designs().values() for kind in each.kinds}
    return [found[wire] for wire in sorted(found)]


def handlers() -> dict[str, list[str]]:
    """By name of a kind, the classes with a handler of it."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for path in (path for room in ROOMS for path in sorted((SOURCE / room).rglob("*.py"))):
        for part in ast.parse(path.read_text("utf-8")).body:
            methods = part.body if isinstance(part, ast.ClassDef) else []
            for method in (each for each in methods if isinstance(each, ast.FunctionDef)):
                for name in _handled(method):
                    found[name][part.name] = None  # type: ignore[attr-defined]  # a class, as said
    return {name: list(parts) for name, parts in found.items()}


def _handled(method: ast.FunctionDef) -> list[str]:
    calls = [each for each in method.decorator_list if isinstance(each, ast.Call)]
    return [
        argument.id
        for call in calls
        if ast.unparse(call.func) == "handles"
        for argument in call.args
        if isinstance(argument, ast.Name)
    ]


def protocol_of(kind: type[Message]) -> str:
    """The folder of a kind; for a module directly in a room, the module."""
    parts = kind.__module__.removeprefix("implicast.").split(".")
    return "/".join(parts[:2]) + (".py" if len(parts) == len(ROOMS) - 1 else "")


def users_of(kind: type[Message]) -> list[str]:
    return [name for name, design in designs().items() if kind in design.kinds]


def table() -> str:
    """The map as Markdown."""
    by_protocol: dict[str, list[type[Message]]] = defaultdict(list)
    for kind in kinds():
        by_protocol[protocol_of(kind)].append(kind)
    known, lines = handlers(), [BEGIN]
    for protocol, some in by_protocol.items():
        used = [name for name in designs() if any(name in users_of(kind) for kind in some)]
        title = "every design" if len(used) == len(designs()) else ", ".join(used)
        lines.append(f"\n**`{protocol}`** ({title})\n\n| wire | kind | handled by | meaning |")
        lines.append("\n|---|---|---|---|\n")
        lines += [_row(kind, known.get(kind.__name__, [])) for kind in some]
    return "".join([*lines, "\n", END])


def _row(kind: type[Message], parts: list[str]) -> str:
    words = " ".join((getdoc(kind) or "").split())
    first = words.partition(". ")[0].rstrip(".").replace("|", "\\|")
    by = ", ".join(f"`{part}`" for part in parts) or "owner on the surface (routed)"
    return f"| {kind.wire:#06x} | `{kind.__name__}` | {by} | {first} |\n"


def page() -> str:
    """ARCHITECTURE.md with the present map."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + table() + after


def main() -> int:
    if "--check" in sys.argv:
        return int(page() != PAGE.read_text("utf-8"))
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
