"""The checkers fail when they should: every mistake of the registry is caught, by name, and nothing is without it."""

import importlib
import importlib.util
from pathlib import Path

import pytest
from mistake import Mistake

from implicast.trials.campaign import check

FILES = sorted(Path(__file__).parent.glob("mistakes_*.py"))
MISTAKES: list[Mistake] = [
    each for file in FILES for each in importlib.import_module(file.stem).MISTAKES
]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mistakes.md"


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            each,
            id=f"{each.design}: {each.name}",
            marks=pytest.mark.long if each.long else (),
        )
        for each in MISTAKES
    ],
)
def test_a_mistake_is_caught_and_only_the_mistake(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        mistake.put(patch)
        findings = (check(each) for each in mistake.candidates())
        caught = next(
            (one for one in findings if any(mistake.says in reason for reason in one.reasons)), None
        )

    assert caught is not None, (
        f"{mistake.name}: nobody said {mistake.says!r} in {len(mistake.candidates())} scenarios"
    )
    assert not check(caught.scenario).reasons, "without the mistake the same scenario is clean"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location(
        "mistakes_page", PAGE.parents[2] / "tools" / "mistakes.py"
    )
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_every_mistake_has_a_name_of_its_own_and_is_shown_by_words(tool):
    names = [(each.design, each.name) for each in tool.mistakes()]

    assert len(set(names)) == len(names)
    assert all(each.says and each.rule for each in tool.mistakes()), "any objection would do"


def test_the_page_lists_them_all_those_of_the_surface_too(tool):
    assert {"ice", *(each.design for each in MISTAKES)} == {each.design for each in tool.mistakes()}
    assert tool.page() == PAGE.read_text("utf-8"), "run: python tools/mistakes.py"


def test_every_surviving_mutant_is_a_fault_of_a_line_that_exists(tool):
    source = PAGE.parents[2] / "src" / "implicast"
    for each in tool.survivors():
        lines = [line.strip() for line in (source / each.path).read_text("utf-8").splitlines()]
        assert each.before in lines, f"{each.key}: {each.path} has no such line"
        assert each.before != each.after
