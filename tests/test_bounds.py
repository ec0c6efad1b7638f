"""The page of bounds is what the code says, and every bound it names is explained and used."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("bounds", ROOT / "tools" / "bounds.py")
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)

FOUND = [(module, each) for module, found in tool.modules() for each in found]


def test_the_page_is_what_the_code_says():
    assert tool.page() == tool.PAGE.read_text("utf-8"), "run: python tools/bounds.py"


@pytest.mark.parametrize(("module", "bound"), FOUND, ids=[f"{module}:{each.name}" for module, each in FOUND])
def test_a_bound_says_what_it_is_for(module, bound):
    assert bound.meaning, f"{module}: {bound.name} has no docstring below it"


def test_a_bound_is_used_and_not_only_named():
    words = Counter(word for path in tool.SOURCE.rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8")))
    idle = [f"{module}: {each.name}" for module, each in FOUND if words[each.name.rpartition(".")[2]] < 2]

    assert not idle


def test_every_room_has_bounds_and_the_page_has_their_values():
    page = tool.PAGE.read_text("utf-8")

    assert {module.partition("/")[0] for module, _ in FOUND} == set(tool.ROOMS)
    assert "| `casting/inbox.py` | `PUBLISHERS_MAX` | 65,536 |" in page
