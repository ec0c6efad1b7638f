"""Who may ask for a page: a client that has the token, from this very page, at this very address.

- The address that the command prints carries the token once; the page keeps it in a cookie that no script reads.
- Every answer, also of pictures and scripts, needs it: 401 without.
- The Host must be this machine's own, so that no foreign name can be made to point here; changes must come from this
  page's origin: 403 otherwise.
- The content policy lets the browser load from here only, and run no script that stands in a page.
"""

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX = 24 << 20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, token: str, port: int, host: str = "127.0.0.1") -> None:
        self._app, self._token, self._port = app, token, port
        self.cookie = f"implicast_{port}"
        self._hosts = {f"{name}:{port}" for name in (host, "127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("This page answers to its own address only.\n", 403)
        if self._given(scope):
            return self._entrance(scope)
        if not self._has_cookie(headers.get("cookie", "")):
            return PlainTextResponse(
                "Open the address that `implicast` printed: it carries the token.\n", 401
            )
        if scope["method"] not in ("GET", "HEAD"):
            return self._objection(headers)
        return None

    def _given(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return bool(given) and secrets.compare_digest(given.encode(), self._token.encode())

    def _entrance(self, scope: Scope) -> Response:
        """The token leaves the address and becomes a cookie."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        query.pop("token")
        path = "/" + scope["path"].lstrip("/\\")
        answer = RedirectResponse(path + ("?" + urlencode(query, doseq=True) if query else ""), 303)
        answer.set_cookie(self.cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer

    def _has_cookie(self, text: str) -> bool:
        try:
            found = SimpleCookie(text).get(self.cookie)
        except CookieError:
            return False
        return found is not None and secrets.compare_digest(
            found.value.encode(), self._token.encode()
        )

    def _objection(self, headers: Headers) -> Response | None:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        ours = {f"http://{host}" for host in self._hosts}
        if (origin is not None and origin != f"http://{headers['host']}") or (
            origin is None and site != "same-origin"
        ):
            return PlainTextResponse("Changes are taken from this page only.\n", 403)
        if site not in (None, "same-origin") or (origin is not None and origin not in ours):
            return PlainTextResponse("Changes are taken from this page only.\n", 403)
        length = headers.get("content-length", "")
        if not length.isdigit() or int(length) > BODY_MAX:
            return PlainTextResponse(
                f"At most {BODY_MAX >> 20} MiB are taken, and their length said.\n", 413
            )
        return None


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                if name not in headers:
                    headers[name] = value
        await send(message)

    return sent
