"""axe-core, the checker of accessibility, for the tests here.

It is not shipped: it is taken from the folder in `AXE_CORE` (the unpacked npm package), or asked of `npm pack`.
"""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

WIDTHS = (360, 800, 1400)
LAWS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
NONE = "axe-core is neither in AXE_CORE nor to be had from npm"


def checker(where):
    """The script itself."""
    given = os.environ.get("AXE_CORE")
    if given:
        return (Path(given) / "axe.min.js").read_text()
    if shutil.which("npm") is None:
        pytest.skip(NONE)
    went = subprocess.run(
        ["npm", "pack", "--silent", "axe-core@4"], cwd=where, capture_output=True, check=False
    )
    found = list(where.glob("*.tgz"))
    if went.returncode or not found:
        pytest.skip(NONE)
    with tarfile.open(found[0]) as packed:
        return packed.extractfile("package/axe.min.js").read().decode()


def objections(page, axe):
    """What axe says against a page, and what of it lies beyond the edge."""
    page.evaluate(axe)
    said = page.evaluate(f"axe.run(document, {{runOnly: {LAWS}}}).then(done => done.violations)")
    found = [(each["id"], [node["html"][:160] for node in each["nodes"][:3]]) for each in said]
    beyond = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return [*found, ("beyond the edge", f"{beyond} px")] if beyond > 0 else found
