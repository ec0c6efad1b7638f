"""The documentation as a site: every page is there, links hold, nothing is loaded from outside."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("furo", reason="the site is made with Sphinx and furo, of the extra `dev`")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("site_tool", ROOT / "tools" / "site.py")
    tool = importlib.util.module_from_spec(spec)
    sys.modules["site_tool"] = tool
    spec.loader.exec_module(tool)
    out = tmp_path_factory.mktemp("site") / "html"
    assert tool.build(out) == 0, "Sphinx warned: a link leads nowhere, or a page is in no section"
    return out


def test_every_page_of_the_documentation_is_on_the_site(site):
    pages = [
        page.relative_to(ROOT / "docs").with_suffix(".html")
        for page in (ROOT / "docs").rglob("*.md")
    ]

    missing = [page for page in pages if page.name != "README.html" and not (site / page).exists()]
    assert missing == []
    assert (site / "searchindex.js").exists()


def test_nothing_is_loaded_from_outside(site):
    loads = re.compile(r'<(?:script|img|link)[^>]+(?:src|href)="(https?:)?//[^"]*"')
    found = {
        page.name: hit[0]
        for page in site.rglob("*.html")
        if (hit := loads.search(page.read_text("utf-8")))
    }

    assert found == {}
