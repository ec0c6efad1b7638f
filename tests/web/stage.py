"""A few real nodes with their pages in a thread of their own, and a browser where there is one: for the tests here."""

import asyncio
import shutil
import threading
from collections.abc import Callable
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from implicast.net.commands.local import InProcessNodes, LocalNetwork, MemberSpec
from implicast.web.pages import Pages

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
ANN_AND_BOB = [MemberSpec("ann", "samba, football"), MemberSpec("bob", "jazz, football")]


class Stage:
    """A network whose nodes run in a thread; `do` runs something there and gives what it returns."""

    def __init__(self, directory, people=ANN_AND_BOB, design="centralised", plain=True):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.pages = Pages(people, 0)
        self._tasks = InProcessNodes(
            LocalNetwork(
                directory / "net", design, people, plain=plain, limits=False, page=self.pages
            )
        )
        self._tasks._local.create_folders()
        self.wait(self._tasks.start_all())

    def wait(self, what, seconds=60):
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(seconds)

    def do(self, what: Callable, *arguments):
        async def doing():
            found = what(*arguments)
            return await found if asyncio.iscoroutine(found) else found

        return self.wait(doing())

    def desk(self, name):
        return self.pages.desk(name)

    def address(self, name):
        return self.pages.address(name)

    def base(self, name):
        return self.address(name).partition("/?")[0]

    def client(self, name):
        """Somebody who has the token, as a browser would send it."""
        base = self.base(name)
        client = httpx.Client(base_url=base, headers={"origin": base}, timeout=30)
        assert client.get(self.address(name)).status_code == 303
        return client

    def node(self, name):
        return self._tasks.nodes[name]

    def stop(self):
        self.wait(self._tasks.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@contextmanager
def browser(**options):
    """A page of Debian's Chromium; what it complains of is in `page.faults`."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield launched.new_context(**options)
        finally:
            launched.close()


def watched(context):
    """A new page that notes errors, dialogs, and requests to elsewhere."""
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "console",
        lambda said: faults.append(f"console: {said.text}") if said.type == "error" else None,
    )
    page.on(
        "request",
        lambda asked: (
            None
            if urlsplit(asked.url).hostname in ("127.0.0.1", "")
            or asked.url.startswith(("data:", "about:", "blob:"))
            else faults.append(f"asked {asked.url}")
        ),
    )
    return page, faults
