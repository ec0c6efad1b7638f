"""A person at the page, on a network of twenty real nodes: everything once, with reloads and a killed node between."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stage import CHROMIUM, browser, watched

from implicast.net.commands.local import LocalNetwork, NodeProcesses, wait_for
from implicast.web.demo import bibliographies, folder_of, researchers
from implicast.web.pages import Pages

NONE = "there is no Chromium here: apt-get install chromium"
pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason=NONE)]
PICTURES = os.environ.get("IMPLICAST_PICTURES")
"""A folder where the pictures of the tutorial are put."""
PATIENCE_S = 180
"""For a machine that has other things to do."""
ANA, BASHIR, TOVA, CHIARA = "ana-duarte", "bashir-haddad", "tova-levi", "chiara-moretti"


class Town:
    """Twenty nodes as processes, each with its page."""

    def __init__(self, directory, design):
        people = researchers()
        self.pages = Pages(people, 0, {folder_of(each): each for each in bibliographies()})
        self.local = LocalNetwork(
            directory / "net", design, people, plain=False, limits=False, page=self.pages
        )
        self.local.create_folders()
        self.processes = NodeProcesses(self.local)
        self.processes.start_all()
        self.again = {}

    def kill_and_return(self, name):
        """As `kill -9`; then as its owner starts it again, with the command."""
        folder = self.local.directory / name
        if name in self.again:
            self.again[name].kill()
            self.again[name].wait(20)
        else:
            self.processes.kill(name)
        port = self.pages.address(name).split(":")[2].split("/")[0]
        command = [
            sys.executable,
            "-m",
            "implicast",
            "node",
            str(folder),
            "--web",
            port,
            "--log",
            "warning",
        ]
        self.again[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for([folder], lambda status: bool(status["joined"] and status["registered"]))

    def stop(self):
        for each in self.again.values():
            each.terminate()
        for each in self.again.values():
            each.wait(20)
        self.processes.stop()


@pytest.fixture(scope="module", params=["spice-unloaded"])
def town(request, tmp_path_factory):
    made = Town(tmp_path_factory.mktemp("town"), request.param)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def context():
    with browser(viewport={"width": 1100, "height": 760}) as made:
        made.set_default_timeout(PATIENCE_S * 1000)
        yield made


class Person:
    """Somebody at a page."""

    def __init__(self, town, context, name):
        self.base = town.pages.address(name).partition("/?")[0]
        self.page, self.faults = watched(context)
        self.page.goto(town.pages.address(name))

    def go(self, path):
        self.page.goto(self.base + path)
        return self.page

    def sees(self, text, path="/inbox", times=1):
        """The page shows this so often, now or soon."""
        self.go(path)
        deadline = time.monotonic() + PATIENCE_S
        while self.page.locator("main").get_by_text(text).count() != times:
            assert time.monotonic() < deadline, (text, self.page.locator("main").inner_text())
            time.sleep(0.2)
            self.page.reload()

    def write(self, target, subject, body):
        """A letter on its way; returns its address."""
        page = self.go("/write")
        page.fill("#target", target)
        page.click("text=Begin a letter")
        page.fill("#subject", subject)
        page.fill("#body", body)
        page.click("#send")
        return page.url

    def picture(self, name):
        if PICTURES:
            self.page.screenshot(path=str(Path(PICTURES) / f"page-{name}.png"))


@pytest.fixture(scope="module")
def person(town, context):
    known = {}

    def at_the_page(name):
        if name not in known:
            known[name] = Person(town, context, name)
        return known[name]

    return at_the_page


def named_everywhere(town, person):
    """All can be answered alone once their pages have said their names."""
    for name in (ANA, BASHIR, TOVA, CHIARA):
        page = person(name).go("/me")
        page.get_by_text("Registered.").wait_for()


def test_write_watch_the_receipt_reload_in_the_middle(town, person):
    named_everywhere(town, person)
    reader = person(BASHIR)
    reader.go("/inbox")
    ana = person(ANA)
    page = ana.go("/write")
    page.fill("#target", "overlay & (privacy")
    page.click("text=Begin a letter")
    page.locator("#meaning .error").wait_for()
    ana.picture("wrong")
    page.fill("#target", "")
    page.locator("#target").press_sequentially("overlay & pri", delay=20)
    page.locator("#completions li").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#target") == "overlay & privacy"
    page.get_by_text("It would reach").wait_for()
    page.fill("#subject", "Who measures leakage?")
    page.fill(
        "#body",
        "We compare what an overlay leaks with *telemetry*.\n\n- Does anybody have traces?\n",
    )
    page.get_by_text("Kept.").wait_for()
    ana.picture("write")
    page.reload()
    assert page.input_value("#subject") == "Who measures leakage?"
    assert "traces" in page.input_value("#body")
    page.click("#send")
    page.get_by_role("button", name="Take it back").wait_for()
    page.reload()
    page.get_by_text("have it").wait_for()
    page.locator("#receipt:not([hx-get])").wait_for(state="attached")
    said = page.locator("#receipt strong").first.inner_text()
    notified, expected = said.split(" of ")
    assert notified == expected != "0"
    ana.picture("receipt")
    page.reload()
    assert page.locator("#receipt strong").first.inner_text() == said
    reader.page.get_by_text("Who measures leakage?").first.wait_for()  # it came by itself
    reader.picture("inbox")
    assert not ana.faults
    assert not reader.faults


def test_many_tabs_of_one_page_all_hear_the_news(town, person, context):
    """A browser opens six connections to one place: nine tabs share one stream."""
    tabs = [context.new_page() for _ in range(9)]
    for tab in tabs:
        tab.goto(person(BASHIR).base + "/inbox")
    person(ANA).write("overlay & privacy", "To nine tabs", "x")
    for tab in tabs:
        tab.get_by_text("To nine tabs").first.wait_for()
        tab.close()


def test_take_back(town, person):
    ana = person(ANA)
    ana.write("overlay & privacy", "Never mind", "x")
    ana.page.get_by_role("button", name="Take it back").click()
    ana.page.get_by_text("nobody has seen it").wait_for()
    ana.page.click("text=Throw away")


def test_reply_and_reply_all_also_by_one_who_does_not_match(town, person):
    bashir = person(BASHIR)
    page = bashir.go("/inbox")
    page.get_by_text("Who measures leakage?").first.click()
    page.get_by_role("button", name="Reply to", exact=False).first.wait_for()
    bashir.picture("thread")
    page.get_by_role("button", name="Reply to Ana Duarte alone").click()
    page.get_by_text("alone. Nobody else").wait_for()
    page.fill("#body", "I have traces, for you alone.")
    page.get_by_text("Kept.").wait_for()
    page.reload()
    page.click("#send")
    page.get_by_text("1 of 1").first.wait_for()
    person(ANA).sees("Re: Who measures leakage?", "/inbox?folder=to%20me%20alone")
    person(CHIARA).sees("Re: Who measures leakage?", times=0)

    outsider = person(TOVA)
    page = outsider.go("/room?target=overlay%20%26%20privacy")
    page.get_by_text("you are not").wait_for()
    page.reload()
    page.fill("#body", "I do not match, and speak all the same.")
    page.click("text=Say it")
    page.wait_for_url("**/sent/*")
    page.reload()
    page.get_by_text("have it").wait_for()
    bashir.sees("I do not match", "/room?target=overlay%20%26%20privacy")
    bashir.page.fill("#body", "You are heard.")
    bashir.picture("room")

    page = bashir.go("/inbox")
    page.get_by_text("Who measures leakage?").last.click()
    page.get_by_role("button", name="Reply to all").first.click()
    page.wait_for_load_state()
    page.fill("#body", "To everybody.")
    page.reload()  # at once: what the node has not confirmed waits in the tab
    assert page.input_value("#body") == "To everybody."
    page.get_by_text("Kept.").wait_for()
    page.click("#send")
    page.wait_for_url("**/sent/*")
    page.reload()
    page.get_by_text("have it").wait_for()
    person(ANA).sees("To everybody.", times=1)


def test_import_a_bibliography(town, person, tmp_path):
    dances = "\n@article{x, title = {Tango tango tango tango tango}}"
    (tmp_path / "mine.bib").write_text(bibliographies()["Ana Duarte"] + dances)
    chiara = person(CHIARA)
    page = chiara.go("/me")
    page.set_input_files("#bib", str(tmp_path / "mine.bib"))
    page.click("text=Read it")
    page.get_by_label("tango").wait_for()
    page.reload()
    page.get_by_label("tango").wait_for()
    chiara.picture("me")
    page.get_by_label("storage").uncheck()
    page.click("text=Be these")
    page.get_by_text("Registered: letters that fit will come.").wait_for()
    said = page.input_value("#text")
    assert "tango" in said
    assert "storage" not in said
    assert "name:" not in said
    person(ANA).write("tango", "Do you dance?", "?")
    chiara.sees("Do you dance?")


def test_adopt_a_tag_rule(town, person):
    bashir, ana = person(BASHIR), person(ANA)
    page = bashir.go("/rules")
    page.fill("#tag", "privacy")
    page.select_option("#relation", "RT")
    page.fill("#other", "anonymity")
    page.click("text=State it")
    ana.sees("Adopt privacy RT anonymity", "/rules")
    page = ana.go("/write")
    page.fill("#target", "overlay & privacy")
    page.click("text=Begin a letter")
    page.get_by_text("It would reach").wait_for()
    assert page.locator(".offers").count() == 0, "one name is not enough"
    ana.go("/rules")
    ana.picture("rules")
    ana.page.get_by_role("button", name="Adopt privacy RT anonymity").click()
    ana.page.get_by_role("button", name="Take out privacy RT anonymity").wait_for()
    ana.page.reload()
    page = ana.go("/write")
    page.locator(".rows a").first.click()
    page.wait_for_url("**/write/*")
    page.reload()
    page.get_by_role("button", name="Widen to anonymity").click()
    page.get_by_text("The target is wider now").wait_for()
    page.reload()
    assert page.input_value("#target") == "anonymity & overlay | overlay & privacy"
    page.click("text=Throw away")


def test_complain_until_slowed_and_block(town, person):
    spammer = person("sven-holm")
    target = "privacy"
    audience = []
    for number in (1, 2):
        spammer.write(target, f"Buy now {number}", "cheap")
        spammer.page.get_by_text("have it").wait_for()
        spammer.page.locator("#receipt:not([hx-get])").wait_for(state="attached")
        if number == 1:
            for each in researchers():
                if "privacy" in each.text.split(", ") or each.name == CHIARA:
                    audience.append(each.name)
            for name in audience:
                someone = person(name)
                someone.sees("Buy now 1")
                someone.page.get_by_text("Buy now 1").click()
                someone.page.get_by_text("Not for me").click()
                someone.page.get_by_role("button", name="Complain about this letter").click()
                someone.page.get_by_text("signed with your name").wait_for()
                someone.page.reload()
                assert (
                    someone.page.get_by_role("button", name="Complain about this letter").count()
                    == 0
                )
    assert len(audience) >= 4
    spammer.write(target, "Buy now 3", "cheap")
    spammer.page.get_by_text("you are slowed").wait_for()
    spammer.picture("slowed")
    person(ANA).sees("Buy now 3", times=0)

    ana = person(ANA)
    ana.go("/inbox").get_by_text("Buy now 1").click()
    ana.page.get_by_text("Not for me").click()
    ana.page.get_by_role("button", name="Block this publisher").click()
    ana.page.wait_for_url("**/blocks*")
    ana.page.reload()
    ana.sees("Buy now", times=0)
    ana.sees("Sven Holm: Buy now", "/blocks", times=2)


def letters(each):
    return each.go("/inbox").locator(".rows li").count()


def test_killed_in_the_middle_nothing_is_lost_and_nothing_comes_twice(town, person):
    """Killed while a letter waits, while it is cast, while it is read; each time all is there, and once."""
    ana, bashir, chiara = person(ANA), person(BASHIR), person(CHIARA)
    before = [letters(each) for each in (ana, bashir)]
    page = ana.go("/write")
    page.fill("#target", "overlay & privacy")
    page.click("text=Begin a letter")
    page.fill("#subject", "A draft that stays")
    page.get_by_text("Kept.").wait_for()
    ana.write("overlay & privacy", "Killed while it waits", "once")
    town.kill_and_return(ANA)
    ana.sees("Killed while it waits", "/sent")
    bashir.sees("Killed while it waits")
    ana.write("overlay & privacy", "Killed while it is cast", "once")
    ana.page.locator("#receipt meter").wait_for()
    town.kill_and_return(ANA)
    ana.go("/sent").get_by_text("Killed while it is cast").click()
    ana.page.locator("#receipt:not([hx-get])").wait_for(state="attached")
    ana.page.reload()
    said = ana.page.locator("#receipt").inner_text()
    notified, _, expected = said.partition(" have it")[0].partition(" of ")
    assert notified == expected != "0", said
    bashir.sees("Killed while it is cast")
    bashir.page.get_by_text("Killed while it is cast").first.click()
    for name in (ANA, BASHIR, CHIARA):
        town.kill_and_return(name)
    ana.sees("A draft that stays", "/write")
    ana.sees("Sven Holm", "/blocks", times=3)
    ana.go("/rules").get_by_role("button", name="Take out privacy RT anonymity").wait_for()
    assert "tango" in chiara.go("/me").input_value("#text")
    bashir.sees("Killed while it waits")
    bashir.sees("Killed while it is cast")
    assert bashir.page.locator(".rows li.read").get_by_text("Killed while it is cast").count() == 1
    assert [letters(each) for each in (ana, bashir)] == [count + 2 for count in before]


def test_the_network_is_drawn_and_casts_pass(town, person):
    ana, bashir = person(ANA), person(BASHIR)
    ana.go("/network").locator("svg rect.tile.own").first.wait_for()
    ana.page.get_by_text("neighbours over").wait_for()
    bashir.write("overlay & privacy", "After the fall", "still here")
    ana.page.locator("#passing").get_by_text("After the fall").wait_for()
    ana.picture("network")
    ana.page.reload()
    ana.page.locator("#passing").get_by_text("After the fall").wait_for()
    ana.sees("After the fall")
