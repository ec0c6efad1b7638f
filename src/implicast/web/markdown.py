"""Markdown from strangers into HTML that does nothing: no HTML of theirs, no pictures from outside, links by scheme."""

from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

SCHEMES = {"http", "https", "mailto"}
SHIFT = 2
"""A letter's headings stand below the page's."""


def _is_harmless(url: str) -> bool:
    try:
        return urlsplit(url).scheme.lower() in SCHEMES
    except ValueError:
        return False


def _lower_headings(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + SHIFT)}"


def _link_open(renderer: Any, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    token.attrs = {"href": str(token.attrGet("href") or ""), "rel": "noopener noreferrer nofollow", "target": "_blank"}
    return str(renderer.renderToken(tokens, at, options, env))


def _made() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").enable("strikethrough")
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
