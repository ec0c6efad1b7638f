"""A newcomer, word by word: a fresh environment with the wheel and its extra `lab`, then tutorials 1 to 4 as they are.

What follows a `$` is typed into a shell, and the Python of a page is run as one file, all in one folder. Nothing is
known but what the pages say.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_installed import wheel  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorial").glob("[1-4]-*.md"))
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MINUTES = 3
"""How long a first cast of one's own may take, from the first word of the first page to its end."""


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:  # noqa: F811
    """What a shell has after `activate`."""
    there = tmp_path_factory.mktemp("newcomer")
    subprocess.run([sys.executable, "-m", "venv", there / "mine"], check=True)
    install = [
        there / "mine" / "bin" / "pip",
        "install",
        "-q",
        "-c",
        ROOT / "constraints.txt",
        f"{wheel}[lab]",
    ]
    subprocess.run(install, check=True)
    kept = {name: value for name, value in os.environ.items() if name in ("JAVA_HOME", "LANG")}
    return {
        **kept,
        "PATH": f"{there / 'mine' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(there),
    }


def typed(page: Path, desk: Path) -> list[list[str]]:
    """What the page asks for: lines for a shell, then all its Python as one file."""
    found = BLOCK.findall(page.read_text("utf-8"))
    lines = [
        line[2:]
        for kind, text in found
        if kind == "console"
        for line in text.splitlines()
        if line[:2] == "$ "
    ]
    script = desk / "page.py"
    script.write_text("".join(text for kind, text in found if kind == "python"))
    return [*(["bash", "-c", line] for line in lines), ["python", str(script)]]


@pytest.mark.long
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_word_by_word(page: Path, environment: dict[str, str], tmp_path: Path) -> None:
    begun, said = time.monotonic(), ""
    for words in typed(page, tmp_path):
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        said += done.stdout
    took_s = time.monotonic() - begun
    print(f"{page.stem}: {took_s:.0f} s")
    if page.stem.startswith("1-"):
        assert "reached" in said
        assert took_s < 60 * MINUTES
