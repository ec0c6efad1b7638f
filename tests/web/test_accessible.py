"""Every page in both themes at three widths: axe-core finds nothing, nothing is cut off; it reads without script."""

import pytest
from axe import WIDTHS, objections
from stage import browser, watched

from implicast.language.rules import Rule
from implicast.peer.contract import CastId
from implicast.web.letter import File, Letter

pytestmark = pytest.mark.long
PAGES = (
    "/inbox",
    "/inbox?folder=football",
    "/thread/u1",
    "/search?q=letter",
    "/write",
    "DRAFT",
    "WRONG",
    "SENT",
    "/sent",
    "/rooms",
    "/room?target=football",
    "/me",
    "/rules",
    "/blocks",
    "/network",
    "/nowhere",
)


@pytest.fixture(scope="module")
def furnished(stage):
    """A desk on which there is something of everything."""
    desk = stage.desk("ann")
    client = stage.client("ann")

    def furnish():
        text = "A letter with **marks**, [a link](https://example.org):\n\n- one\n- two\n\n> quoted\n\n`code`\n\n# Head"
        for number in range(60):
            letter = Letter(
                f"u{number}",
                "football" if number % 2 else "jazz & football",
                "Ann O'Nymous",
                f"Subject {number} that is rather long, so that it has to be cut somewhere",
                text,
                "u1" if number in (1, 3, 5) else "",
                files=(File("a picture.png", b"x"),),
            )
            desk.letters.take(
                CastId(bytes([number % 5]) * 16, 1, number), letter, 1_700_000_000_000_000 + number
            )
        desk.thesaurus.state(Rule("samba", "UF", "batucada"))
        for number in range(4):
            desk.thesaurus.hear(
                CastId(bytes([number + 9]) * 16, 1, 1), [Rule("football", "NT", "futsal")]
            )
        desk.blocks.add("publisher", "ab" * 16, 1)
        desk.mailbox.put(
            "bibliography", "@article{a, title = {Privacy of overlays}} @article{b, broken"
        )
        desk.mailbox.put("proposed", "1")

    stage.do(furnish)
    draft = client.post("/write/new", data={"target": "samba | football"}).headers["location"]
    wrong = client.post("/write/new", data={"target": "samba | ("}).headers["location"]
    other = client.post("/write/new", data={"target": "football"}).headers["location"]
    sent = client.post(
        f"{other}/send", data={"target": "football", "subject": "s", "body": "b"}
    ).headers["location"]
    return {"DRAFT": draft, "WRONG": wrong, "SENT": sent}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_in_anybodys_way(stage, axe, furnished, theme, width):
    base = stage.base("ann")
    found = []
    with browser(
        color_scheme=theme, viewport={"width": width, "height": 800}, bypass_csp=True
    ) as context:
        page = context.new_page()
        page.goto(stage.address("ann"))
        for path in PAGES:
            page.goto(base + furnished.get(path, path))
            found += [(path, *each) for each in objections(page, axe)]
    assert not found, "\n".join(map(str, found))


def test_it_reads_and_writes_without_script(stage, furnished):
    base = stage.base("ann")
    with browser(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(stage.address("ann"))
        page.goto(base + "/inbox")
        page.get_by_text("Subject 59").first.click()
        page.get_by_role("button", name="Reply to all").first.click()
        page.fill("#body", "without script")
        page.get_by_role("button", name="Send").last.click()
        page.get_by_role("button", name="Take it back").click()
        assert page.input_value("#body") == "without script"


def test_the_keyboard_goes_everywhere(stage, furnished):
    """Tab reaches every link, button and field in turn, and one sees where one is."""
    with browser() as context:
        page, faults = watched(context)
        page.goto(stage.address("ann"))
        for path in ("/inbox", "/thread/u1", furnished["DRAFT"]):
            page.goto(stage.base("ann") + path)
            count = page.evaluate("""[...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
                .filter(each => each.tabIndex >= 0 && each.checkVisibility() && each.type !== 'hidden').length""")
            reached = set()
            for _ in range(count + 5):
                page.keyboard.press("Tab")
                place = page.evaluate("""(() => { const here = document.activeElement;
                    const seen = getComputedStyle(here).outlineStyle !== 'none';
                    const all = [...document.querySelectorAll('*')];
                    return [here.tagName, all.indexOf(here), seen]; })()""")
                if place[0] != "BODY":
                    assert place[2], place
                    reached.add(place[1])
            assert len(reached) >= count * 0.8, (path, len(reached), count)
        assert not faults
