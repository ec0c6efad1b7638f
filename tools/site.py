"""Makes one site of `docs/` and of the pages at the root of the repository: `make docs` writes it
to `out/site`.

README becomes the first page, each folder of `docs/` a section with its pages under their own
titles. Links between pages stay links; links to what is no page, such as a source, lead nowhere on
a site and become plain words. Sphinx checks all others, and any warning ends the build. The search
works from a folder, without a server.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
AT_ROOT = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "GLOSSARY.md": "glossary.md",
    "CHANGELOG.md": "changes.md",
}
SECTIONS = {"tutorial": "Tutorial", "how-to": "How to", "reference": "Reference", "why": "Why"}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
SETTINGS = """
project = "Implicast"
html_title = "Implicast"
html_theme = "furo"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_show_sphinx = html_show_copyright = html_copy_source = html_use_index = False
html_static_path, html_css_files = ["_static"], ["own.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e69", "color-brand-content": "#0b6e69"},
    "dark_css_variables": {"color-brand-primary": "#5ec8bf", "color-brand-content": "#5ec8bf"},
}
"""
STYLE = """
.toc-tree li > a { display: block; min-height: 1.6rem; padding-block: .25rem; line-height: 1.4; }
.highlight .nn { text-decoration: none !important; }
"""
"""Links beside a page are far enough apart for a finger; in code nothing looks like a link that is
none.
"""


def staged(folder: Path) -> list[str]:
    """Write all pages to a folder of their own, linked as they will be; their names."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = {ROOT / name: where for name, where in AT_ROOT.items() if (ROOT / name).exists()}
    for page in sorted(DOCS.rglob("*.md")):
        if (
            page != DOCS / "README.md"
        ):  # for those who browse the repository; the site has its contents beside it
            pages[page] = page.relative_to(DOCS).as_posix()
    for page, where in pages.items():
        out = folder / where
        out.parent.mkdir(parents=True, exist_ok=True)
        text = LINK.sub(
            lambda found, page=page, where=where: _relinked(found, page, where, pages), _text(page)
        )
        out.write_text(text, "utf-8")
    for beside in [each for each in DOCS.rglob("*") if each.suffix in (".svg", ".png", ".json")]:
        out = folder / beside.relative_to(DOCS)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(beside, out)
    (folder / "index.md").write_text(
        _text(folder / "index.md") + _contents(list(pages.values())), "utf-8"
    )
    (folder / "conf.py").write_text(SETTINGS, "utf-8")
    (folder / "_static").mkdir()
    (folder / "_static" / "own.css").write_text(STYLE, "utf-8")
    return sorted(pages.values())


def _text(page: Path) -> str:
    return page.read_text("utf-8")


def _relinked(found: re.Match[str], page: Path, where: str, pages: dict[Path, str]) -> str:
    picture, text, target, anchor = found.groups()
    if "://" in target or not target:
        return found[0]
    path, up = (page.parent / target).resolve(), "../" * where.count("/")
    if picture and path.is_relative_to(DOCS):
        return f"![{text}]({up}{path.relative_to(DOCS).as_posix()})"
    if path.suffix == ".json" and path.is_relative_to(DOCS) and path.exists():
        return f"[{text}]({up}{path.relative_to(DOCS).as_posix()})"
    if path in pages:
        return f"[{text}]({up}{pages[path]}{anchor or ''})"
    return text


def _contents(pages: Collection[str]) -> str:
    """The sections beside each page, without a list on the first one."""
    inside = {
        folder: [each for each in pages if each.startswith(f"{folder}/")] for folder in SECTIONS
    }
    parts = [_tree(title, inside[folder]) for folder, title in SECTIONS.items()]
    alone = [each for each in pages if "/" not in each and each not in AT_ROOT.values()]
    rest = [*alone, *(each for each in AT_ROOT.values() if each != "index.md" and each in pages)]
    return "\n" + "\n".join([*parts, _tree("The project", rest)])


def _tree(title: str, pages: list[str]) -> str:
    lines = "\n".join(page.removesuffix(".md") for page in pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}\n```\n"


MENDED = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}
"""What keeps those who listen to a page or have no mouse from reading what the theme makes, and
what helps them.
"""


def _mend(out: Path) -> None:
    for page in out.rglob("*.html"):
        text = _text(page)
        for wrong, right in MENDED.items():
            text = text.replace(wrong, right)
        page.write_text(text, "utf-8")


def build(out: Path) -> int:
    source = out.parent / f"{out.name}-source"
    pages = staged(source)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", source, out]
    )
    if not done.returncode:
        _mend(out)
        print(f"{len(pages)} pages in {out}/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else "out/site")))
