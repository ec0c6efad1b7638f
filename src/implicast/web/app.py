"""The application: all pages of one desk, behind the guard; and how a node serves it."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from implicast.net.node import Node
from implicast.peer.errors import LocalError
from implicast.web.desk import Desk
from implicast.web.guard import Guard
from implicast.web.reading_pages import ReadingPages
from implicast.web.self_pages import SelfPages
from implicast.web.view import PageView
from implicast.web.writing_pages import WritingPages

HOST = "127.0.0.1"


class WebError(LocalError):
    """The page cannot be served; the text says why."""


def application(desk: Desk, port: int) -> Guard:
    view = PageView(desk)

    async def sorry(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = (
            str(error.detail)
            if isinstance(error, HTTPException)
            else "Something broke down here; it is in the log."
        )
        answer = view.page(request, "sorry.html", "", "Not here", text=text, status=status)
        answer.status_code = status
        return answer

    static = StaticFiles(directory=str(Path(str(files("implicast.web"))) / "static"))
    pages = (ReadingPages(desk, view), WritingPages(desk, view), SelfPages(desk, view))
    app = Starlette(
        routes=[*(route for each in pages for route in each.routes()), Mount("/static", static)],
        exception_handlers={HTTPException: sorry, 500: sorry},
    )
    return Guard(app, desk.mailbox.token(), port, HOST)


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the node."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(port: int) -> socket.socket:
    """A socket on loopback at this port; 0: at one that is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise WebError(
            f"port {port} cannot be used for the page: {error.strerror}; "
            "name another one after --web"
        ) from None
    return made


class Served:
    """The page of a node while it is entered; gives its address, with the token."""

    def __init__(self, node: Node, port: int, label: str = "", token: str = "") -> None:
        """`port` 0: one that is free. `token`: given, or drawn once and kept."""
        self._node, self._port, self._label, self._token = node, port, label, token
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> str:
        desk = self.desk = Desk(self._node, self._label)
        if self._token:
            desk.mailbox.put("token", self._token)
        self._stack.push_async_callback(desk.stop)
        listening = self._stack.enter_context(bound(self._port))
        port = int(listening.getsockname()[1])
        config = uvicorn.Config(
            application(desk, port),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
            ws="none",
        )
        server = _Quiet(config)
        task = asyncio.ensure_future(server.serve(sockets=[listening]))
        self._stack.push_async_callback(_ended, server, task)
        desk.start()
        return f"http://{HOST}:{port}/?token={desk.mailbox.token()}"

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


async def _ended(server: uvicorn.Server, task: "asyncio.Future[None]") -> None:
    server.should_exit = True
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(task, 3)
