"""The examples of the reference page do what the page says."""

import doctest
from pathlib import Path

import pytest

from implicast.language.limits import LIMITS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "language.md"


def test_the_examples_of_the_page_run() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")

    assert tried > 20
    assert failed == 0


@pytest.mark.parametrize("limit", LIMITS.__slots__)
def test_the_page_states_every_limit(limit: str) -> None:
    assert f"| `{limit}` | {getattr(LIMITS, limit):,} |" in PAGE.read_text(encoding="utf-8")
