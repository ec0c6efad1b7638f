"""The code and the documents use the vocabulary of the field and name the actor.

A private word in the name of a class, module, function, attribute, parameter, setting or column
has no meaning for a reader of the field. A vague pronoun hides which role acts.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from implicast.casting.designs import designs
from implicast.world.columns import COLUMNS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "implicast"
VAGUE = re.compile(r"\b(whoever|nobody|somebody|everybody|anybody|someone)\b", re.IGNORECASE)
VAGUE_MOST = 20
"""Vague words that `src`, and `docs` with README, may contain."""
PRIVATE = frozenset(
    {
        "heir",
        "estate",
        "atlas",
        "plot",
        "inquest",
        "witness",
        "bury",
        "buried",
        "gift",
        "hail",
        "tenant",
        "tenure",
        "laying",
        "rumour",
        "mourn",
        "doubt",
        "shelf",
        "climb",
        "keepsake",
        "deed",
        "errand",
        "upheaval",
        "hardship",
        "sleeper",
        "station",
        "roster",
        "docket",
        "portrait",
        "freight",
        "astray",
        "risen",
        "life",
    }
)
PRIVATE_IN_WORLD = PRIVATE | {"enrol", "enrolled", "enrolling"}
PLURALS = {"shelves": "shelf", "lives": "life", "witnesses": "witness"}


def vague(paths: Iterator[Path]) -> Counter[str]:
    """By file, how many vague words it contains."""
    counts = {str(path): len(VAGUE.findall(path.read_text("utf-8"))) for path in paths}
    return Counter({path: count for path, count in counts.items() if count})


def parts(name: str) -> list[str]:
    """The words of an identifier in singular."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_")
    return [
        PLURALS.get(word, word[:-1] if word[:-1] in PRIVATE_IN_WORLD else word) for word in words
    ]


def identifiers(path: Path) -> Iterator[tuple[int, str]]:
    """Every name that a module defines, with its line, and the name of the module."""
    yield 0, path.stem
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def private_names(path: Path) -> list[str]:
    """`path:line name` of each identifier that contains a private word."""
    where = path.relative_to(SOURCE)
    words = PRIVATE_IN_WORLD if where.parts[0] == "world" else PRIVATE
    found = {f"{where}:{line} {name}" for line, name in identifiers(path) if words & {*parts(name)}}
    return sorted(found)


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(lambda: SOURCE.rglob("*.py*"), id="src"),
        pytest.param(lambda: [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"], id="docs"),
    ],
)
def test_prose_names_the_actor(paths):
    counts = vague(path for path in paths() if path.suffix in (".py", ".pyx", ".md"))
    assert counts.total() <= VAGUE_MOST, counts.most_common()


def test_no_identifier_contains_a_private_word():
    found = [each for path in sorted(SOURCE.rglob("*.py")) for each in private_names(path)]
    assert not found, f"{len(found)}:\n" + "\n".join(found)


def test_no_setting_or_column_contains_a_private_word():
    settings = {one.name for each in designs().values() for one in each.parameters}
    columns = {name for table, names in COLUMNS.items() for name in (table, *names)}
    assert not [name for name in sorted(settings | columns) if PRIVATE & {*parts(name)}]


def test_a_private_word_is_seen():
    assert parts("drop_heirs") == ["drop", "heir"]
    assert parts("KeptShelves") == ["kept", "shelf"]
    assert not PRIVATE & {*parts("lifetime_us")}
