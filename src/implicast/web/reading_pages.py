"""Pages for reading: folders, threads, search, rooms, what is attached, what is blocked."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from implicast.language.errors import LanguageError
from implicast.language.parse import parse
from implicast.net.node import NodeError
from implicast.web.blocks import KINDS
from implicast.web.desk import Desk
from implicast.web.letters import ALONE, PAGE, PLAIN, cast_id
from implicast.web.view import PageView, to

PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""By their first bytes; nothing else is shown, all else is only saved."""
BEAT_S = 15.0


class ReadingPages:
    """What a reader asks for."""

    def __init__(self, desk: Desk, view: PageView) -> None:
        self._desk, self._view = desk, view

    def routes(self) -> list[Route]:
        return [
            Route("/", self.start),
            Route("/inbox", self.inbox),
            Route("/inbox/list", self.inbox_list),
            Route("/thread/{uid}", self.thread),
            Route("/search", self.search),
            Route("/letter/{letter:int}/file/{number:int}", self.file),
            Route("/rooms", self.rooms),
            Route("/room", self.room),
            Route("/room/list", self.room_list),
            Route("/blocks", self.blocks),
            Route("/blocks/add", self.block, methods=["POST"]),
            Route("/blocks/remove", self.unblock, methods=["POST"]),
            Route("/letter/{letter:int}/complain", self.complain, methods=["POST"]),
            Route("/events", self.events),
        ]

    async def start(self, request: Request) -> Response:
        return RedirectResponse("/inbox", 303)

    # --- folders

    def _folder(self, request: Request) -> dict[str, object]:
        folder = request.query_params.get("folder")
        number = max(0, min(100_000, _number(request.query_params.get("page"))))
        rows = self._desk.letters.page(folder, number)
        total, hidden = self._desk.letters.counts()
        return {
            "folder": folder,
            "number": number,
            "rows": rows[:PAGE],
            "more": len(rows) > PAGE,
            "total": total,
            "folders": self._desk.letters.folders(),
            "hidden": hidden,
            "alone": ALONE,
            "plain": PLAIN,
            "unread": self._desk.letters.unread(),
            "own": self._desk.name,
        }

    async def inbox(self, request: Request) -> Response:
        values = self._folder(request)
        title = str(values["folder"] or "All letters")
        return self._view.page(request, "inbox.html", "inbox", title, **values)

    async def inbox_list(self, request: Request) -> Response:
        return self._view.part("inbox_list.html", **self._folder(request))

    async def thread(self, request: Request) -> Response:
        uid = request.path_params["uid"]
        rows = self._desk.letters.thread(uid)
        if not rows:
            raise HTTPException(404)
        if self._desk.letters.mark_read(uid):
            self._desk.tell("read")
        for row in rows:
            row["namesake"] = row["author"] and self._desk.letters.namesakes(
                row["publisher"], row["author"]
            )
        matches = self._desk.fits(rows[0]["target"])
        return self._view.page(
            request,
            "thread.html",
            "inbox",
            rows[0]["subject"] or "Without a subject",
            rows=rows,
            first=rows[0],
            matches=matches,
            alone=ALONE,
            plain=PLAIN,
            keeper=self._desk.node.design.slows,
        )

    async def search(self, request: Request) -> Response:
        text = request.query_params.get("q", "")[:200]
        rows = self._desk.letters.search(text)
        return self._view.page(
            request, "search.html", "search", "Search", rows=rows, own=self._desk.name
        )

    async def file(self, request: Request) -> Response:
        found = self._desk.letters.file(
            request.path_params["letter"], request.path_params["number"]
        )
        if found is None:
            raise HTTPException(404)
        content = bytes(found["content"])
        shown = next((kind for start, kind in PICTURES.items() if content.startswith(start)), None)
        way = "inline" if shown else "attachment"
        headers = {
            "content-disposition": f"{way}; filename*=UTF-8''{quote(found['name'], safe='')}",
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return Response(content, media_type=shown or "application/octet-stream", headers=headers)

    # --- rooms

    async def rooms(self, request: Request) -> Response:
        folders = [
            each for each in self._desk.letters.folders() if each.target not in (ALONE, PLAIN)
        ]
        return self._view.page(
            request, "rooms.html", "rooms", "Rooms", folders=folders, own_tags=self._desk.tags()
        )

    def _room(self, request: Request) -> dict[str, object]:
        text = request.query_params.get("target", "")[:4096]
        try:
            target = str(parse(text))
        except LanguageError as error:
            raise HTTPException(400, f"{text} is no target: {error}") from None
        self._desk.letters.mark_folder_read(target)
        return {
            "target": target,
            "rows": self._desk.letters.room(target),
            "own": self._desk.name,
            "speakers": self._desk.letters.speakers(target),
            "matches": self._desk.fits(target),
        }

    async def room(self, request: Request) -> Response:
        values = self._room(request)
        meaning = await self._desk.meaning(str(values["target"]))
        return self._view.page(
            request, "room.html", "rooms", str(values["target"]), meaning=meaning, **values
        )

    async def room_list(self, request: Request) -> Response:
        return self._view.part("room_list.html", **self._room(request))

    # --- what one does not want

    async def blocks(self, request: Request) -> Response:
        rows = [dict(row) for row in self._desk.blocks.all()]
        for row in rows:
            row["shown"] = (
                self._desk.letters.known_as(row["what"]) if row["kind"] == "publisher" else ""
            )
        return self._view.page(
            request,
            "blocks.html",
            "blocks",
            "Blocked",
            rows=rows,
            hidden=self._desk.letters.page(None, 0, hidden=True)[:PAGE],
            keeper=self._desk.node.design.slows,
            design=self._desk.node.design.name,
            slowed=self._desk.node.slowed_until_us(),
        )

    async def block(self, request: Request) -> Response:
        form = await request.form()
        kind, what = str(form.get("kind", "")), str(form.get("what", "")).strip()
        if kind in KINDS and what:
            self._desk.blocks.add(kind, what, self._desk.now_us())
            self._desk.letters.judge_again()
            self._desk.tell("inbox")
        return to("/blocks", "blocked")

    async def unblock(self, request: Request) -> Response:
        form = await request.form()
        self._desk.blocks.remove(str(form.get("kind", "")), str(form.get("what", "")))
        self._desk.letters.judge_again()
        self._desk.tell("inbox")
        return to("/blocks", "unblocked")

    async def complain(self, request: Request) -> Response:
        found = self._desk.letters.letter(request.path_params["letter"])
        if found is None or found["own"]:
            raise HTTPException(404)
        self._desk.letters.mark_complained(found["id"], self._desk.now_us())
        try:
            went = await self._desk.node.complain(cast_id(found["cast_id"]))
        except NodeError:
            went = False
        said = (
            "complained"
            if went
            else "too-long-ago"
            if self._desk.node.design.slows
            else "cannot-complain"
        )
        return to(f"/thread/{quote(found['thread'], safe='')}", said)

    # --- news

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._news(request), media_type="text/event-stream")

    async def _news(self, request: Request) -> AsyncIterator[str]:
        queue = self._desk.listen()
        try:
            yield "retry: 2000\n\n"
            while not await request.is_disconnected():
                try:
                    what = await asyncio.wait_for(queue.get(), BEAT_S)
                    yield f"event: news\ndata: {what}\n\n"
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._desk.unlisten(queue)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 9 else 0
