"""Pages for writing: drafts, what a target means, sending and taking back, receipts."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from implicast.language.errors import LanguageError
from implicast.language.parse import parse
from implicast.language.rules import widened
from implicast.language.tags import written
from implicast.web.desk import Desk
from implicast.web.drafts import Words
from implicast.web.letter import FILES_MAX, TEXT_MAX, named
from implicast.web.letters import ALONE, PLAIN
from implicast.web.view import PageView, to


class WritingPages:
    """What a writer asks for."""

    def __init__(self, desk: Desk, view: PageView) -> None:
        self._desk, self._view = desk, view

    def routes(self) -> list[Route]:
        return [
            Route("/write", self.write),
            Route("/write/new", self.begin, methods=["POST"]),
            Route("/write/check", self.check),
            Route("/write/{draft:int}", self.draft),
            Route("/write/{draft:int}/save", self.save, methods=["POST"]),
            Route("/write/{draft:int}/widen", self.widen, methods=["POST"]),
            Route("/write/{draft:int}/drop", self.drop, methods=["POST"]),
            Route("/write/{draft:int}/attach", self.attach, methods=["POST"]),
            Route("/write/{draft:int}/detach/{file:int}", self.detach, methods=["POST"]),
            Route("/write/{draft:int}/send", self.send, methods=["POST"]),
            Route("/reply/{letter:int}", self.reply, methods=["POST"]),
            Route("/room/say", self.say, methods=["POST"]),
            Route("/sent", self.sent),
            Route("/sent/{uid}", self.one),
            Route("/sent/{uid}/receipt", self.receipt),
            Route("/sent/{uid}/take-back", self.take_back, methods=["POST"]),
            Route("/sent/{uid}/again", self.again, methods=["POST"]),
        ]

    # --- drafts

    async def write(self, request: Request) -> Response:
        """Drafts that are open, and a new one."""
        held = self._desk.outgoing.held()
        drafts = [row for row in self._desk.drafts.all() if row["id"] not in held]
        return self._view.page(
            request,
            "write.html",
            "write",
            "Write",
            drafts=drafts,
            target=request.query_params.get("target", "")[:4096],
        )

    async def begin(self, request: Request) -> Response:
        form = await request.form()
        number = self._desk.drafts.begin(
            Words(target=str(form.get("target", ""))[:4096]), self._desk.now_us()
        )
        return to(f"/write/{number}")

    def _found(self, request: Request) -> Any:
        row = self._desk.drafts.get(request.path_params["draft"])
        if row is None or row["id"] in self._desk.outgoing.held():
            raise HTTPException(
                404, "This draft is not there any more: it was sent or thrown away."
            )
        return row

    async def draft(self, request: Request) -> Response:
        row = self._found(request)
        return await self._draft_page(request, row, "")

    async def _draft_page(self, request: Request, row: Any, error: str) -> Response:
        meaning = await self._desk.meaning(row["target"])
        about = self._desk.letters.thread(row["thread"])[:1] if row["thread"] else []
        to_whom = row["target"].removeprefix("name:").strip('"') if row["alone"] else ""
        return self._view.page(
            request,
            "draft.html",
            "write",
            "Write",
            draft=row,
            meaning=meaning,
            error=error,
            files=self._desk.drafts.files(row["id"]),
            about=about,
            tags=self._desk.known_tags(),
            to_whom=to_whom,
            to_label=self._desk.letters.known_as(to_whom),
            text_max=TEXT_MAX,
            matches=self._selects_me(meaning.target),
        )

    def _selects_me(self, target: Any) -> bool:
        said = self._desk.node.description
        return target is not None and said is not None and bool(target.selects(said))

    async def check(self, request: Request) -> Response:
        """What the target means, as it is typed."""
        meaning = await self._desk.meaning(request.query_params.get("target", "")[:16_384])
        draft = request.query_params.get("draft", "")
        return self._view.part(
            "meaning.html",
            meaning=meaning,
            draft_id=int(draft) if draft.isdecimal() else 0,
            matches=self._selects_me(meaning.target),
        )

    async def _words(self, request: Request, row: Any) -> Words:
        form = await request.form()
        target = row["target"] if row["alone"] else str(form.get("target", row["target"]))[:16_384]
        body = str(form.get("body", row["body"])).replace("\r\n", "\n")
        return Words(
            target,
            str(form.get("subject", row["subject"]))[:256],
            body,
            row["thread"],
            bool(row["alone"]),
        )

    async def save(self, request: Request) -> Response:
        """As it is typed: kept."""
        row = self._found(request)
        self._desk.drafts.save(row["id"], await self._words(request, row), self._desk.now_us())
        return (
            self._view.part("saved.html")
            if "hx-request" in request.headers
            else to(f"/write/{row['id']}", "saved")
        )

    async def widen(self, request: Request) -> Response:
        """Take an offer: the wider target stands in the field, to be seen."""
        row, form = self._found(request), await request.form()
        words = await self._words(request, row)
        tag, _, other = str(form.get("offer", "")).partition("\x1f")
        try:
            target = str(widened(parse(words.target), tag, other))
        except LanguageError:
            target = words.target
        self._desk.drafts.save(
            row["id"], Words(target, words.subject, words.body), self._desk.now_us()
        )
        return to(f"/write/{row['id']}", "widened")

    async def drop(self, request: Request) -> Response:
        self._desk.drafts.drop(self._found(request)["id"])
        return to("/write", "dropped")

    async def attach(self, request: Request) -> Response:
        """Files from a form; what is typed meanwhile is kept too."""
        row, form = (
            self._found(request),
            await request.form(max_files=FILES_MAX, max_part_size=TEXT_MAX * 8),
        )
        self._desk.drafts.save(row["id"], await self._words(request, row), self._desk.now_us())
        for each in form.getlist("file"):
            if not isinstance(each, str) and len(self._desk.drafts.files(row["id"])) < FILES_MAX:
                content = await each.read()
                if each.filename:
                    self._desk.drafts.attach(row["id"], each.filename, content)
        if request.headers.get("accept") == "application/json":
            return JSONResponse({"ok": True})
        return to(f"/write/{row['id']}", "attached")

    async def detach(self, request: Request) -> Response:
        row = self._found(request)
        self._desk.drafts.detach(row["id"], request.path_params["file"])
        return to(f"/write/{row['id']}", "detached")

    # --- sending

    async def send(self, request: Request) -> Response:
        row = self._found(request)
        words = await self._words(request, row)
        self._desk.drafts.save(row["id"], words, self._desk.now_us())
        error = self._objection(words)
        if error:
            return await self._draft_page(request, self._found(request), error)
        return to(f"/sent/{self._desk.send(row['id'], words)}")

    def _objection(self, words: Words) -> str:
        if len(words.body) > TEXT_MAX:
            return f"The text has {len(words.body):,} characters; {TEXT_MAX:,} travel in a letter."
        if not words.body.strip() and not words.subject.strip():
            return "There is neither a subject nor a text."
        try:
            parse(words.target)
        except LanguageError as error:
            return f"The target cannot be read: {error}."
        return ""

    async def reply(self, request: Request) -> Response:
        """A draft of an answer: to the author alone, or to all of the same target."""
        found, form = self._desk.letters.letter(request.path_params["letter"]), await request.form()
        if found is None:
            raise HTTPException(404)
        alone = form.get("to") != "all" or found["target"] in (ALONE, PLAIN)
        target = written(named(found["publisher"])) if alone else found["target"]
        subject = (
            found["subject"]
            if found["subject"].lower().startswith("re:")
            else f"Re: {found['subject']}"[:256]
        )
        words = Words(target, subject, "", found["thread"], alone)
        return to(f"/write/{self._desk.drafts.begin(words, self._desk.now_us())}")

    async def say(self, request: Request) -> Response:
        """A word in a room: sent as it is, with the same time to take it back."""
        form = await request.form()
        target, body = (
            str(form.get("target", ""))[:4096],
            str(form.get("body", "")).replace("\r\n", "\n"),
        )
        words = Words(target, "", body)
        if self._objection(words):
            raise HTTPException(400, self._objection(words))
        draft = self._desk.drafts.begin(words, self._desk.now_us())
        return to(f"/sent/{self._desk.send(draft, words)}")

    # --- receipts

    async def sent(self, request: Request) -> Response:
        rows = [dict(row) for row in self._desk.outgoing.all()]
        for row in rows:
            row["receipt"] = self._desk.receipt(row["cast_id"]) if row["cast_id"] else None
        return self._view.page(request, "sent.html", "sent", "Sent", rows=rows)

    def _state(self, request: Request) -> dict[str, Any]:
        row = self._desk.outgoing.get(request.path_params["uid"])
        if row is None:
            raise HTTPException(404)
        receipt = self._desk.receipt(row["cast_id"]) if row["cast_id"] else None
        left_s = max(0, round((row["due_us"] - self._desk.now_us()) / 1e6)) if row["due_us"] else 0
        silent = [
            (name, self._desk.letters.known_as(name))
            for name in (receipt.silent if receipt else ())
        ]
        return {
            "row": row,
            "receipt": receipt,
            "left_s": left_s,
            "silent": silent,
            "slowed": self._desk.node.slowed_until_us(),
        }

    async def one(self, request: Request) -> Response:
        return self._view.page(request, "receipt_page.html", "sent", "Sent", **self._state(request))

    async def receipt(self, request: Request) -> Response:
        return self._view.part("receipt.html", **self._state(request))

    async def take_back(self, request: Request) -> Response:
        draft = self._desk.outgoing.take_back(request.path_params["uid"])
        if draft is None:
            return to(f"/sent/{request.path_params['uid']}", "too-late")
        return to(f"/write/{draft}", "taken-back")

    async def again(self, request: Request) -> Response:
        row = self._desk.outgoing.get(request.path_params["uid"])
        if row is None or row["error"] is None or row["draft"] is None:
            raise HTTPException(404)
        self._desk.outgoing.dismiss(row["uid"])
        return to(f"/write/{row['draft']}")
