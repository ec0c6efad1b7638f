"""Writes docs/reference/mistakes.md from the registries of mistakes in tests/faults: mistakes_*.py,
ice_mistakes.py.

python tools/mistakes.py
"""

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FAULTS = ROOT / "tests" / "faults"
PAGE = ROOT / "docs" / "reference" / "mistakes.md"
HEAD = """# Mistakes put in on purpose

*A checker that never objects proves nothing. Each of these rules is switched off by a test; the checkers object, in
these words, and are silent about the same scenario when the rule is back. Those of `ice` are rules of the surface that
SPICE lives on, tried with a tenant of its own. Written by `python tools/mistakes.py`.*

| design | mistake | the rule | the checkers say |
|---|---|---|---|
"""


def mistakes() -> list[Any]:
    """All of them, by file and in the order of each."""
    sys.path.insert(0, str(FAULTS))
    try:
        files = sorted(FAULTS.glob("mistakes_*.py"))
        surface = importlib.import_module("ice_mistakes")
        listed = [each for file in files for each in importlib.import_module(file.stem).MISTAKES]
        return [*listed, *surface.MISTAKES, *surface.DIRECTED]
    finally:
        sys.path.remove(str(FAULTS))


def page() -> str:
    rows = [f"| {each.design} | {each.name} | {each.rule} | {each.says} |" for each in mistakes()]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
