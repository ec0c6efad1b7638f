"""What the documentation shows works: its Python runs, its commands succeed, its links lead somewhere."""

import doctest
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from implicast.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
HEAVY = ("lab ", "campaign")
"""Commands that need Spark or minutes: they have tests of their own."""


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def commands(page: Path) -> list[str]:
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith(("$ implicast ", "$ printf "))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for block in blocks(page, "python"):
        if ">>>" in block:
            examples = doctest.DocTestParser().get_doctest(block, space, name(page), str(page), 0)
            told: list[str] = []
            ran = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
                examples, out=told.append, clear_globs=False
            )
            space.update(examples.globs)
            assert not ran.failed, "".join(told)
        else:
            exec(compile(block, str(page), "exec"), space)
    assert space


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_the_commands_of_a_page_succeed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in commands(page):
        if command.startswith("printf "):
            subprocess.run(["sh", "-c", command], check=True)
            continue
        words = shlex.split(command, comments=True)[1:]
        if not " ".join(words).startswith(HEAVY):
            ran = CliRunner().invoke(main, words)
            assert ran.exit_code == 0, f"{command}\n{ran.output}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_links_of_a_page_lead_somewhere(page):
    for link in LINK.findall(page.read_text()):
        if not link.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / link).exists(), f"{name(page)} links to {link}"
