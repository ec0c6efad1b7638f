"""The laboratory's report and the documentation's site, in both themes at three widths: axe-core finds nothing.

The report is the demonstration's; a folder of results in `IMPLICAST_REPORTED` spares running it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from axe import WIDTHS, objections
from stage import browser

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]
THEMES = ["light", "dark"]


def _run(*words):
    went = subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert went.returncode == 0, went.stdout + went.stderr


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    where, given = tmp_path_factory.mktemp("report") / "demo", os.environ.get("IMPLICAST_REPORTED")
    if given:
        shutil.copytree(given, where)
        _run("-m", "implicast", "lab", "report", where)
    else:
        _run("-m", "implicast.lab.demo", where)
    return where / "report.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("furo", reason="the site is made with Sphinx and furo, of the extra `dev`")
    where = tmp_path_factory.mktemp("site") / "html"
    _run("tools/site.py", where)
    return where


def checked(pages, axe, theme, width):
    found = []
    with browser(color_scheme=theme, viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        for path in pages:
            page.goto(path.as_uri())
            found += [(path.name, *each) for each in objections(page, axe)]
    return found


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_is_in_nobodys_way(report, axe, theme, width):
    found = checked([report], axe, theme, width)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_site_is_in_nobodys_way(site, axe, theme, width):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    found = checked(pages, axe, theme, width)
    assert not found, "\n".join(map(str, found))
