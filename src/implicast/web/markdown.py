"""Markdown from strangers into HTML that does nothing: no HTML of theirs, no pictures from outside,
links by scheme.
"""

from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

SCHEMES = {"http", "https", "mailto"}
UPPER, LOWER = "h3", "h4"
"""A letter's headings stand below the page's, and none is left out."""


def _is_harmless(url: str) -> bool:
    try:
        return urlsplit(url).scheme.lower() in SCHEMES
    except ValueError:
        return False


def _lower_headings(tokens: Sequence[Token]) -> None:
    """To the level below the letter's own, or one further down where another heading stands above."""
    above = ""
    for token in tokens:
        if token.type == "heading_open":
            above = token.tag = LOWER if above and int(token.tag[1]) > 2 else UPPER
        elif token.type == "heading_close":
            token.tag = above


def _link_open(
    renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[at]
    token.attrs = {
        "href": str(token.attrGet("href") or ""),
        "rel": "noopener noreferrer nofollow",
        "target": "_blank",
    }
    return str(renderer.renderToken(tokens, at, options, env))


def _made() -> MarkdownIt:
    made = (
        MarkdownIt("commonmark", {"html": False, "linkify": False})
        .enable("table")
        .enable("strikethrough")
    )
    made.disable(["image", "html_block", "html_inline"])
    setattr(made, "validateLink", _is_harmless)  # noqa: B010 - how the library wants it
    made.add_render_rule("link_open", _link_open)
    return made


_markdown = _made()


def rendered(text: str) -> Markup:
    """Safe to put into a page."""
    tokens = _markdown.parse(text)
    _lower_headings(tokens)
    return Markup(_markdown.renderer.render(tokens, _markdown.options, {}))
