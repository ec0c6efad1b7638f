"""Templates, and what every page shows: escaped by default, strict about what is missing."""

import re
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from implicast.web.desk import Desk
from implicast.web.markdown import rendered

PLACES = (
    ("inbox", "/inbox", "Inbox"),
    ("write", "/write", "Write"),
    ("sent", "/sent", "Sent"),
    ("rooms", "/rooms", "Rooms"),
    ("me", "/me", "Who I am"),
    ("rules", "/rules", "Tag rules"),
    ("blocks", "/blocks", "Blocked"),
    ("network", "/network", "Network"),
)


_MARKS = re.compile(r"[*_`#>|]+|^\s*-\s|\]\([^)]*\)|\[", re.MULTILINE)


class PageView:
    """Makes pages."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._jinja = Environment(
            loader=PackageLoader("implicast.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._jinja.filters |= {
            "markdown": rendered,
            "when": when,
            "iso": iso,
            "short": short,
            "size": size,
            "url": lambda text: quote(str(text), safe=""),
            "some": some,
            "plain": plain,
            "clock": clock,
        }

    def page(
        self, request: Request, template: str, place: str, title: str, **values: Any
    ) -> HTMLResponse:
        desk = self._desk
        common = {
            "place": place,
            "places": PLACES,
            "title": title,
            "unread": desk.letters.unread(),
            "author": desk.author or "nobody yet",
            "own": desk.name,
            "network": desk.node.config.network,
            "query": request.query_params.get("q", ""),
            "said": request.query_params.get("said", ""),
        }
        return HTMLResponse(self._jinja.get_template(template).render(common | values))

    def part(self, template: str, **values: Any) -> HTMLResponse:
        """A piece of a page."""
        return HTMLResponse(self._jinja.get_template(template).render(values))


def to(path: str, said: str = "") -> RedirectResponse:
    """Go on to a page, which says so; `said` is a key of sentences that the page knows, never free
    text.
    """
    return RedirectResponse(
        path + (("&" if "?" in path else "?") + f"said={said}" if said else ""), 303
    )


def when(at_us: int) -> str:
    """As a person says it: the time today, the day before that."""
    then, now = time.localtime(at_us / 1e6), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%-d %b" if then.tm_year == now.tm_year else "%-d %b %Y", then)


def clock(at_us: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_us / 1e6))


def iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="seconds")


def short(name: str) -> str:
    return name[:8]


def plain(text: str) -> str:
    """The beginning of a text without the marks of Markdown."""
    return " ".join(_MARKS.sub(" ", text).split())


def size(count: int) -> str:
    return (
        f"{count} bytes"
        if count < 1000
        else f"{count / 1000:.0f} kB"
        if count < 1e6
        else f"{count / 1e6:.1f} MB"
    )


def some(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
