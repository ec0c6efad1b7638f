"""Pages about oneself and the network: tags, a bibliography, tag rules, the neighbourhood."""

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from implicast.language.errors import LanguageError
from implicast.language.parse import description
from implicast.language.rules import RELATIONS, SAID, Rule
from implicast.language.tags import tag as folded
from implicast.language.tags import written
from implicast.peer.errors import ImplicastError
from implicast.web.desk import Desk
from implicast.web.neighbourhood import Neighbourhood
from implicast.web.reading import (
    FILE_MAX,
    PAPERS,
    TAGS,
    Proposal,
    ReadingError,
    proposal,
    read,
    text_of,
)
from implicast.web.view import PageView, to


class SelfPages:
    """What a person asks about itself."""

    def __init__(self, desk: Desk, view: PageView) -> None:
        self._desk, self._view = desk, view
        self._around = Neighbourhood(desk)

    def routes(self) -> list[Route]:
        return [
            Route("/me", self.me),
            Route("/me/save", self.save, methods=["POST"]),
            Route("/me/bibliography", self.bibliography, methods=["POST"]),
            Route("/me/watch", self.watch, methods=["POST"]),
            Route("/me/adopt", self.adopt, methods=["POST"]),
            Route("/me/dismiss", self.dismiss, methods=["POST"]),
            Route("/rules", self.rules),
            Route("/rules/state", self.state, methods=["POST"]),
            Route("/rules/retract", self.retract, methods=["POST"]),
            Route("/rules/names", self.names, methods=["POST"]),
            Route("/network", self.network),
            Route("/network/now", self.now),
        ]

    # --- who I am

    async def me(self, request: Request) -> Response:
        return self._me(request, "")

    def _me(self, request: Request, error: str, text: str | None = None) -> Response:
        desk = self._desk
        found, flaw = self._proposal()
        said = desk.node.description
        return self._view.page(
            request,
            "me.html",
            "me",
            "Who I am",
            error=error or flaw,
            text=desk.described() if text is None else text,
            proposal=found,
            kept=set(desk.tags()),
            watched=desk.mailbox.get("watched"),
            registered=desk.node.registered.is_set(),
            values=said.values if said is not None else (),
            rights=desk.rights(),
            papers=PAPERS,
            most=TAGS,
        )

    def _proposal(self) -> tuple[Proposal | None, str]:
        if not self._desk.mailbox.get("proposed"):
            return None, ""
        try:
            return proposal(self._desk.mailbox.get("bibliography").encode()), ""
        except ReadingError as error:
            return None, str(error)

    async def save(self, request: Request) -> Response:
        form = await request.form()
        text, author = str(form.get("text", ""))[:8192], str(form.get("author", "")).strip()[:80]
        if author:
            self._desk.mailbox.put("author", author)
        return await self._describe(request, text)

    async def _describe(self, request: Request, text: str) -> Response:
        try:
            description(text)
            await self._desk.describe(text)
        except LanguageError as error:
            return self._me(request, f"{error}", text)
        except ImplicastError as error:
            return self._me(request, f"{error}", text)
        return to("/me", "described")

    async def bibliography(self, request: Request) -> Response:
        form = await request.form()
        given = form.get("file")
        content = b"" if given is None or isinstance(given, str) else await given.read(FILE_MAX)
        try:
            proposal(content)
        except ReadingError as error:
            return self._me(request, str(error))
        self._desk.mailbox.put("bibliography", text_of(content)[0])
        self._desk.mailbox.put("proposed", "1")
        return to("/me", "read")

    async def watch(self, request: Request) -> Response:
        path = str((await request.form()).get("path", "")).strip()
        if not path:
            self._desk.mailbox.put("watched", "")
            return to("/me", "unwatched")
        where = Path(path).expanduser()
        try:
            proposal(read(where))
        except ReadingError as error:
            return self._me(request, str(error))
        self._desk.mailbox.put("watched", str(where))
        return to("/me", "watched")

    async def adopt(self, request: Request) -> Response:
        """The tags that are ticked, beside the attributes that are there; those by hand stay where
        they are ticked.
        """
        form = await request.form()
        tags = []
        for each in form.getlist("tag"):
            try:
                tags.append(written(folded(str(each))))
            except LanguageError:
                continue
        answer = await self._describe(
            request, ", ".join([*dict.fromkeys(tags), *self._desk.values()])
        )
        if answer.status_code == 303:
            self._desk.mailbox.put("proposed", "")
        return answer

    async def dismiss(self, request: Request) -> Response:
        self._desk.mailbox.put("proposed", "")
        return to("/me")

    # --- rules

    async def rules(self, request: Request) -> Response:
        return self._rules(request, "")

    def _rules(self, request: Request, error: str) -> Response:
        return self._view.page(
            request,
            "rules.html",
            "rules",
            "Tag rules",
            rows=self._desk.thesaurus.supported(),
            names_min=self._desk.thesaurus.names_min,
            relations=RELATIONS,
            sayings=SAID,
            error=error,
            tags=self._desk.known_tags(),
        )

    async def state(self, request: Request) -> Response:
        try:
            rule = self._desk.thesaurus.state(await self._rule(request))
        except LanguageError as error:
            return self._rules(request, str(error))
        self._desk.say_rules(f"{written(rule.tag)} | {written(rule.other)}")
        return to("/rules", "stated")

    async def retract(self, request: Request) -> Response:
        rule = await self._rule(request)
        self._desk.thesaurus.retract(rule)
        self._desk.say_rules(f"{written(rule.tag)} | {written(rule.other)}")
        return to("/rules", "retracted")

    async def _rule(self, request: Request) -> Rule:
        form = await request.form()
        relation: Any = str(form.get("relation", ""))
        if relation not in RELATIONS:
            raise LanguageError(f"{relation!r} is no relation; there are {', '.join(RELATIONS)}")
        return Rule(str(form.get("tag", ""))[:256], relation, str(form.get("other", ""))[:256])

    async def names(self, request: Request) -> Response:
        text = str((await request.form()).get("names", ""))
        if text.isdecimal():
            self._desk.thesaurus.set_names_min(int(text[:6]))
        return to("/rules", "saved")

    # --- the network

    async def network(self, request: Request) -> Response:
        return self._view.page(
            request, "network.html", "network", "Network", now=self._around.now()
        )

    async def now(self, request: Request) -> Response:
        if request.headers.get("accept") == "application/json":
            return JSONResponse(self._around.now())
        return self._view.part("network_now.html", now=self._around.now())
