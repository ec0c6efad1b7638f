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
MUTANTS = """
## Mutants

`make mutants` puts small faults that a seed draws into engines and judge, one at a time, and prints
the share that unit tests, golden journals and ten scenarios catch. These survive. `equivalent`: no
run differs. `cost only`: messages, memory or time differ. `open`: no check sees the fault.

| mutant | file | line | with the fault | sort | reason |
|---|---|---|---|---|---|
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


def survivors() -> list[Any]:
    """The mutants of `tools/mutants.py` that no check catches."""
    sys.path.insert(0, str(FAULTS))
    try:
        return list(importlib.import_module("surviving_mutants").SURVIVORS)
    finally:
        sys.path.remove(str(FAULTS))


def page() -> str:
    rows = [f"| {each.design} | {each.name} | {each.rule} | {each.says} |" for each in mistakes()]
    left = [
        f"| {each.key} | {each.path} | `{each.before}` | `{each.after}` | {each.sort} | {each.reason} |"
        for each in survivors()
    ]
    return HEAD + "\n".join(rows) + "\n" + MUTANTS + "\n".join(left) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
