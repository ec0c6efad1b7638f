"""Writes docs/reference/mistakes.md from the lists of mistakes in tests/faults: mistakes_*.py and
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
HEAD = """# Deliberate mistakes

*Each row is a mutation test of the checkers. A test switches the rule off and runs a scenario; a
checker must report the text in the last column. With the rule on, the same scenario must pass.
Rows of `ice` test the surface below SPICE, with a store made for the test.
`python tools/mistakes.py` writes this page.*

| design | mistake | rule | reported text |
|---|---|---|---|
"""


def mistakes() -> list[Any]:
    """All mistakes, by file, in the order of the file."""
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
